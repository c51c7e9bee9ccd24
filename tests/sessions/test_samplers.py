"""Which sampler a Gateway starts, in which interpreter, with which options."""

import argparse
import subprocess
import sys

import pytest

from muster.sessions.engines import names, process
from tests.sessions.gateways import ROOT, Gateway


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--sampler", "vlm"], "--sampler: vlm: pass transformers, vllm, whole or MODULE:CLASS"),
        (["--sampler-python", "/no/python"], "--sampler-python: /no/python: is not a program"),
        (["--trainer-python", "/no/python"], "--trainer-python: /no/python: is not a program"),
        (["--sampler-option", "rank"], "--sampler-option: rank: pass KEY=VALUE"),
        (["--sampler-option", "a b=3"], "--sampler-option: a b=3: pass KEY=VALUE"),
    ],
)
def test_a_sampler_that_cannot_be_is_refused_before_anything_starts(tmp_path, words, text):
    (tmp_path / "config.json").write_text("{}")
    command = [sys.executable, "-m", "muster.sessions.cli", "serve", "--root", str(tmp_path), "--base", str(tmp_path)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert text in done.stderr
    assert not (tmp_path / "run").exists()


def test_samplers_have_names_and_may_be_any_class():
    assert names.sampler("vllm") == "muster.sessions.engines.vllm_sampler:VllmSampler"
    assert names.sampler("my.own:Sampler") == "my.own:Sampler"


class Told:
    """Keeps what it was made with."""

    def __init__(self, base, **options):
        self.given = (base, options)


def test_options_reach_the_sampler_as_json_or_as_text(tmp_path):
    options = ["rank=32", "memory=0.5", "device=cuda", "name=a=b", "cache=null"]
    made = process._made(f"{__name__}:Told", argparse.Namespace(base=tmp_path), options, "sampler")
    assert made.given == (
        tmp_path,
        {"rank": 32, "memory": 0.5, "device": "cuda", "name": "a=b", "cache": None},
    )


def interpreter(file):
    """Return a Python that notes in a file beside it what it was started with."""
    file.write_text(f'#!/bin/sh\necho "$@" >> {file}.started\nexec {sys.executable} "$@"\n')
    file.chmod(0o755)
    return str(file)


def test_each_engine_runs_in_the_interpreter_that_was_named_for_it(tmp_path, hand):
    class Other(Gateway):
        ENGINES = (
            *Gateway.ENGINES,
            *("--sampler-python", interpreter(tmp_path / "sampler")),
            *("--trainer-python", interpreter(tmp_path / "trainer")),
        )

    with Other(tmp_path / "root") as gateway:
        own = hand(gateway)
        session = {"session_id": own.session, "sampling_session_seq_id": 0, "base_model": own.base}
        asked = {
            "sampling_session_id": own.post("create_sampling_session", session)["sampling_session_id"],
            "seq_id": 1,
            "prompt": {"chunks": [{"tokens": [1, 2, 3], "type": "encoded_text"}]},
            "sampling_params": {"max_tokens": 4, "seed": 1},
        }
        id_ = own.post("asample", asked)["request_id"]
        while "protobuf" not in (answer := own.poll(id_)).headers["content-type"]:
            assert answer.json()["type"] == "try_again"
        gateway.engine("trainer")
    for named, other in (("sampler", "trainer"), ("trainer", "sampler")):
        (started,) = (tmp_path / f"{named}.started").read_text().splitlines()
        assert f"--{named}" in started
        assert f"--{other}" not in started
