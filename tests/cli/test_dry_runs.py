"""`muster check --cluster FILE` asks the API server about the job and a pod of each template, and stores nothing."""

from __future__ import annotations

import json

import pytest

from tests.cli import jobs
from tests.cli.test_check_cluster import check, cluster  # noqa: F401  # fixtures
from tests.support.jobs import make_jobset

PODS = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged'
NO_RIGHT = 'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "team-a"'
UNSUPPORTED = 'admission webhook "x.example" does not support dry run'
OURS = 'admission webhook "create.jobsets.muster.dev" denied the request: ...'


def asked(check, *documents):  # noqa: F811  # the fixture of that name
    return check("-n", "team-a", "-o", "json", "-", stdin=jobs.stream(*documents))


def told(result):
    return [each for item in json.loads(result.out) for each in item["findings"] if each["rule"] == "core/dry-run"]


def a_jobset():
    jobset = make_jobset("mine", metadata={"namespace": "team-a"})
    jobset["spec"]["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "work"}, "spec": {}}]}]
    return jobset


def test_a_job_and_its_pods_are_created_as_dry_runs(cluster, check):  # noqa: F811  # the fixture of that name
    assert told(asked(check, jobs.two_nodes("mine"))) == []
    assert [plural for plural, _, _ in cluster.server.created] == ["trainjobs", "jobs", "pods"]
    assert all(query == {"dryRun": "All"} for _, query, _ in cluster.server.created)
    pod = cluster.server.created[2][2]
    assert (pod["metadata"]["namespace"], pod["spec"]["restartPolicy"]) == ("team-a", "OnFailure")


def test_the_volume_of_a_claim_that_jobset_makes_is_there(cluster, check):  # noqa: F811  # the fixture of that name
    asked(check, a_jobset())
    (pod,) = [document for plural, _, document in cluster.server.created if plural == "pods"]
    assert {"name": "work", "emptyDir": {}} in pod["spec"]["volumes"]


@pytest.mark.parametrize("plural", ["pods", "jobs", "jobsets"])
def test_a_refusal_is_told_in_the_words_of_the_api_server(cluster, check, plural):  # noqa: F811  # the fixture of that name
    cluster.server.refusals[plural] = (403, PODS)
    (finding,) = told(asked(check, a_jobset()))
    assert finding["severity"] == "error"
    assert PODS in finding["message"]


@pytest.mark.parametrize(
    ("code", "message"), [(403, NO_RIGHT), (403, OURS), (409, "exists"), (404, "no namespace"), (400, UNSUPPORTED)]
)
def test_what_says_nothing_about_the_pods_is_not_a_finding(cluster, check, code, message):  # noqa: F811  # the fixture of that name
    cluster.server.refusals["pods"] = (code, message)
    result = asked(check, a_jobset())
    assert told(result) == []
    assert ("may not be created in team-a" in result.err) is (message == NO_RIGHT)


def test_a_job_whose_runtime_is_in_the_files_is_not_sent_and_its_pods_are(cluster, check):  # noqa: F811  # the fixture of that name
    asked(check, jobs.two_nodes("mine"), jobs.runtime("trl-distributed", "trl"))
    assert [plural for plural, _, _ in cluster.server.created] == ["jobs", "pods"]


def test_what_is_wrong_with_a_job_and_its_pod_is_told_once(cluster, check):  # noqa: F811  # the fixture of that name
    cluster.server.refusals |= {plural: (422, f"{plural} is invalid") for plural in ("jobs", "pods")}
    (finding,) = told(asked(check, a_jobset()))
    assert "jobs is invalid" in finding["message"]


def test_a_quota_that_others_have_used_up_is_a_warning(cluster, check):  # noqa: F811  # the fixture of that name
    cluster.server.refusals["pods"] = (
        403,
        'pods "x" is forbidden: exceeded quota: gpus, requested: 8, used: 8, limited: 8',
    )
    (finding,) = told(asked(check, a_jobset()))
    assert finding["severity"] == "warning"


def test_stored_jobs_are_not_sent(cluster, check):  # noqa: F811  # the fixture of that name
    cluster.put(jobs.two_nodes("right"))
    check()
    assert cluster.server.created == []
