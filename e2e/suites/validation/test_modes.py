"""Modes: a label of the namespace sets how far Muster goes, and wins over the setting for the whole cluster."""

from __future__ import annotations

import pytest

from e2e.suites.support import thorough, waits
from e2e.suites.support.spaces import JOBSETS
from e2e.suites.validation import jobs

APPLIED = "muster.dev/applied"
ADDED = {"MASTER_ADDR", "MASTER_PORT", "MUSTER_EXPECTED_WORLD_SIZE"}
SILENT = ["audit", "off"]
PASSIVE = ["warn", *SILENT]


def records(installation, space, kind="TrainJob", phase="mutate", *, operation="CREATE", name=None):
    """The audit records of one kind of request in a namespace, without those of dry runs; at least one."""

    def look():
        return [
            each
            for each in installation.audit(space.name)
            if (each["object"]["kind"], each["phase"], each["operation"]) == (kind, phase, operation)
            and not each["dryRun"]
            and name in (None, each["object"]["name"])
        ]

    return waits.until(f"an audit record of {kind} {phase} in {space.name}", look, 10)


def annotations(document):
    return document["metadata"].get("annotations") or {}


def env_of(jobset):
    (node,) = jobset["spec"]["replicatedJobs"][-1]["template"]["spec"]["template"]["spec"]["containers"]
    return {each["name"] for each in node.get("env") or ()}


@pytest.mark.parametrize("mode", thorough.but("warn", of=PASSIVE))
def test_a_job_is_stored_as_it_was_written(space, mode):
    space.mode(mode)
    for job in (jobs.sft(), jobs.wrong()):
        space.apply(job).expect()
        stored = space.trainjob(job["metadata"]["name"])
        assert stored["spec"]["trainer"] == job["spec"]["trainer"]
        assert APPLIED not in annotations(stored)


@pytest.mark.parametrize("mode", thorough.but("warn", of=PASSIVE))
def test_nothing_is_added_to_the_jobset(space, mode):
    space.mode(mode)
    space.apply(jobs.sft()).expect()
    jobset = space.wait_jobset("sft")
    assert not env_of(jobset) & ADDED
    assert APPLIED not in annotations(jobset)


def test_the_jobset_of_an_enforced_job_gets_the_rendezvous(space):
    space.apply(jobs.sft()).expect()
    jobset = space.wait_jobset("sft")
    assert env_of(jobset) >= ADDED
    assert APPLIED in annotations(jobset)


def test_warn_says_what_would_be_changed_and_denied(space):
    space.mode("warn")
    warnings = space.apply(jobs.wrong()).expect().warnings
    for field, words in jobs.MISTAKES.items():
        assert any(each.startswith(f"Muster would refuse: {field}: ") and words in each for each in warnings), warnings
    warnings = space.apply(jobs.sft()).expect().warnings
    assert any(each.startswith("Muster would replace spec.trainer.command: ") for each in warnings), warnings


def test_warn_records_what_it_would_have_done(space, installation):
    space.mode("warn")
    space.apply(jobs.wrong(), jobs.sft()).expect()
    validated = records(installation, space, phase="validate", name="wrong")
    assert [(each["mode"], each["decision"]) for each in validated] == [("warn", "allowed")]
    assert {each["field"] for each in validated[0]["findings"]} == set(jobs.MISTAKES)
    mutated = records(installation, space, name="sft")
    assert [(each["mode"], each["decision"]) for each in mutated] == [("warn", "unchanged")]
    assert "spec.trainer.command" in [each["field"] for each in mutated[0]["changes"]]


@pytest.mark.parametrize("mode", thorough.but("off", of=SILENT))
def test_audit_and_off_say_nothing(space, mode):
    space.mode(mode)
    for job in (jobs.wrong(), jobs.script()):
        assert space.apply(job).expect().err == ""


def test_audit_records_what_it_would_have_done(space, installation):
    space.mode("audit")
    space.apply(jobs.sft()).expect()
    space.wait_jobset("sft")
    (trainjob,), (jobset, *_) = records(installation, space), records(installation, space, "JobSet")
    for record in (trainjob, jobset):
        assert (record["mode"], record["decision"]) == ("audit", "unchanged")
    (command, *_) = trainjob["changes"]
    assert (command["before"], command["after"], command["rule"]) == (["trl", "sft"], jobs.MENDED, "trl/launch")
    assert {each["after"]["name"] for each in jobset["changes"] if "env[" in each["field"]} == ADDED


def test_off_records_that_it_looked_away(space, installation):
    space.mode("off")
    space.apply(jobs.wrong()).expect()
    (record,) = records(installation, space)
    assert (record["mode"], record["decision"], record["changes"]) == ("off", "skipped", [])
    assert [each["decision"] for each in records(installation, space, phase="validate")] == ["skipped"]


@pytest.mark.parametrize("mode", thorough.but("warn", of=PASSIVE))
def test_a_jobset_without_trainer_is_left_alone_too(space, mode):
    space.mode(mode)
    space.apply(jobs.sampler(features="sleep,fly")).expect()
    stored = space.get(JOBSETS, "sampler")
    (server,) = stored["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    assert (server.get("command"), len(server["args"])) == (None, 2)
    assert APPLIED not in annotations(stored)


def test_the_namespaces_label_goes_before_the_global_mode_for_its_own_jobs_only(space, elsewhere):
    space.mode("off")
    assert space.apply(jobs.wrong()).ok
    assert not elsewhere.apply(jobs.wrong()).ok


def test_the_namespaces_label_goes_before_the_mode_of_a_framework(space, elsewhere, framework):
    """The framework is set to `warn`, the whole cluster to `enforce`."""
    outcome = elsewhere.apply(framework)
    assert outcome.ok
    assert any("numNodes" in each for each in outcome.warnings)
    space.mode("enforce")

    def refused():
        return space.apply(framework, dry_run=True).refused_with("spec.trainer.numNodes: Invalid value: 0")

    waits.until("Muster to see the label", refused)
    assert not space.apply(framework).ok


def test_a_framework_that_an_author_names_in_a_runtime_makes_no_mode_milder(space, a_runtime_of_a_namespace):
    def refused():
        return space.apply(a_runtime_of_a_namespace).refused_with("spec.trainer.numNodes: Invalid value: 0")

    waits.until("Muster to see the runtime", refused)


def test_a_label_that_is_no_mode_counts_for_nothing_and_is_told(space):
    space.mode("enforced")

    def told():
        return any("muster.dev/mode" in each for each in space.apply(jobs.sft(), dry_run=True).warnings)

    waits.until("Muster to see the label", told)
    space.apply(jobs.sft()).expect()
    assert space.trainjob("sft")["spec"]["trainer"]["command"] == jobs.MENDED
    assert not space.apply(jobs.wrong()).ok


def test_a_job_that_was_changed_once_is_kept_so_after_muster_is_switched_off(space, installation):
    job = jobs.sft()
    space.apply(job, server_side=True).expect()
    space.mode("off")
    space.apply(job, server_side=True).expect()
    assert space.trainjob("sft")["spec"]["trainer"]["command"] == jobs.MENDED
    restored = records(installation, space, operation="UPDATE")
    assert "core/restore" in {change["rule"] for each in restored for change in each["changes"]}


def test_a_dry_run_shows_the_job_as_it_would_be_stored(space, installation):
    shown = space.apply(jobs.sft(), dry_run=True, options=("-o", "json")).expect().json
    assert shown["spec"]["trainer"]["command"] == jobs.MENDED
    assert APPLIED in shown["metadata"]["annotations"]
    assert space.trainjob("sft") is None
    seen = waits.until("the records of the dry run", lambda: installation.audit(space.name)[1:], 10)
    assert {each["dryRun"] for each in installation.audit(space.name)} == {True}
    assert seen
    assert installation.audit(space.name)[0]["decision"] == "patched"
