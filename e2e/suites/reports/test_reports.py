"""`kubectl get reports` shows which jobs were corrected, warned about and refused, by which rule and why."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from e2e.suites.reports.conftest import Early
from e2e.suites.reports.reportings import Reporting
from e2e.suites.support import spares, thorough
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.support.waits import until
from e2e.suites.validation import jobs

pytestmark = pytest.mark.xdist_group("installation")

TOKEN = "hf_" + "e2eE2E" * 6
VERBS = ("get", "create", "update")
OUTCOMES = ("pass", "fail", "warn", "error", "skip")


def test_without_the_kind_jobs_are_judged_all_the_same_and_one_warning_says_what_to_install(
    early: Early | None, reporting: Reporting
) -> None:
    if early is None:
        pytest.skip("this cluster had the kind before")
    assert early.outcome.refused_with("spec.trainer.numNodes")
    (advice,) = {each["advice"] for each in early.told}  # of each replica
    assert advice.startswith(f"install the CustomResourceDefinition {reporting.resource}: ")


def test_what_came_before_the_kind_is_reported_when_it_is_there(early: Early | None, reporting: Reporting) -> None:
    if early is None:
        pytest.skip("this cluster had the kind before")
    reporting.wait(early.space, {"wrong": {"fail"}}, 120)


def test_corrected_warned_and_refused_jobs_are_reported_with_rule_field_and_reason(
    reported: Reporting, told: Space
) -> None:
    found = reported.results(told)
    launch = next(each for each in found["sft"] if each["rule"] == "trl/launch")
    assert launch["message"].startswith("spec.trainer.command")
    assert launch["properties"]["decision"] == "patched"
    assert {each["properties"]["fields"] for each in found["wrong"]} == set(jobs.MISTAKES)
    for field, words in jobs.MISTAKES.items():
        assert any(each["message"].startswith(f"{field}: ") and words in each["message"] for each in found["wrong"])


def test_the_jobset_of_a_corrected_job_has_results_of_its_own(reported: Reporting, told: Space) -> None:
    found = until("results of the JobSet", lambda: reported.results(told, "JobSet").get("sft"), 40)
    assert {each["result"] for each in found} == {"pass"}
    assert any("MASTER_ADDR" in each["message"] for each in found)


def test_the_summary_counts_the_results_and_kubectl_shows_it(reported: Reporting, told: Space) -> None:
    report = reported.report_in(told)
    assert report is not None
    outcomes = [each["result"] for each in report["results"]]
    assert report["summary"] == {each: outcomes.count(each) for each in OUTCOMES}
    line = reported.kubectl.run("get", reported.resource, "-n", told.name, "--no-headers").expect().out.split()
    assert line[:6] == ["muster", *(str(outcomes.count(each)) for each in OUTCOMES)]


def test_the_api_server_keeps_every_member_that_muster_writes(reported: Reporting, told: Space) -> None:
    report = reported.report_in(told)
    assert report is not None
    assert report["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "muster"}
    members = {"source", "policy", "rule", "category", "severity", "timestamp", "result", "resources", "message"}
    for each in report["results"]:
        assert set(each) == members | {"properties", "scored"}
        assert set(each["timestamp"]) == {"seconds", "nanos"}
        assert set(each["properties"]) == {"resultID", "phase", "decision", "mode", "uid", "fields", "framework"}


def test_a_job_that_was_put_right_is_refused_no_more(reported: Reporting, space: Space) -> None:
    assert not space.apply(jobs.wrong("sft")).ok
    reported.wait(space, {"sft": {"fail"}})
    space.apply(jobs.sft()).expect()
    reported.wait(space, {"sft": {"pass"}})


@pytest.mark.thorough
def test_in_mode_warn_the_report_says_what_was_left_as_it_was(reported: Reporting, space: Space) -> None:
    space.mode("warn")
    space.apply(jobs.sft()).expect()
    space.apply(jobs.wrong()).expect()
    reported.wait(space, {"sft": {"warn"}, "wrong": {"fail"}})
    found = reported.results(space)
    assert any(each["message"].startswith("not corrected in mode warn: ") for each in found["sft"])
    assert {each["properties"]["decision"] for each in found["wrong"]} == {"allowed"}


@pytest.mark.thorough
def test_a_dry_run_is_not_reported(reported: Reporting, space: Space) -> None:
    assert not space.apply(jobs.wrong("dry"), dry_run=True).ok
    assert not space.apply(jobs.wrong("real")).ok
    reported.wait(space, {"real": {"fail"}})


def test_secrets_are_not_shown_to_the_namespace(reported: Reporting, space: Space) -> None:
    args = (*jobs.NEEDED, f"--hub_token={TOKEN}", f"--hub_tokn={TOKEN}")
    assert not space.apply(jobs.sft("secret", args=args)).ok
    until("the report", lambda: reported.results(space).get("secret"), 40)
    assert TOKEN not in json.dumps(reported.report_in(space))


@pytest.mark.thorough
def test_a_restarted_muster_goes_on_with_the_report_that_there_is(reported: Reporting, space: Space) -> None:
    assert not space.apply(jobs.wrong("before")).ok
    reported.wait(space, {"before": {"fail"}})
    reported.installation.restart()
    assert not space.apply(jobs.wrong("after")).ok
    reported.wait(space, {"before": {"fail"}, "after": {"fail"}})


@pytest.mark.thorough
def test_two_replicas_write_one_report_and_lose_nothing(
    reported: Reporting, space: Space, kubectl: Kubectl, tmp_path: Path
) -> None:
    config = {"audit": {"stdout": True, "reports": reported.format}}
    with Spare(tmp_path, spares.kubeconfig(kubectl), config) as other:
        other.wait_ready()
        for number in range(3):
            asked = other.ask(jobs.wrong(f"there-{number}"), space.name, "validate")
            assert not asked.allowed
            assert not space.apply(jobs.wrong(f"here-{number}")).ok
        wanted = {f"{where}-{number}": {"fail"} for where in ("here", "there") for number in range(3)}
        reported.wait(space, wanted)


@pytest.mark.parametrize("verb", thorough.but("update", of=VERBS))
def test_without_a_right_nothing_is_reported_and_what_waited_is_when_it_is_given_back(
    reported: Reporting, space: Space, kubectl: Kubectl, verb: str
) -> None:
    known = {}
    if verb == "update":  # which needs a report that is there
        assert not space.apply(jobs.wrong("first")).ok
        known = {"first": {"fail"}}
        reported.wait(space, known)
    since = datetime.datetime.now(datetime.UTC)
    with reported.without(verb):
        until(f"Muster not to be allowed to {verb}", lambda: not _may(reported, kubectl, space, verb))
        assert not space.apply(jobs.wrong("second")).ok
        told = until("Muster to say so", lambda: reported.warnings(since), 40)
        assert f'cannot {verb} resource "{reported.resource.partition(".")[0]}"' in told[0]["problem"]
        assert set(reported.results(space)) == set(known)
    reported.wait(space, {**known, "second": {"fail"}}, 60)


def _may(reported: Reporting, kubectl: Kubectl, space: Space, verb: str) -> bool:
    name = () if verb == "create" else ("muster",)
    about = "/".join((reported.resource, *name))
    who = "system:serviceaccount:muster-system:muster"
    return kubectl.run("auth", "can-i", verb, about, "-n", space.name, "--as", who).ok
