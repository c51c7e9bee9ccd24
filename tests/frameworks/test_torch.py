"""torch: the user's program stays the user's; what it cannot do by itself is said once."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import enforce, found, gpus, jobset, replicated_job, run, runtime, trainjob

PROGRAMS = {
    "a shell": ["bash", "-c", "python train.py"],
    "a script in a shell": ["/bin/sh", "run.sh"],
    "a script on several GPUs": ["python", "train.py"],
    "an unknown program": ["colossalai", "run", "train.py"],
}
REFUSED = {
    "deepspeed, each node for itself": ["deepspeed", "--num_gpus", "4", "train.py"],
    "torchrun in a shell, each node for itself": ["bash", "-c", "torchrun --standalone train.py"],
    "accelerate for one machine": ["accelerate", "launch", "--num_machines=2", "train.py"],
}
SPANNING = {
    "torchrun": ["torchrun", "train.py"],
    "torchrun with numbers": ["torchrun", "--nproc_per_node=2", "train.py"],
    "torchrun as a module": ["python", "-m", "torch.distributed.run", "train.py"],
    "torchrun in a shell": ["bash", "-c", "set -e; torchrun train.py"],
    "torchrun behind a wrapper": ["tini", "--", "torchrun", "train.py"],
}


@pytest.mark.parametrize("command", PROGRAMS.values(), ids=PROGRAMS)
def test_a_users_program_is_never_rewritten_gets_the_rendezvous_and_one_warning(command):
    trainer = {"command": command, "args": ["--epochs", "1"], "numNodes": 2}
    first, second = run("torch", trainjob(trainer), runtime(resources=gpus(4)))
    assert first.document["spec"]["trainer"] == trainer
    assert (first.rules, second.rules) == (["torch/not-enforced"], [])
    assert "2 nodes x 4 processes" in first.warnings[0]
    assert first.changes.findings[0].field == "spec.trainer.command"
    shown = first.changes.findings[0].value
    assert (shown.split()[0], "--epochs" in shown) == (command[0], False)
    assert second.argv == [*command, "--epochs", "1"]
    assert second.env["MASTER_ADDR"] == "job-node-0-0.job"


@pytest.mark.parametrize("command", REFUSED.values(), ids=REFUSED)
def test_a_launch_that_cannot_span_the_nodes_is_refused(command):
    document = trainjob({"command": command, "numNodes": 2})
    errors = [each for each in found("torch", document, runtime(resources=gpus(4))) if each.severity is Severity.ERROR]
    assert errors
    assert enforce("torch", document, runtime(resources=gpus(4))).document == document


@pytest.mark.parametrize("command", SPANNING.values(), ids=SPANNING)
def test_a_launch_that_spans_the_nodes_needs_no_word(command):
    first, second = run("torch", trainjob({"command": command, "numNodes": 2}), runtime(resources=gpus(4)))
    assert (len(first.changes), first.warnings, second.warnings) == (0, [], [])
    assert second.argv == command


@pytest.mark.parametrize(
    "trainer",
    [{"command": ["bash", "x.sh"]}, {"command": ["python", "x.py"], "numNodes": 2}, {}],
    ids=["one process in all", "a plain program, once per node", "the image's program, once"],
)
def test_nobody_is_warned_where_nothing_is_missing(trainer):
    said = enforce("torch", trainjob(trainer), runtime(resources=gpus(1))).changes.findings
    assert [each for each in said if each.severity is not Severity.NOTE] == []


def test_an_absent_command_leaves_the_number_to_the_image():
    out = enforce("torch", trainjob({"numNodes": 2}), runtime())
    assert out.rules == ["torch/not-enforced"]
    assert "the image decides" in out.warnings[0]


def test_a_jobset_without_trainer_is_warned_of_once_and_one_of_trainers_is_not():
    document = jobset(replicated_job("node", {"name": "node", "command": ["bash", "x.sh"]}, parallelism=2))
    out = enforce("torch", document)
    assert out.rules == ["torch/not-enforced"]
    assert out.changes.findings[0].field.endswith("containers[node].command")


def judged(line, trainer=None, governing=None, document=None):
    document = document or trainjob({"command": line.split(), **(trainer or {})})
    errors = found("torch", document, governing or runtime())
    return [(each.severity, each.rule, each.field, each.value) for each in errors]


NODES = {
    "standalone on one node": ("torchrun --standalone x.py", {}, []),
    "standalone on two": (
        "torchrun --standalone x.py",
        {"numNodes": 2},
        [(Severity.ERROR, "core/standalone", "spec.trainer.command[1]", "--standalone")],
    ),
    "as many as there are": ("torchrun --nnodes=2 x.py", {"numNodes": 2}, []),
    "a range around what there is": ("torchrun --nnodes=1:4 x.py", {"numNodes": 2}, []),
    "more than there are, by hand": (
        "torchrun --nnodes=2 x.py",
        {},
        [(Severity.ERROR, "core/nodes", "spec.trainer.command[1]", "--nnodes 2")],
    ),
    "a range beyond what there is": (
        "torchrun --nnodes=3:4 x.py",
        {"numNodes": 2},
        [(Severity.ERROR, "core/nodes", "spec.trainer.command[1]", "--nnodes 3:4")],
    ),
    "fewer than there are": (
        "torchrun --nnodes=1 x.py",
        {"numNodes": 2},
        [(Severity.ERROR, "core/nodes", "spec.trainer.command[1]", "--nnodes 1")],
    ),
    "a number that only the pod knows": (
        "torchrun --nnodes=$(N) x.py",
        {"numNodes": 2},
        [
            (Severity.WARNING, "core/unset-variable", "spec.trainer.command[1]", "--nnodes $(N)"),
            (Severity.NOTE, "core/unknown-world", "spec.trainer.command", "torchrun --nnodes=$(N) x.py"),
        ],
    ),
    "a flag of the program": ("python x.py --nnodes=3 --standalone", {"numNodes": 2}, []),
}


@pytest.mark.parametrize(("line", "trainer", "wanted"), NODES.values(), ids=NODES)
def test_nodes_on_the_command_line_are_compared_with_the_jobs(line, trainer, wanted):
    assert judged(line, trainer) == wanted


def test_missing_nodes_of_a_jobset_may_come_from_another_of_its_jobs():
    command = ["torchrun", "--nnodes=3", "x.py"]
    node = replicated_job("node", {"name": "node", "command": command}, parallelism=2, completions=2)
    more = replicated_job("more", {"name": "more", "command": ["sleep", "1"]})
    assert [each[0] for each in judged("", document=jobset(node))] == [Severity.ERROR]
    assert [each[0] for each in judged("", document=jobset(node, more))] == [Severity.WARNING]


def test_nodes_of_a_jobset_of_trainers_were_compared_with_its_trainjob():
    document = jobset(replicated_job("node", {"name": "node", "command": ["torchrun", "--nnodes=3", "x.py"]}))
    assert found("torch", document, runtime(), owner=trainjob({})) == []


def test_a_runtime_without_a_training_container_is_no_stumbling_block():
    governing = runtime()
    governing["spec"]["template"]["spec"]["replicatedJobs"] = []
    rules = {each.rule for each in found("torch", trainjob({"resourcesPerNode": gpus(1)}), governing)}
    assert rules == {"core/runtime"}


def test_a_runtime_whose_label_and_policy_disagree_is_refused():
    findings = judged("torchrun x.py", governing=runtime(policy={"numNodes": 1, "mpi": {}}))
    assert (Severity.ERROR, "torch/label-disagrees", "spec.runtimeRef.name", "runtime") in findings
    (finding,) = found("torch", trainjob({}), runtime(policy={"numNodes": 1, "mpi": {}}))
    assert "its mlPolicy is mpi," in finding.message
    (finding,) = found("torch", trainjob({}), runtime(policy={"numNodes": 1}))
    assert "its mlPolicy is empty" in finding.message


CLAIMS = {"claims": [{"name": "gpu"}]}
HELD = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}
DROPPED = {
    "an override of a runtime with claims": (
        {"resourcesPerNode": gpus(1)},
        CLAIMS,
        ["claims/unused", "torch/claims-dropped"],
    ),
    "a runtime with claims": ({}, CLAIMS, []),
    "an override of a runtime whose containers have none": ({"resourcesPerNode": gpus(1)}, gpus(2), ["claims/unused"]),
}


@pytest.mark.parametrize(("trainer", "resources", "rules"), DROPPED.values(), ids=DROPPED)
def test_claims_that_an_override_would_drop_are_named(trainer, resources, rules):
    assert [each[1] for each in judged("torchrun x.py", trainer, runtime(resources=resources, pod=HELD))] == rules
