"""Planted faults that Muster calls right or open are told when they run; their right twins are not disturbed.

`faults.toml` lists them. They run on two nodes of loopback over gloo, with the env that Muster gives to their pods; the
devices are not real (`programs/faults/fakes.py`).
"""

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from muster.webhook.cli import main
from tests.contract import decided
from tests.contract.forks import Forks
from tests.contract.nodes import GUARD, Nodes

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs" / "faults"
FATAL = ("size-differs", "device-shared", "gradients-not-shared")
IMPORTED = (
    "safetensors.torch",
    "torch._dynamo",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
)
"""What takes long to import, and what no program of these has the guard think otherwise of."""
QUICK = (
    "no_sync around every backward pass",
    "only the first half of the layers is wrapped",
    "each rank begins with a seed of its own, without DDP",
    "shards in each node that are not replicated between nodes",
    "ranks forked in the program meet in their node only",
    "a script starts torchrun --standalone on each node",
    "CUDA_VISIBLE_DEVICES is 0 for each rank",
    "a script starts fewer ranks than there are devices",
    "the first rank of each node saves the model",
)


@dataclass(frozen=True)
class Row:
    """A fault and its twin, as `faults.toml` has them."""

    name: str
    fault: str
    twin: str
    told: str
    reason: str = ""
    check: str = "right"
    nodes: int = 2
    processes: int = 1
    gpus: int = 0
    is_elastic: bool = False

    def asked(self, line):
        """Words and spec of the TrainJob."""
        spec = {"nodes": self.nodes, "gpus": self.gpus, "processes": None if self.gpus else self.processes}
        return [word.format(start=PROGRAMS / "start.sh") for word in line.split()], spec


ROWS = [Row(**each) for each in tomllib.loads((HERE / "faults.toml").read_text())["faults"]]


def rows(*, told):
    """Those that are told, or not; the quick ones run in `make test`."""
    for row in ROWS:
        if bool(row.told) == told:
            yield pytest.param(row, id=row.name, marks=() if row.name in QUICK else pytest.mark.thorough)


@pytest.fixture(scope="module")
def forks(python, tmp_path_factory):
    found = Forks(python, tmp_path_factory.mktemp("f"), *IMPORTED, guard=[GUARD])
    yield found
    found.close()


@pytest.fixture
def run(python, tmp_path, forks):
    """Run a command line of a row as the pods of its TrainJob would."""
    nodes = Nodes(python, tmp_path)
    (tmp_path / "shared").mkdir()

    def start(row, line, mode):
        words, spec = row.asked(line)
        pod = decided.said(words, **spec).pods[0]
        given = {name: value for name, value in pod.env.items() if not name.startswith(("PET_MASTER_", "PET_NODE_"))}
        return nodes.run(
            *pod.argv, count=row.nodes, modules=[PROGRAMS],
            **{**given, **forks.env, "MUSTER_GUARD": mode, "MUSTER_EXPECTED_DEVICES": str(row.gpus),
               "FAKE_GPUS": str(row.gpus),
               "CUDA_VISIBLE_DEVICES": ",".join(map(str, range(row.gpus))),
               "FREE_PORT": "0", "SHARED": str(tmp_path / "shared")},
        )  # fmt: skip

    yield start
    nodes.close()


@pytest.mark.parametrize("row", list(rows(told=True)))
def test_in_report_a_fault_is_told_and_runs_to_its_end(run, row):
    done = run(row, row.fault, "report")

    assert row.told in {each.get("verdict") for each in done.reports()}, done.output
    assert said(done), done.output
    assert "finished" in done.output
    assert set(done.codes[: 1 if row.is_elastic else None]) == {0}, done.output


@pytest.mark.parametrize("row", list(rows(told=True)))
def test_in_enforce_a_fault_ends_with_the_fixed_code_where_it_can_be_right_in_no_training(run, row):
    done = run(row, row.fault, "enforce")

    expected = 78 if row.told in FATAL else 0
    assert set(done.codes[: 1 if row.is_elastic else None]) == {expected}, done.output
    assert said(done), done.output


@pytest.mark.parametrize("row", list(rows(told=True)))
def test_its_right_twin_is_not_disturbed(run, row):
    done = run(row, row.twin, "enforce")

    assert set(done.codes) == {0}, done.output
    assert not said(done)
    assert {each.get("verdict") for each in done.reports()} == {None}, done.output


@pytest.mark.parametrize("row", list(rows(told=False)))
def test_what_the_guard_cannot_observe_is_not_guessed(run, row):
    done = run(row, row.fault, "enforce")

    assert row.reason
    assert set(done.codes) == {0}, done.output
    assert not said(done)
    assert {each.get("gradients") for each in done.reports()} == {None}, done.output


def test_muster_check_says_of_each_fault_without_running_it_what_the_table_says(tmp_path, capsys):
    for number, row in enumerate(ROWS):
        words, spec = row.asked(row.fault)
        job = decided.trainjob(words, **spec)
        job["metadata"]["name"] = f"fault-{number}"
        (tmp_path / f"{number}.yaml").write_text(yaml.safe_dump(job))

    main.main(["check", str(tmp_path), "-o", "json"])

    endings = {each["name"]: each["ending"]["kind"] for each in json.loads(capsys.readouterr().out)}
    assert {row.name: endings[f"fault-{number}"] for number, row in enumerate(ROWS)} == {
        row.name: row.check for row in ROWS
    }


def said(done):
    """The guard's own lines, but for reports."""
    return [line for line in done.output.splitlines() if line.startswith("muster: ")]
