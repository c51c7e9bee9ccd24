"""TrainerClient of kubeflow's SDK trains by our trainers, and the person sees what Muster says."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module")
def lived(run):
    return run("life")


@pytest.fixture(scope="module")
def answered(run):
    return run("answers")


def test_a_runtime_is_found_by_its_framework_and_the_errors_list_what_there_is(lived):
    told = lived["choices"]
    assert (told["kind"], told["name"]) == ("TrainingRuntime", "own-trl")
    assert "runtimes are for trl: " in told["trl/None"]
    assert "own-trl" in told["trl/None"]
    assert "runtime 'own-trl' is for trl, and this trainer is for torchtune" in told["torchtune/own-trl"]
    assert "there is no runtime 'nobody'; there are " in told["trl/nobody"]
    assert "no runtime has the label trainer.kubeflow.org/framework: axolotl" in told["axolotl/None"]


@pytest.mark.parametrize("framework", ["trl", "torchtune"])
def test_the_sdk_sends_the_job_that_the_trainer_makes(lived, framework):
    life = lived[framework]
    stored, wanted = life["stored"], life["wanted"]
    trainer = stored["spec"]["trainer"]
    for member in ("args", "numNodes", "env", "image", "resourcesPerNode"):
        assert trainer.get(member) == wanted["spec"]["trainer"].get(member)
    command = wanted["spec"]["trainer"]["command"]
    assert trainer["command"][: len(command)] == command
    assert wanted["spec"]["runtimeRef"].items() <= stored["spec"]["runtimeRef"].items()
    labels, annotations = (stored["metadata"][each] for each in ("labels", "annotations"))
    assert {"team": "a", **wanted["metadata"].get("labels", {})}.items() <= labels.items()
    assert annotations["example.org/note"] == "n"


@pytest.mark.parametrize(("framework", "nodes"), [("trl", 2), ("torchtune", 1)])
def test_a_job_is_waited_for_looked_at_and_deleted_by_the_methods_of_the_sdk(lived, framework, nodes):
    life = lived[framework]
    assert (life["status"], life["framework"], life["warnings"]) == ("Complete", framework, [])
    assert [status for _, status in life["steps"]] == ["Succeeded"] * nodes
    assert life["name"] in life["listed"]
    assert "TrainJob MusterDenied" in life["events"]
    assert life["lines"][-1].startswith(f"{life['name']}: Complete, {nodes} of {nodes} nodes started")
    assert life["name"] not in life["left"]


def test_what_the_sdk_does_not_send_is_said_and_can_be_submitted(lived):
    submitted = lived["submitted"]
    assert submitted["told"].startswith("num_proc_per_node: kubeflow's SDK 0.5 does not send it")
    assert submitted["processes"] == 2


def test_a_warning_of_muster_is_a_warning_in_python(answered):
    (warning,) = answered["warned"]
    assert warning.startswith("AdmissionWarning: spec.trainer.args: the job asks for no GPU")
    (script,) = answered["script"]
    assert script.startswith("AdmissionWarning: spec.trainer.command: 'bash -c': this command line starts nothing")


def test_a_refusal_says_what_muster_found(answered):
    refused = answered["refused"]
    assert "did you mean --seed?" in refused["ours"]
    assert refused["causes"].startswith("spec.trainer.args[4]: ")
    assert refused["causes"].endswith("(muster trl/unknown-flag)")
    assert refused["sdk"].startswith("Failed to create TrainJob: ")
    assert "did you mean --seed?" in refused["cause"]
    assert refused["left"] == ""
