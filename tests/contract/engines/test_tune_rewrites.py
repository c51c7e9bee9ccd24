"""No `tune run` that Muster completes is quieter than the author's: what stopped there stops here, or is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import enforce, found, gpus, runtime, trainjob

PROBE = Path(__file__).parent / "programs" / "tune_probe.py"
RECIPE, CONFIG = "full_finetune_distributed", ["--config", "llama3_2/1B_full"]
GOVERNING = runtime(
    "torchtune",
    name="torchtune-llama3.2-1b",
    command=["tune", "run", "--rdzv_endpoint=localhost:29500", RECIPE, *CONFIG, "output_dir=/out"],
    resources=gpus(2),
)
RIGHT = {
    "a recipe": [RECIPE, *CONFIG],
    "an override": [RECIPE, *CONFIG, "batch_size=2"],
    "a number of processes": ["--nproc_per_node=2", RECIPE, *CONFIG],
}
FAULTS = {
    "unknown recipe": ["full_finetune", *CONFIG],
    "unknown config": [RECIPE, "--config", "llama3_2/2B_full"],
    "no config": [RECIPE],
    "config behind =": [RECIPE, "--config=llama3_2/1B_full"],
    "unknown option of torchrun": ["--no_such_option=1", RECIPE, *CONFIG],
    "word for processes": ["--nproc_per_node=two", RECIPE, *CONFIG],
    "word for nodes": ["--nnodes=two", RECIPE, *CONFIG],
    "word for restarts": ["--max_restarts=some", RECIPE, *CONFIG],
    "flag for the recipe": [RECIPE, *CONFIG, "--batch_size", "2"],
    "override without a value": [RECIPE, *CONFIG, "batch_size"],
    "override with two signs": [RECIPE, *CONFIG, "batch_size=2=3"],
    "a component is removed": [RECIPE, *CONFIG, "~model"],
    "what is not there is removed": [RECIPE, *CONFIG, "~no_such_item"],
    "options for one device": [
        "--nproc_per_node=2",
        "full_finetune_single_device",
        "--config",
        "llama3_2/1B_full_single_device",
    ],
}
PLACES = {
    "command": lambda words: {"command": ["tune", "run", *words]},
    "args": lambda words: {"command": ["tune", "run"], "args": words},
}
ENV = {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "0"}


@pytest.fixture(scope="module")
def answers(python):
    """For each case: how the author's launch ends, how Muster's ends, and what Muster refuses."""
    asked, refused = {}, {}
    for name, words in (RIGHT | FAULTS).items():
        asked[f"author: {name}"] = {"argv": ["tune", "run", *words], "env": ENV}
        for place, make in PLACES.items():
            document = trainjob({**make(words), "numNodes": 1})
            out = enforce("torchtune", document, GOVERNING)
            asked[f"{place}: {name}"] = {"argv": out.argv, "env": ENV}
            refused[f"{place}: {name}"] = [
                each.message for each in found("torchtune", out.document, GOVERNING) if each.severity is Severity.ERROR
            ]
    done = subprocess.run(
        [python, PROBE], input=json.dumps(asked), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout), refused


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_stops_the_authors_launch_stops_musters_or_is_refused(answers, fault, place):
    ends, refused = answers
    assert "error" in ends[f"author: {fault}"]
    assert refused[f"{place}: {fault}"] or "error" in ends[f"{place}: {fault}"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_launch_trains_as_muster_writes_it(answers, name, place):
    ends, refused = answers
    assert "trains" in ends[f"{place}: {name}"], ends[f"{place}: {name}"]
    assert refused[f"{place}: {name}"] == []
