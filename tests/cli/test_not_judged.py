"""`muster check` says which documents it did not judge, and how each job ends, in every form of its output."""

from __future__ import annotations

from xml.etree import ElementTree as Xml  # of our own output

import pytest

from tests.cli import jobs

PYTORCH = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "older"}, "spec": {}}
DOMAIN = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomain", "metadata": {"name": "domain"}}


def pod(*command):
    return {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "command": list(command)}]}


def plain_job(*command):
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": pod(*command)}},
    }


def jobset(*command):
    template = {"spec": {"template": {"spec": pod(*command)}}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {"replicatedJobs": [{"name": "w", "template": template}]},
    }


def check(muster, *documents, options=()):
    return muster("check", "-", *options, stdin=jobs.stream(*documents))


@pytest.mark.parametrize(
    ("document", "told", "trains"),
    [
        (PYTORCH, "1 document not judged (1 PyTorchJob)", True),
        ({**PYTORCH, "apiVersion": "ray.io/v1", "kind": "RayJob"}, "(1 RayJob)", True),
        ({**PYTORCH, "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}, "(1 Job)", True),
        ({**PYTORCH, "apiVersion": "ml.example.com/v1", "kind": "TrainJob"}, "(1 TrainJob)", True),
        (
            {**PYTORCH, "apiVersion": "optimizer.kubeflow.org/v1alpha1", "kind": "OptimizationJob"},
            "(1 OptimizationJob)",
            True,
        ),
        (plain_job("torchrun", "train.py"), "(1 Job)", True),
        (jobset("./train.sh"), "(1 JobSet without a framework label)", True),
        (jobset("sleep", "infinity"), "(1 JobSet without a framework label)", False),
        (DOMAIN, "(1 ComputeDomain)", False),
        (plain_job("./load.sh"), "1 other document ignored", False),
        (jobs.configmap(), "1 other document ignored", False),
        (
            {**plain_job(), "spec": {"template": {"spec": {"containers": [3, {"command": "x"}]}}}},
            "1 other document",
            False,
        ),
    ],
)
def test_what_was_not_judged_is_counted_by_what_it_is_and_strict_fails_where_people_train(
    muster, document, told, trains
):
    result = check(muster, jobs.two_nodes(), document)
    assert (result.code, result.out) == (0, "")
    assert told in result.err
    assert check(muster, jobs.two_nodes(), document, options=["--strict"]).code == (1 if trains else 0)


def test_the_text_names_each_document_in_which_people_train_and_the_command_that_migrates_it(muster):
    ray = {**PYTORCH, "apiVersion": "ray.io/v1", "kind": "RayJob"}
    result = check(muster, jobs.two_nodes(), PYTORCH, ray, jobs.configmap())
    named = [line for line in result.err.splitlines() if "was not judged" in line]
    assert [line.partition(" was ")[0] for line in named] == [
        "muster: stdin:doc 2: PyTorchJob/older",
        "muster: stdin:doc 3: RayJob/older",
    ]
    assert ["muster migrate" in line for line in named] == [True, False]


def test_several_documents_of_a_kind_are_counted_together(muster):
    assert "3 documents not judged (2 PyTorchJob, 1 ComputeDomain)" in check(muster, PYTORCH, DOMAIN, PYTORCH).err


def test_json_names_what_was_not_judged_and_the_end_of_each_job(muster):
    job, other = check(muster, jobs.two_nodes(), PYTORCH, options=["-o", "json"]).json()
    explained = muster("explain", "-", "-o", "json", "--no-jobset", stdin=jobs.stream(jobs.two_nodes())).json()
    assert job["ending"] == explained[0]["ending"]
    assert (other["kind"], other["name"], other["trains"]) == ("PyTorchJob", "older", True)
    assert other["notJudged"].startswith("PyTorchJob/older was not judged")


def test_sarif_tells_what_was_not_judged(muster):
    (run,) = check(muster, jobs.two_nodes(), PYTORCH, jobs.configmap(), options=["-o", "sarif"]).json()["runs"]
    told = run["invocations"][0]["toolExecutionNotifications"]
    assert [each["level"] for each in told] == ["warning", "note"]
    assert told[0]["message"]["text"].startswith("PyTorchJob/older was not judged")
    assert run["invocations"][0]["executionSuccessful"] is True


def test_junit_skips_what_was_not_judged_and_strict_makes_it_a_failure(muster):
    root = Xml.fromstring(check(muster, jobs.two_nodes(), PYTORCH, jobs.configmap(), options=["-o", "junit"]).out)  # noqa: S314  # of our own output
    assert (root.get("tests"), root.get("skipped"), root.get("failures")) == ("2", "1", "0")
    assert root.find(".//property").attrib == {"name": "ignored", "value": "1"}
    root = Xml.fromstring(check(muster, jobs.two_nodes(), PYTORCH, options=["-o", "junit", "--strict"]).out)  # noqa: S314  # of our own output
    assert (root.get("tests"), root.get("skipped"), root.get("failures")) == ("2", "0", "1")
    assert "was not judged" in root.find(".//failure").get("message")


def test_code_hosts_show_what_was_not_judged_and_count_the_rest(muster):
    lines = check(muster, PYTORCH, DOMAIN, jobs.configmap(), options=["-o", "github"]).out.splitlines()
    assert [line.partition(" ")[0] for line in lines[:2]] == ["::warning", "::notice"]
    assert lines[2] == "::notice::1 other document ignored"


def test_an_open_end_is_counted_and_fails_by_a_switch_of_its_own(muster):
    command = ["torchrun", "--nproc-per-node=1", "train.py"]
    result = check(muster, jobset(*command))
    assert "; 1 job ends as open" in result.err
    assert result.code == 0
    assert check(muster, jobset(*command), options=["--strict"]).code == 0
    assert check(muster, jobset(*command), options=["--strict-open"]).code == 1
    assert check(muster, jobs.two_nodes(), options=["--strict-open"]).code == 0
    root = Xml.fromstring(check(muster, jobset(*command), options=["--strict-open", "-o", "junit"]).out)  # noqa: S314  # of our own output
    assert (root.get("failures"), root.find(".//failure").get("type")) == ("1", "open")


def test_a_jobset_without_a_label_is_judged_by_its_launch_and_stays_as_it_is(muster):
    document = jobset("torchrun", "--nnodes=3", "--node-rank=0", "--master-addr=set-w-0-0.set", "train.py")
    result = check(muster, document)
    assert "(core/nodes)" in result.out
    assert "the webhook of Muster will not touch it" in result.out
    (explained,) = muster("explain", "-", "-o", "json", stdin=jobs.stream(document)).json()
    assert explained["runtime"]["source"] == "launch"
    assert (explained["framework"], explained["changes"], explained["refused"]) == ("torch", [], False)
    assert "its missing label lets this job pass" in explained["ending"]["text"]
    (shown,) = muster("render", "-", "-o", "json", stdin=jobs.stream(document)).json()
    assert shown == document


def test_a_member_written_twice_is_a_warning_at_its_last_line_in_any_document(muster):
    text = (
        jobs.stream(jobs.two_nodes())
        + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: x\n  a: z\n"
    )
    result = muster("check", "-", stdin=text)
    line = text[: text.index("a: z")].count("\n") + 1
    assert f"stdin:{line}:3: warning: ConfigMap/a data[a]: 'z': is written twice" in result.out.replace(
        "data.a", "data[a]"
    )
    assert (result.code, "x" in result.out.split("'z'")[1].split()) == (0, False)
