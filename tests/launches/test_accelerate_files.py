"""Configuration files of accelerate that a launch's own shell writes: what is read, and at what accelerate stops."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.launches import accelerate_files
from tests.frameworks.test_counts import judged

KIND = {"distributed_type": "MULTI_GPU", "num_processes": "4"}
WORDS = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True).filter(lambda word: word not in ("yes", "no", "on", "off"))
VALUES = st.one_of(
    st.integers(0, 99), st.booleans(), st.none(), st.from_regex(r"[A-Z][A-Za-z_./-]{1,12}", fullmatch=True)
)
FLAT = st.dictionaries(WORDS, st.one_of(VALUES, st.dictionaries(WORDS, VALUES, min_size=1, max_size=3)), max_size=6)


def told(value):
    return str(value) if type(value) is int else value


def plain(found):
    inner = {
        key: {name: told(each) for name, each in value.items()} if isinstance(value, dict) else told(value)
        for key, value in found.items()
    }
    return {key: value for key, value in inner.items() if value is not None}


@given(FLAT)
def test_a_flat_file_is_read_as_yaml_reads_it(found):
    text = yaml.safe_dump(found, default_flow_style=False)
    if "{}" not in text:
        assert accelerate_files.read(text, "a.yaml") == plain(yaml.safe_load(text) or {})


@given(st.dictionaries(WORDS, VALUES, max_size=6))
def test_a_file_of_json_is_read_as_json(found):
    assert accelerate_files.read(json.dumps(found), "a.json") == plain(found)


@given(st.text(max_size=80))
def test_any_text_is_read_or_left(text):
    accelerate_files.read(text, "a.yaml")
    accelerate_files.read(text, "a.json")


def test_empty_lists_and_objects_are_nothing():
    assert accelerate_files.read("tpu_env: []\nfsdp_config: {}\nnum_processes: 4", "a.yaml") == {"num_processes": "4"}


OTHER_FORMS = (
    "a: [1, 2]",
    "a: {b: c}",
    "- a",
    "a: |\n  b",
    "a:\n  b:\n    c: 1",
    "a: &x 1",
    "a:\n\tb: 1",
    "a b",
    "a: 1\n  b: 2",
)


@pytest.mark.parametrize("text", OTHER_FORMS)
def test_a_text_of_another_form_is_not_read(text):
    assert accelerate_files.read(text, "a.yaml") is None


FAULTS = {
    "no kind": ({"num_processes": "4"}, "no distributed_type"),
    "no number": ({"distributed_type": "FSDP"}, "num_processes"),
    "a rank that nobody replaced": (KIND | {"num_machines": "2", "machine_rank": "${RANK}"}, "machine_rank"),
    "states that are not synced": (
        KIND | {"fsdp_config": {"fsdp_cpu_ram_efficient_loading": True, "fsdp_sync_module_states": False}},
        "fsdp_sync_module_states",
    ),
}


@pytest.mark.parametrize(("found", "said"), FAULTS.values(), ids=FAULTS)
def test_what_accelerate_refuses_of_a_file_is_said(found, said):
    assert said in accelerate_files.fault(found, {})


@pytest.mark.parametrize(
    ("found", "said"), [({"distributed_type": "GPU"}, "distributed_type GPU"), ({"num_gpus": "4"}, "num_gpus")]
)
def test_what_another_version_may_take_of_a_file_is_doubted(found, said):
    assert accelerate_files.fault(KIND | found, {}) == ""
    assert said in accelerate_files.doubt(KIND | found)


TAKEN = {
    "the usual": (KIND, {}),
    "a number on the line": ({"distributed_type": "FSDP"}, {"num_processes": "4"}),
    "no distribution": ({"distributed_type": "NO"}, {}),
    "no distribution, as YAML reads it": ({"distributed_type": False}, {}),
    "a rank of the pod": (KIND | {"num_machines": "2", "machine_rank": "$(PET_NODE_RANK)"}, {}),
    "a rank on the line": (KIND | {"num_machines": "2", "machine_rank": "${RANK}"}, {"machine_rank": "1"}),
    "a cloud": ({"compute_environment": "AMAZON_SAGEMAKER", "image_uri": "x"}, {}),
}


@pytest.mark.parametrize(("found", "flags"), TAKEN.values(), ids=TAKEN)
def test_what_accelerate_takes_is_not_spoken_of(found, flags):
    assert accelerate_files.fault(found, flags) == accelerate_files.doubt(found) == ""


def test_a_file_that_the_shell_may_have_changed_since_is_not_read():
    text = "cat > a.yaml <<EOF\ndistributed_type: MULTI_GPU\nnum_processes: 8\nEOF\nsed -i s/8/4/ a.yaml\n"
    command = ["bash", "-c", f"{text}accelerate launch --config_file a.yaml x.py"]
    assert [each[:2] for each in judged("", {"command": command})] == [("note", "core/unknown-world")]


def written(*members, launch="accelerate launch --config_file a.yaml x.py", file="a.yaml"):
    text = "\n".join([f"cat > {file} <<EOF", *members, "EOF", launch])
    return [each[:2] for each in judged("", {"command": ["bash", "-c", text]})]


def test_the_processes_of_a_file_are_compared_with_the_devices():
    assert written("distributed_type: MULTI_GPU", "num_processes: 4") == []
    assert written("distributed_type: MULTI_GPU", "num_processes: 2") == [("warning", "core/idle-devices")]
    assert written("distributed_type: MULTI_GPU", "num_processes: 8") == [("error", "core/too-many-processes")]
    assert written("num_processes: 4") == [("error", "core/launch")]


def test_a_flag_wins_over_the_file():
    line = "accelerate launch --config_file a.yaml --num_processes 4 x.py"
    assert written("distributed_type: MULTI_GPU", "num_processes: 8", launch=line) == []


def test_the_file_in_the_default_place_is_read_without_a_flag():
    place = "/root/.cache/huggingface/accelerate/default_config.yaml"
    members = ("distributed_type: MULTI_GPU", "num_processes: 2")
    assert written(*members, launch="accelerate launch x.py", file=place) == [("warning", "core/idle-devices")]
    assert written(*members, launch="accelerate launch x.py", file="/tmp/other.yaml") == []


def test_a_file_that_nobody_wrote_stays_unseen():
    assert written("distributed_type: FSDP", file="b.yaml") == [("note", "core/unknown-world")]


def hosts(*lines, nodes=2):
    text = "\n".join(
        ["cat > hosts <<EOF", *lines, "EOF", "deepspeed --hostfile hosts --no_ssh --node_rank $PET_NODE_RANK x.py"]
    )
    return [each[:2] for each in judged("", {"command": ["bash", "-c", text], "numNodes": nodes})]


def test_the_slots_of_a_host_file_are_compared_with_devices_and_nodes():
    assert hosts("a slots=4", "b slots=4") == []
    assert hosts("a slots=1", "b slots=1") == [("warning", "core/idle-devices")]
    assert hosts("a slots=4", "b slots=4", "c slots=4") == [("error", "core/nodes")]
    assert hosts("a slots=4") == [("error", "core/nodes")]
    assert hosts("a", "b") == [("note", "core/unknown-world")]
