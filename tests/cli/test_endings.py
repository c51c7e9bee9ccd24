"""How an explanation ends: right only where nothing is open, else what is open, or what there is to do."""

from __future__ import annotations

import shlex

import pytest

from tests.cli import jobs

GPU = {"limits": {"nvidia.com/gpu": 1}}


def ending(muster, *documents, options=("--no-jobset",)):
    found = muster("explain", "-f", "-", "-o", "json", *options, stdin=jobs.stream(*documents)).json()
    told = muster("explain", "-f", "-", *options, stdin=jobs.stream(*documents)).out
    label = {"right": "right", "open": "open", "mend": "to do"}[found[-1]["ending"]["kind"]]
    assert " ".join(told.split()).endswith(f"{label}: {found[-1]['ending']['text']}")
    return found[-1]["ending"]["kind"], found[-1]["ending"]["text"]


def torch(*command, **trainer):
    return jobs.trainjob("t", "torch-distributed", command=list(command), **trainer)


def test_a_job_that_needed_no_change_is_right_as_it_is(muster):
    job = torch("torchrun", "x", numNodes=2, resourcesPerNode=GPU)
    assert ending(muster, job) == (
        "right",
        "launch, ranks and devices are right as they are; check --cluster asks about the pods",
    )


def test_a_corrected_job_is_right_with_the_changes(muster):
    right = (
        "right",
        "launch, ranks and devices are right with the changes above; check --cluster asks about the pods",
    )
    assert ending(muster, jobs.two_nodes()) == right
    assert ending(muster, jobs.two_nodes(), options=()) == right  # the JobSet to come


def test_a_refused_job_ends_with_the_number_of_errors(muster):
    job = torch("torchrun", "x", numNodes=0, resourcesPerNode=GPU)
    assert ending(muster, job) == ("mend", "1 error to mend; the cluster refuses this job")
    kind, text = ending(muster, jobs.namespace("default", "warn"), job)
    assert (kind, text) == ("mend", "1 error to mend; mode warn lets this job pass")


def test_warnings_are_to_be_read_and_a_jobset_to_come_points_at_them(muster):
    job = torch("bash", "-c", "echo x", numNodes=2, resourcesPerNode=GPU)
    assert ending(muster, job) == ("mend", "1 warning to read; the job passes")
    kind, text = ending(muster, job, options=())
    assert (kind, text) == ("mend", "see the end of the TrainJob above; this JobSet adds nothing to it")


def test_errors_and_warnings_are_both_counted(muster):
    job = torch("bash", "-c", "echo x", numNodes=2, numProcPerNode=0, resourcesPerNode=GPU)
    assert ending(muster, job)[1] == "1 error to mend and 1 warning to read; the cluster refuses this job"


def test_where_the_job_has_the_guard_what_is_open_is_measured_at_the_start(muster, tmp_path):
    config = tmp_path / "muster.yaml"
    config.write_text("apiVersion: muster.dev/v1alpha1\nkind: MusterConfig\nguard: {inject: open, image: muster:1}\n")
    job = torch("python", "x.py", numNodes=2, resourcesPerNode=GPU)
    options = ("--no-jobset", "--config", str(config))
    assert ending(muster, job, options=options)[1].endswith("is open: it is measured at the start")
    off = {**job, "metadata": {**job["metadata"], "labels": {"muster.dev/guard": "off"}}}
    assert "guard.inject" in ending(muster, off, options=options)[1]


def test_a_note_leaves_the_job_open(muster):
    job = torch("python", "x.py", numNodes=1, resourcesPerNode={"limits": {"nvidia.com/gpu": 4}})
    kind, text = ending(muster, job)
    assert kind == "open"
    assert text == "nothing that Muster can see is wrong; what it cannot see is in the notes above"


@pytest.mark.parametrize("command", ["llamafactory-cli train x", "axolotl train x", "./run.sh", "srun python x.py"])
def test_a_launcher_that_is_not_read_leaves_the_job_open_without_a_warning(muster, command):
    job = torch(*command.split(), numNodes=2, resourcesPerNode={"limits": {"nvidia.com/gpu": 8}})
    assert ending(muster, job)[0] == "open"


def test_a_program_of_ones_own_on_several_nodes_is_never_called_right(muster):
    kind, text = ending(muster, torch("python", "x.py", numNodes=2, resourcesPerNode=GPU))
    assert kind == "open"
    assert "whether the program uses them is open: guard.inject in Muster's configuration has it measured" in text
    assert ending(muster, torch("python", "x.py", numNodes=1, resourcesPerNode=GPU))[0] == "right"


@pytest.mark.parametrize(
    "command", [["./run.sh"], ["bash", "-c", "eval $WHAT"], None], ids=["a script", "a text", "none"]
)
def test_a_launch_that_cannot_be_read_is_never_called_right(muster, command):
    job = torch(*command or (), image="example.org/own:1", resourcesPerNode=GPU)
    kind, text = ending(muster, job)
    assert kind == "open"
    assert "cannot read what this launch starts" in text or "notes above" in text


@pytest.mark.parametrize(
    ("command", "nodes", "gpus", "size"),
    [
        (["torchrun", "x.py"], 2, 4, "(2 nodes x 4 processes)"),
        (["torchrun", "--nnodes=1:2", "x.py"], 2, 4, "(1 to 2 nodes x 4 processes)"),
        (["torchrun", "--nproc-per-node=$(N)", "x.py"], 2, 4, "(2 nodes x an unknown number of processes)"),
        (["torchrun", "--standalone", "x.py"], 2, 4, "(it cannot run as the job asks; see below)"),
        (["python", "x.py"], 1, 1, "(1 node x 1 process)"),
        (["python", "x.py"], 1, 4, "(1 process on 1 node; the program may start more)"),
        (["python", "x.py"], 2, 4, "(1 process on each of 2 nodes; the program may start more)"),
        (["./run.sh"], 1, 1, "(its size is not known: the program ./run.sh is not one that Muster reads)"),
    ],
)
def test_the_launch_line_says_how_many_ranks_will_really_run(muster, command, nodes, gpus, size):
    job = torch(*command, numNodes=nodes, resourcesPerNode={"limits": {"nvidia.com/gpu": gpus}})
    found = muster("explain", "-f", "-", "-o", "json", "--no-jobset", stdin=jobs.stream(job)).json()
    assert found[0]["launch"] == f"{shlex.join(command)} {size}"


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        (
            [jobs.runtime("jax", "jax", policy={"jax": {}}), jobs.trainjob("t", "jax", numNodes=1)],
            "framework jax has no",
        ),
        ([jobs.runtime("bare", framework=None), jobs.trainjob("t", "bare")], "its framework is not known"),
        ([jobs.jobset()], "its framework is not known"),
        ([jobs.namespace("default", "off"), jobs.two_nodes()], "Muster is off for this job"),
    ],
    ids=["another framework", "a runtime without a label", "a JobSet without a label", "Muster is off"],
)
def test_what_is_not_checked_is_open(muster, documents, words):
    kind, text = ending(muster, *documents)
    assert kind == "open"
    assert words in text


@pytest.mark.parametrize("mode", ["warn", "audit"])
def test_changes_that_are_not_made_leave_something_to_do(muster, mode):
    metadata = {"annotations": {"muster.dev/trl-method": "sft"}}
    job = jobs.trainjob("t", "torch-distributed", metadata=metadata)
    kind, text = ending(muster, jobs.namespace("default", mode), job)
    assert (kind, text) == ("mend", f"mode {mode} makes none of the changes above, so the job runs without them")


def test_a_jobset_that_trainer_made_is_judged_at_its_trainjob(muster):
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "sft", "controller": True}
    given = jobs.jobset("sft", jobs.container(command=["torchrun", "x"]), ownerReferences=[{**owner, "uid": "u"}])
    kind, text = ending(muster, jobs.two_nodes(), given)
    assert kind == "open"
    assert text.endswith("the launch is judged at TrainJob sft, from which Trainer made this JobSet")


GUARD = "guard: {inject: always, image: example.org/muster:1}"


@pytest.mark.parametrize("offered", [False, True])
def test_a_job_that_is_right_is_right_whether_or_not_it_gets_the_guard(muster, write, offered):
    options = ["--config", write("muster.yaml", GUARD)] if offered else []
    for labels in ({}, {"muster.dev/guard": "off"}):
        job = jobs.two_nodes(metadata={"labels": labels})
        found = muster("explain", "-f", "-", "-o", "json", *options, stdin=jobs.stream(job)).json()
        assert [each["ending"]["kind"] for each in found] == ["right"] * len(found)
        rules = {each["rule"] for item in found for member in ("changes", "findings") for each in item[member]}
        assert ("guard/files" in rules) == (offered and not labels)
        assert ("guard/left-alone" in rules) == (offered and bool(labels))
