"""`trl METHOD`, as people type it: right on one node; on two each would train by itself, and the guard ends it."""

import pytest

from e2e.suites.support import thorough

TWO = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1"}
SPANNING = (
    "--num_machines=2", "--num_processes=2", "--machine_rank=0",
    "--main_process_ip=127.0.0.1", "--main_process_port=29501",
)  # fmt: skip


@pytest.mark.thorough
def test_on_one_node_trl_trains_in_one_process(nodes, arguments):
    done = nodes("trl", "sft", *arguments("sft", 2), PET_NNODES="1", PET_NPROC_PER_NODE="1")

    assert done.codes == [0], done.output
    (report,) = done.reports()
    assert (report["worldSize"], report["expected"], report["steps"]) == (1, "1", 2)
    assert (done.folders[0] / "output" / "model.safetensors").exists()


@pytest.mark.parametrize(
    "more", thorough.but_named("as typed", of={"as typed": (), "with accelerate's flags": SPANNING})
)
def test_on_two_nodes_both_end_with_the_fixed_code_before_their_first_step(nodes, arguments, more):
    done = nodes("trl", "sft", *arguments("sft", 2, *more), count=2, **TWO)

    assert done.codes == [78, 78], done.output
    for message in done.messages:
        assert message.startswith("muster: this training has 1 rank, but 2 ")
    assert done.reports() == []
    assert not any(list(folder.glob("output/**/*.safetensors")) for folder in done.folders)


@pytest.mark.thorough
def test_without_the_guard_both_would_have_succeeded(nodes, arguments):
    done = nodes("trl", "sft", *arguments("sft", 2), count=2, guarded=False, **TWO)

    assert done.codes == [0, 0], done.output
    assert all((folder / "output" / "model.safetensors").exists() for folder in done.folders)
