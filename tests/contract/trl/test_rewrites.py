"""No launch that Muster writes is quieter than the author's: what stopped there stops here too, or Muster refuses it.

Both forms are run with a planted fault, launcher and script, up to the training.
"""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from tests.frameworks.builders import enforce, found, gpus, runtime, trainjob

NAMES = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "o"]
SCRIPT = [*NAMES, "--use_cpu", "--bf16", "false"]
IN_A_FILE = "model_name_or_path: m\ndataset_name: d\noutput_dir: o\nuse_cpu: true\nbf16: false\n"

# Arguments behind `trl sft` beside SCRIPT; a file is given by its name.
RIGHT = {
    "nothing": [],
    "a preset": ["--accelerate_config", "fsdp2"],
    "a file": ["--config", "right.yaml"],
    "a file with variables": ["--config", "variables.yaml"],
    "a file and a flag": ["--config", "right.yaml", "--learning_rate", "1e-5"],
    "a number of machines": ["--num_machines", "1"],
}
FAULTS = {
    "unknown flag": ["--no_such_flag", "1"],
    "unknown flag with =": ["--no_such_flag=1"],
    "flag of another method": ["--num_generations", "8"],
    "ambiguous flag": ["--lora", "8"],
    "no value": ["--learning_rate"],
    "a word for a number": ["--num_train_epochs", "three"],
    "a fraction for a whole number": ["--max_steps", "1.5"],
    "neither true nor false": ["--packing", "maybe"],
    "no choice of a list": ["--eval_strategy", "sometimes"],
    "two precisions": ["--bf16", "true", "--fp16"],
    "stray word": ["train.py"],
    "second file": ["--config", "right.yaml", "--config", "right.yaml"],
    "file behind =": ["--config=right.yaml"],
    "file that is missing": ["--config", "missing.yaml"],
    "file without a name": ["--config"],
    "file of a list": ["--config", "list.yaml"],
    "file of nothing": ["--config", "empty.yaml"],
    "file that is not YAML": ["--config", "broken.yaml"],
    "unknown key": ["--config", "unknown.yaml"],
    "key of another method": ["--config", "foreign.yaml"],
    "key with dashes": ["--config", "dashes.yaml"],
    "abbreviated key": ["--config", "short.yaml"],
    "nested key": ["--config", "nested.yaml"],
    "variables of a list": ["--config", "listed.yaml"],
    "word for a number in a file": ["--config", "word.yaml"],
    "no choice in a file": ["--config", "choice.yaml"],
    "unknown key beside a preset": ["--config", "unknown.yaml", "--accelerate_config", "fsdp2"],
    "unknown key beside a number": ["--config", "unknown.yaml", "--num_processes", "4"],
    "unknown key beside FSDP": ["--config", "unknown.yaml", "--use_fsdp"],
    "unknown preset": ["--accelerate_config", "fsdp3"],
    "preset behind =": ["--accelerate_config=fsdp2"],
    "preset without a name": ["--accelerate_config"],
    "word for processes": ["--num_processes", "all"],
    "word for machines": ["--num_machines", "two"],
    "word for a rank": ["--machine_rank", "first"],
    "word for a port": ["--main_process_port", "any"],
    "word for restarts": ["--max_restarts", "some"],
    "word for an interval": ["--monitor_interval", "soon"],
    "value of a switch": ["--multi_gpu=1"],
    "value of another switch": ["--same_network=yes"],
    "unknown precision of accelerate": ["--mixed_precision", "half"],
    "unknown compiler of accelerate": ["--dynamo_backend", "fast"],
    "two modes of accelerate": ["--multi_gpu", "--cpu"],
    "one process of several": ["--multi_gpu", "--num_processes", "1"],
    "accelerate's file is missing": ["--config_file", "missing.yaml"],
    "accelerate's file beside a preset": ["--config_file", "missing.yaml", "--accelerate_config", "fsdp2"],
}
FILES = {
    "right.yaml": "",
    "variables.yaml": "env: {A: 1}\n",
    "unknown.yaml": "learning_rte: 7e-3\n",
    "foreign.yaml": "num_generations: 8\n",
    "dashes.yaml": "learning-rate: 1.0e-5\n",
    "short.yaml": "learning_rat: 1.0e-5\n",
    "nested.yaml": "training: {learning_rate: 1.0e-5}\n",
    "listed.yaml": "env: [A]\n",
    "word.yaml": "num_train_epochs: three\n",
    "choice.yaml": "eval_strategy: sometimes\n",
}
OTHERS = {"list.yaml": "- a\n", "empty.yaml": "", "broken.yaml": "a: [\n"}
FORMS = {"trl": ["trl", "sft"], "torchrun around trl": ["torchrun", "--no-python", "trl", "sft"]}
NODES = {"one node": 1, "two nodes": 2}


def job(form, words, nodes):
    return trainjob({"command": FORMS[form], "args": words, "numNodes": nodes})


def env(nodes):
    told = {
        "NNODES": str(nodes),
        "NPROC_PER_NODE": "2",
        "NODE_RANK": "0",
        "MASTER_ADDR": "head",
        "MASTER_PORT": "29500",
    }
    return {f"PET_{name}": value for name, value in told.items()}


def asked(argv, nodes):
    """The question to the probe, with variables put in as Kubernetes does."""
    known = {f"$({name})": value for name, value in env(nodes).items()}
    words = [known.get(word, word) for word in argv]
    return {"program": words[0], "argv": words[1:], "gpus": 2, "env": env(nodes), "through": True}


def cases():
    for fault, words in (RIGHT | FAULTS).items():
        for place, nodes in NODES.items():
            yield f"{fault}, {place}", words, nodes


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    for name, text in FILES.items():
        (folder / name).write_text(IN_A_FILE + text)
    for name, text in OTHERS.items():
        (folder / name).write_text(text)
    return folder


def placed(words, files):
    return [
        str(files / word) if word.endswith(".yaml") else word.replace("=right", f"={files}/right") for word in words
    ]


@pytest.fixture(scope="module")
def answers(launch_answers, files):
    """For each case: how the author's launch ends, how Muster's ends, and what Muster refuses."""
    governing = runtime("trl", resources=gpus(2))
    known, questions, refused = {}, {}, {}
    for name, given, nodes in cases():
        words = [*SCRIPT, *placed(given, files)]
        known[f"author: {name}"] = (*FORMS["trl"], *words), nodes
        for form in FORMS:
            document = job(form, words, nodes)
            out = enforce("trl", document, governing)
            known[f"{form}: {name}"] = tuple(out.argv), nodes
            every = found("trl", out.document, governing)
            refused[f"{form}: {name}"] = [each.message for each in every if each.severity is Severity.ERROR]
    questions = {str(number): asked(*each) for number, each in enumerate(dict.fromkeys(known.values()))}
    ends = dict(zip(dict.fromkeys(known.values()), launch_answers(questions, {}).values(), strict=True))
    return {name: ends[each] for name, each in known.items()}, refused


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "nodes"), [(name, nodes) for name, _, nodes in cases()])
def test_what_stops_the_authors_launch_stops_musters_or_is_refused(answers, form, name, nodes):
    ends, refused = answers
    if "error" in ends[f"author: {name}"]:
        assert refused[f"{form}: {name}"] or "error" in ends[f"{form}: {name}"]


@pytest.mark.parametrize("fault", FAULTS)
def test_each_planted_fault_stops_the_authors_launch(answers, fault):
    assert "error" in answers[0][f"author: {fault}, two nodes"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [f"{right}, {place}" for right in RIGHT for place in NODES])
def test_a_right_launch_trains_as_muster_writes_it(answers, form, name):
    ends, refused = answers
    assert ends[f"{form}: {name}"] == {"trains": "trl.scripts.sft"}
    assert refused[f"{form}: {name}"] == []
