"""A training of the wrong size ends before its first step; one of the right size is as it was, and reported."""

from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "ddp.py")
TWO = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1"}
ASKED = {"MUSTER_EXPECTED_WORLD_SIZE": "2"}


def test_two_nodes_that_meet_train_and_every_rank_reports_it(torchrun):
    done = torchrun(count=2, **ASKED)

    assert done.codes == [0, 0], done.output
    assert {each["rank"] for each in done.reports()} == {0, 1}
    for report in done.reports():
        assert (report["worldSize"], report["expected"], report["steps"]) == (2, "2", 3)
        assert report["wallSeconds"] > 0
    assert all(message.startswith('{"schema":"muster.dev/training/v1"') for message in done.messages)


def test_of_several_ranks_in_a_pod_one_leaves_the_termination_message(torchrun):
    done = torchrun(each=2)

    assert done.codes == [0], done.output
    assert len(done.reports()) == 2
    assert len(done.messages[0].splitlines()) == 1


@pytest.mark.parametrize("environment", [TWO, ASKED, {**TWO, **ASKED}], ids=["by Trainer", "by Muster", "by both"])
def test_a_node_that_trains_alone_ends_at_its_first_step(nodes, environment):
    done = nodes("python", PROGRAM, "--alone", **environment)

    assert done.codes == [78], done.output
    assert "this training has 1 rank, but 2 " in done.output
    assert "this training has 1 rank, but 2 " in done.messages[0]
    assert "finished" not in done.output


def test_torchrun_whose_ranks_are_too_few_ends_with_the_same_code_once_they_have_met(torchrun):
    done = torchrun(each=2, MUSTER_EXPECTED_WORLD_SIZE="4")

    assert done.codes == [78], done.output
    assert "this training has 2 ranks, but 4 were asked for (MUSTER_EXPECTED_WORLD_SIZE=4)" in done.messages[0]
    assert "group made" not in done.output


def test_accelerate_launch_that_starts_one_simple_process_per_node_ends_with_the_same_code(nodes):
    done = nodes("accelerate", "launch", "--cpu", "--num_processes", "1", PROGRAM, "--alone", **TWO)

    assert done.codes == [78], done.output
    assert "Each node would train by itself" in done.messages[0]


def test_one_process_that_may_use_all_devices_of_its_node_is_warned_and_goes_on(nodes):
    done = nodes("python", PROGRAM, "--alone", PET_NNODES="1", PET_NPROC_PER_NODE="4")

    assert done.codes == [0]
    assert "1 rank, but 4 were asked for" in done.output
    assert done.reports()[0]["worldSize"] == 1


@pytest.mark.parametrize("mode", ["warn", "off"])
def test_by_its_switch_a_training_of_the_wrong_size_goes_on(nodes, mode):
    done = nodes("python", PROGRAM, "--alone", MUSTER_GUARD=mode, **ASKED)

    assert done.codes == [0]
    assert ("asked for" in done.output) == (mode == "warn")


@pytest.mark.thorough
def test_an_elastic_training_of_fewer_nodes_than_it_may_have_goes_on(torchrun):
    done = torchrun(PET_NNODES="1:3", PET_RDZV_BACKEND="c10d", PET_RDZV_ENDPOINT="127.0.0.1:0")

    assert done.codes == [0], done.output
    assert done.reports()[0]["expected"] == "1 to 3"


def test_the_steps_of_a_compiled_optimizer_are_counted_too(nodes):
    done = nodes("python", PROGRAM, "--alone", "--compiled", "--steps", "5")

    assert done.codes == [0], done.output
    assert done.reports()[0]["steps"] >= 1


def test_a_group_that_a_library_makes_for_itself_is_not_the_training(nodes):
    code = (
        "import torch.distributed as dist\n"
        "dist.init_process_group('gloo', init_method='tcp://127.0.0.1:0', world_size=1, rank=0)\n"
        "print('made')"
    )

    done = nodes("python", "-c", code, **ASKED)

    assert done.codes == [0], done.output


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--crash"], 1), (["--exit", "7"], 7), ([], 0)], ids=["crash", "exit 7", "success"]
)
def test_a_plain_program_ends_as_it_would_without_the_guard(nodes, arguments, code):
    assert nodes("python", PROGRAM, "--alone", *arguments, guarded=False).codes == [code]
    assert nodes("python", PROGRAM, "--alone", *arguments).codes == [code]


@pytest.mark.thorough
def test_a_crash_under_torchrun_is_told_as_it_would_be_without_the_guard(torchrun):
    bare = torchrun("--crash", each=2, guarded=False)
    done = torchrun("--crash", each=2)

    assert done.codes == bare.codes == [1]
    assert "RuntimeError: the user's own mistake" in done.output
    assert done.messages == [""], "the message is left to Kubernetes, which takes the last lines of the log"
