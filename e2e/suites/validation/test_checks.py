"""`muster check --cluster FILE` tells what the API server will refuse: in its own words, or with what to write."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
import yaml

from e2e.suites.support import documents, waits
from e2e.suites.support.spaces import Space
from e2e.suites.validation import jobs
from muster.webhook.cli import main

LEVEL = "pod-security.kubernetes.io/enforce"
OVERRIDES = [{"targetJobs": [{"name": "node"}], "spec": {"serviceAccountName": "trainer"}}]


@pytest.fixture
def ready(space: Space) -> Space:
    """The namespace, once its pods may have a service account, without which none can be made."""
    waits.until("the default service account", lambda: space.get("serviceaccounts", "default"), 30)
    return space


def told(space: Space, folder, document, rule="core/dry-run"):
    """The messages of a rule that `muster check --cluster` reports for a document."""
    path = folder / "job.json"
    path.write_text(json.dumps(document))
    options = ["--cluster", "--kubeconfig", space.kubectl.kubeconfig, "-n", space.name, "-o", "json"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main.main(["check", *options, str(path)])
    (checked,) = json.loads(out.getvalue())
    assert "dry run" not in err.getvalue(), err.getvalue()
    return [each["message"] for each in checked["findings"] if each["rule"] == rule]


def job(space: Space, kind: str):
    if kind == "JobSet":
        return documents.jobset("mine", "torch", command=["torchrun", "train.py"])
    space.apply(documents.training_runtime("mine", "torch", command=["torchrun", "train.py"])).expect()
    document = documents.trainjob("mine", "mine", suspend=True)
    waits.until("the TrainJob to be admitted", lambda: space.apply(document, dry_run=True).ok, 20)
    return document


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_a_pod_that_pod_security_refuses_is_told_in_the_words_of_the_api_server(ready, tmp_path, kind):
    document = job(ready, kind)
    assert told(ready, tmp_path, document) == []
    label = {"metadata": {"labels": {LEVEL: "restricted"}}}
    ready.kubectl.patch("namespace", ready.name, None, label).expect()
    (message,) = waits.until("Pod Security to be enforced", lambda: told(ready, tmp_path, document), 20)
    assert "of this replicated job can be made" in message
    assert 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in message
    assert (ready.pods(), ready.trainjob("mine"), ready.jobset("mine")) == ([], None, None)


def test_what_muster_itself_refuses_is_not_told_twice(ready, tmp_path):
    assert told(ready, tmp_path, jobs.wrong()) == []


def test_a_member_of_an_older_trainer_is_refused_and_what_check_writes_for_it_reaches_the_pods(ready, tmp_path):
    document = job(ready, "TrainJob")
    document["spec"]["podTemplateOverrides"] = OVERRIDES
    outcome = ready.apply(document)
    assert outcome.refused_with('strict decoding error: unknown field "spec.podTemplateOverrides"')
    (message,) = told(ready, tmp_path, document, "core/trainer-version")
    replacement = message.partition("write this: ")[2].partition("; `--trainer")[0]
    del document["spec"]["podTemplateOverrides"]
    document["spec"] |= yaml.safe_load(replacement)
    ready.apply(document).expect()
    (node,) = ready.wait_jobset("mine")["spec"]["replicatedJobs"]
    assert node["template"]["spec"]["template"]["spec"]["serviceAccountName"] == "trainer"
