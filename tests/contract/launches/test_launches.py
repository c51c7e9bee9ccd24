"""Launches run for real on two nodes, in the env that Trainer and Muster give; what happens is what Muster said.

The launchers are upstream's; the devices are not real (`programs/fork_server.py`). What the model of
`tests/launchers/launcher_model.py` says of the same pods is compared as well, since a property test relies on it.
"""

import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from muster.strategies.documents.findings import Severity
from tests.contract import decided
from tests.launchers import launcher_model
from tests.launchers.launcher_model import Node, Worlds

HERE = Path(__file__).parent
RUNTIMES = {"torch": "torch-distributed", "trl": "trl-distributed", "torchtune": "tune"}
TRL = "--model_name_or_path m --dataset_name d --output_dir o --use_cpu --bf16=false --report_to=none"
ME = "--machine_rank $(PET_NODE_RANK) --main_process_ip $(PET_MASTER_ADDR) --main_process_port $(PET_MASTER_PORT)"


@dataclass(frozen=True)
class Launch:
    """A job of two nodes, and what happens when it runs.

    Attributes:
        command: the command line; a tuple for words with spaces.
        world: the size of the one world; None where there is none: it fails, waits, or each node is alone.
        gpus: of each node.
        processes: spec.trainer.numProcPerNode.
        runtime: torch, trl or torchtune.
        nodes: how many.
        env: of the TrainJob.
    """

    command: str | tuple[str, ...]
    world: int | None
    gpus: int = 2
    processes: int | None = None
    runtime: str = "torch"
    nodes: int = 2
    env: dict[str, str] = field(default_factory=dict)

    @property
    def words(self):
        return shlex.split(self.command) if isinstance(self.command, str) else list(self.command)

    def __str__(self):
        return f"{shlex.join(self.words)} on {self.nodes}x{self.gpus}".replace("\n", " ; ")


def bash(text):
    return ("bash", "-c", text)


RIGHT = (
    Launch("torchrun world.py", 4),
    Launch("torchrun --nproc_per_node=2 world.py", 4),
    Launch("torchrun --nproc-per-node gpu -m world", 4),
    Launch("torchrun --nproc_per=2 world.py", 4),
    Launch("torchrun world.py", 2, gpus=1),
    Launch("torchrun world.py", 4, gpus=0, processes=2),
    Launch("torchrun --nnodes=2 --node_rank=$(PET_NODE_RANK) world.py", 4),
    Launch("torchrun --node-rank $(JOB_COMPLETION_INDEX) --master_addr $(PET_MASTER_ADDR) world.py", 4),
    Launch("torchrun --nnodes=2:2 world.py", 4),
    Launch("torchrun --rdzv_backend=c10d --rdzv_endpoint=$(PET_MASTER_ADDR):29500 world.py", 4),
    Launch("torchrun --rdzv_backend=c10d --node_rank=0 world.py", 4),
    Launch("torchrun --nnodes=1:2 --max_restarts=1 world.py", 4),
    Launch("torchrun --no-python ./world.sh", 4),
    Launch("python -m torch.distributed.run world.py", 4),
    Launch("python -u -m torch.distributed.run --nproc_per_node 2 -m world", 4),
    Launch("torchrun --standalone --nproc_per_node=2 world.py", 2, nodes=1),
    Launch("torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:29500 world.py", 2, nodes=1),
    Launch("env NCCL_DEBUG=INFO torchrun world.py", 4),
    Launch("env -u NCCL_DEBUG OMP_NUM_THREADS=1 torchrun world.py", 4),
    Launch("nohup torchrun world.py", 4),
    Launch("nice -n 5 torchrun world.py", 4),
    Launch("timeout 600 torchrun world.py", 4),
    Launch("stdbuf -oL torchrun --nproc_per_node=2 world.py", 4),
    Launch(bash("torchrun world.py"), 4),
    Launch(bash("cd . && exec torchrun --nproc_per_node=2 world.py"), 4),
    Launch(bash("set -euo pipefail\n# python world.py\nexport NCCL_DEBUG=INFO\ntorchrun \\\n  world.py\n"), 4),
    Launch(bash("OMP_NUM_THREADS=1 torchrun --nproc_per_node=$PET_NPROC_PER_NODE world.py"), 4, processes=2),
    Launch(bash("cat > /dev/null <<'EOM'\npython world.py\nEOM\ntorchrun world.py"), 4),
    Launch(("sh", "-c", 'torchrun "$@"', "sh", "--nproc_per_node=2", "world.py"), 4),
    Launch("python world.py", 2, gpus=1),
    Launch("python -m world", 2, gpus=1),
    Launch("accelerate launch world.py", 4),
    Launch(f"accelerate launch --num_machines 2 --num_processes 4 {ME} world.py", 4),
    Launch(f"accelerate launch --multi_gpu --num_machines 2 --num_processes 2 {ME} world.py", 2, gpus=1),
    Launch(f"accelerate launch --use_fsdp --num-machines 2 --num-processes 4 {ME} -m world", 4),
    Launch("accelerate launch --num_processes 2 world.py", 4),
    Launch("accelerate launch --multi_gpu world.py", 2, gpus=1),
    Launch("accelerate launch world.py", 2, nodes=1),
    Launch(f"trl sft {TRL}", 2, gpus=1, runtime="trl"),
    Launch(f"torchrun -m trl.scripts.sft {TRL}", 4, runtime="trl"),
    Launch(f"trl sft {TRL} --num_processes 4", 4, runtime="trl"),
    Launch("tune run --nproc_per_node 2 --rdzv_endpoint=$(COORDINATOR):29500 world --config c.yaml", 4,
           runtime="torchtune", env={"COORDINATOR": "train-node-0-0.train"}),
    Launch("tune run world --config c.yaml", 2, runtime="torchtune", nodes=1),
)  # fmt: skip
FEWER = (
    Launch("torchrun --nproc_per_node=1 world.py", 2),
    Launch(bash("PET_NPROC_PER_NODE=1 torchrun world.py"), 2),
    Launch("torchrun world.py", 2, env={"CUDA_VISIBLE_DEVICES": "0"}),
    Launch(f"accelerate launch --multi_gpu --num_machines 2 --num_processes 2 {ME} world.py", 2),
    Launch("torchrun world.py", 2, processes=1),
)
WRONG = (
    Launch("torchrun --nproc_per_node=4 world.py", None),
    Launch("torchrun --standalone --nnodes=1 world.py", None),
    Launch("torchrun --standalone world.py", None),
    Launch("torchrun --node_rank=1 world.py", None),
    Launch("torchrun --nnodes=4 world.py", None),
    Launch("env -u PET_NNODES -u PET_NODE_RANK torchrun world.py", None),
    Launch("accelerate launch world.py", None, gpus=1),
    Launch(f"accelerate launch --num_machines 2 --num_processes 2 {ME} world.py", None, gpus=1),
    Launch("accelerate launch --num_machines 2 --num_processes 4 world.py", None),
    Launch("accelerate launch --num_processes 4 world.py", None),
)
# What a program starts by itself, as Lightning does, cannot be read from its command line.
PLAIN = (Launch("python world.py", None), Launch(bash("python world.py # torchrun"), None))


# These take ten seconds and more: TRL's arguments are slow to make, and torchrun waits for others in rounds.
SLOW = (f"trl sft {TRL}", f"torchrun -m trl.scripts.sft {TRL}", "torchrun --node_rank=1 world.py",
        "torchrun --nnodes=4 world.py", "torchrun --standalone world.py")  # fmt: skip


def modelled(launch):
    """Whether the model reads it: no wrapper and no shell."""
    return launch.words[0] in ("torchrun", "python", "accelerate", "trl", "tune")


def params(launches):
    """The launches; those of `OPEN` are known to be told wrong by Muster, and leave the list when they are not."""
    open_ones = (HERE / "OPEN").read_text().splitlines()
    for launch in launches:
        marks = [pytest.mark.xfail(strict=True, reason="open")] if str(launch) in open_ones else []
        marks += [pytest.mark.thorough] if launch.command in SLOW else []
        yield pytest.param(launch, marks=marks, id=str(launch))


def said(launch):
    return decided.said(
        launch.words, nodes=launch.nodes, gpus=launch.gpus, processes=launch.processes, env=launch.env,
        runtime=RUNTIMES[launch.runtime],
    )  # fmt: skip


@pytest.mark.parametrize("launch", list(params(RIGHT)))
def test_a_right_launch_has_the_size_that_muster_said_and_is_left_alone(place, launch):
    before = said(launch)
    ran = place.run(before.pods)

    assert set(ran.codes) == {0}, ran.log
    assert set(ran.sizes) == {launch.world}, ran.log
    assert len(ran.sizes) == launch.world
    assert before.told in (None, str(launch.world))
    assert not before.severities - {Severity.NOTE}, before.texts


@pytest.mark.parametrize("launch", list(params(FEWER)))
def test_a_launch_of_fewer_processes_is_warned_about_and_never_told_another_size(place, launch):
    before = said(launch)
    ran = place.run(before.pods)

    assert (set(ran.codes), set(ran.sizes)) == ({0}, {launch.world}), ran.log
    assert before.told in (None, str(launch.world))
    assert Severity.WARNING in before.severities, before.texts
    assert Severity.ERROR not in before.severities


@pytest.mark.parametrize("launch", list(params(WRONG)))
def test_a_launch_that_makes_no_training_of_all_nodes_has_a_finding(place, launch):
    before = said(launch)

    assert not whole(place, before)
    assert before.severities & {Severity.WARNING, Severity.ERROR}, before.texts


@pytest.mark.parametrize("launch", PLAIN, ids=str)
def test_a_plain_program_that_makes_no_training_of_all_nodes_is_open(place, launch):
    before = said(launch)

    assert not whole(place, before)
    assert before.severities == {Severity.NOTE}, before.texts
    assert any("is open: the guard measures it at the start" in each for each in before.texts), before.texts


@pytest.mark.parametrize("launch", list(params(each for each in (*RIGHT, *FEWER, *WRONG, *PLAIN) if modelled(each))))
def test_the_model_says_what_happens(launch):
    nodes = [Node(pod.host, pod.argv, pod.env, visible(pod), 4) for pod in said(launch).pods]
    found = launcher_model.outcome(nodes)

    assert (found.size if isinstance(found, Worlds) else None) == launch.world, found


def whole(place, before):
    """Whether the pods become one training of all of them."""
    ran = place.run(before.pods, patience=6)
    return set(ran.codes) == {0} and len(set(ran.sizes)) == 1 and len(ran.sizes) == ran.sizes[0]


def visible(pod):
    shown = pod.env.get("CUDA_VISIBLE_DEVICES")
    return pod.devices if shown is None else min(pod.devices, len(shown.split(",")))
