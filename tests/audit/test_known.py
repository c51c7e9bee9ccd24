"""What a record shows of a job, and what stands in place of everything else."""

from __future__ import annotations

import base64
import hashlib
import json
import string

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as some

from muster.audit import known, record_schema

# What people use: letters and digits, long enough that it is no word of Muster's and no name of an object.
SECRETS = some.text(string.ascii_letters + string.digits + "+/_=!$%", min_size=10, max_size=60)
PLACES = {
    "argv": ("spec.trainer.args", lambda s: ["--hub_token", s, f"--a={s}", s, f"--{s}", "-x", s]),
    "one word": ("spec.trainer.command[3]", lambda s: s),
    "a known flag": ("spec.trainer.args", lambda s: ["--learning_rate", s, f"--num_train_epochs={s}", "--bf16", s]),
    "a launcher": ("spec.trainer.command", lambda s: ["torchrun", f"--nnodes={s}", "-m", s]),
    "shell": ("spec.trainer.command", lambda s: ["bash", "-c", f"export HF_TOKEN={s}; torchrun t.py"]),
    "env": ("spec.trainer.env", lambda s: [{"name": "HF_TOKEN", "value": s}, {"name": s, "value": "1"}]),
    "known env": ("spec.trainer.env[MASTER_PORT].value", lambda s: s),
    "annotation": ("metadata.annotations", lambda s: {"example.com/a": s, s: "x"}),
    "label": ("metadata.labels[muster.dev/profile]", lambda s: s),
    "URL": ("spec.initializer.model.storageUri", lambda s: f"hf://x:{s}@host.example/y"),
    "base64": ("spec.trainer.args", lambda s: [base64.b64encode(f"token: {s}".encode()).decode()]),
    "JSON in a text": ("spec.trainer.args", lambda s: ["--config", json.dumps({"a": json.dumps({"b": s})})]),
    "unknown member": ("spec.trainer", lambda s: {s: {"a": 1}, "image": "x", "numNodes": s}),
    "a name": ("spec.volumes", lambda s: [{"name": s, "secret": {"secretName": s}}]),
    "field": (None, lambda s: s),
    "image": ("spec.trainer.image", lambda s: f"bob:{s}@host.example/x"),
    "nested": ("spec", lambda s: {"template": [[[{"args": [s], "command": s, "env": {"a": s}}]]]}),
}


@settings(deadline=None, max_examples=150)
@given(SECRETS, some.sampled_from(sorted(PLACES)))
def test_no_secret_in_any_place_is_in_a_known_record(make_record, make_change, make_finding, secret, place):
    assume(not known._is_known(secret) and any(map(str.isupper, secret)))
    path, value = PLACES[place]
    path = path or f"spec.trainer.env[{secret}].value"
    planted = value(secret)
    record = make_record(
        changes=[make_change(path, f"/spec/{secret}/0", before=planted, after=planted)],
        findings=[make_finding(path, planted, f"unknown flag --{secret}, and `{secret}` of {json.dumps(secret)}")],
        message=f"the strategy failed: {secret}",
    )
    shown = orjson.dumps(known.record(record)).decode()
    assert secret not in shown
    assert base64.b64encode(secret.encode()).decode().rstrip("=") not in shown
    assert record_schema.misfit(known.record(record), record_schema.Record) is None


def test_a_hash_says_which_text_it_was_and_how_long():
    assert known.hashed("a ütext") == f"sha256:{hashlib.sha256('a ütext'.encode()).hexdigest()[:12]} (8 bytes)"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("spec.trainer.numNodes", 3),
        ("spec.trainer.image", "registry.example:5000/team/x:1@sha256:" + "0" * 64),
        ("spec.runtimeRef.name", "torch-distributed"),
        ("spec.suspend", True),
        ("spec.x[a].containers[node].resources", {"limits": {"nvidia.com/gpu": "8", "memory": "80Gi"}}),
        ("spec.trainer.args", ["--learning_rate", "2e-5", "--bf16", "true", "--bnb_4bit_quant_type=nf4"]),
        ("spec.trainer.command", ["torchrun", "-m", "trl.scripts.sft", "--nnodes=2", "--nproc_per_node", "gpu"]),
        ("spec.trainer.args", ["--rdzv_endpoint", "$(PET_MASTER_ADDR):29500", "--standalone"]),
        ("spec.trainer.env", [{"name": "PET_NNODES", "value": "2"}, {"name": "MASTER_ADDR", "value": "a-0.b"}]),
        ("spec.trainer.env[RANK].value", "$(PET_NODE_RANK)"),
        ("spec.trainer.env[HF_TOKEN].valueFrom", {"secretKeyRef": {"name": "hf", "key": "token"}}),
        ("metadata.labels", {"muster.dev/profile": "h100-nvlink"}),
        ("spec.tolerations", [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]),
        ("spec.x.readinessProbe", {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 10}),
    ],
)
def test_what_muster_understands_is_shown(path, shown):
    assert known.value(shown, path) == shown


@pytest.mark.parametrize(
    "path",
    [
        "spec.trainer.env[PET_NNODES].value",
        "metadata.annotations[muster.dev/applied]",
        "spec.replicatedJobs[node].template.spec.template.spec.containers[trainer].args[3]",
        "metadata.annotations.note",
    ],
)
def test_a_field_of_known_names_is_shown(path):
    assert known.field(path) == path


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("must be at least 1", "must be at least 1"),
        ("2 nodes x 4 processes", "2 nodes x 4 processes"),
        ('"Zq7xPlanted8" is not a number', f'"{known.hashed("Zq7xPlanted8")}" is not a number'),
        ("--hub_token=Zq7xPlanted8: is set", f"--{known.hashed('hub_token=Zq7xPlanted8')}: is set"),
        ("the volume my-claim is missing", "the volume my-claim is missing"),
        ("Zq7x Planted8 is", f"{known.hashed('Zq7x Planted8')} is"),
    ],
)
def test_of_a_sentence_the_words_of_muster_and_the_names_are_shown(sentence, shown):
    assert known.text(sentence, {"my-claim"}) == shown


def test_a_long_sentence_is_cut_and_costs_what_its_length_does():
    assert len(known.text("must be " * 100_000)) < 5000


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("sk-prod-us-east-1", "sk-learn-trainer-v2"),
        ("tml-node-pool-12345", "glpat-mirror-runner-1"),
        ("ab12" * 10, "pypi-cache.internal-1"),
    ],
)
def test_names_that_begin_like_tokens_and_every_namespace_are_shown(namespace, name, make_record):
    raw = make_record()
    raw["object"] |= {"namespace": namespace, "name": name}
    assert known.record(raw)["object"] == raw["object"]


def test_an_image_that_begins_like_a_token_or_has_a_commit_as_tag_is_shown():
    for image in ("ghcr.io/team/sk-image-v2:1.0", "ghcr.io/team/trainer:" + "ab12" * 10):
        assert known.value(image, "spec.trainer.image") == image
