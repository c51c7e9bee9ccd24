"""Tokens of a known form in replies, terminals and log lines, and in records with whole values."""

from __future__ import annotations

import base64
import time

import orjson
import pytest

from muster.audit import record_schema, scanner

WORD = "Zq7xPlanted8Secret"
HF = "hf_" + WORD * 2


@pytest.mark.parametrize(
    "text",
    [
        HF,
        f"the token is {HF}, says the hub",
        "AKIA" + "Z7Q8" * 4,
        f"-----BEGIN PRIVATE KEY-----\n{WORD}\n-----END PRIVATE KEY-----",
        f"eyJhbGciOiJIUzI1NiJ9.eyJacTd4.{WORD}",
        f"https://bob:{WORD}@host.example/x",
        f"Authorization: Bearer {WORD}",
        f"--hub_token {WORD} --lr 1",
        f"HF_TOKEN='{WORD}' torchrun",
        f'{{"hubToken": "{WORD}"}}',
        f"password: {WORD}",
        f"?access_token={WORD}&a=1",
        f"bob:{WORD}@registry.example/x",
        f"https://bob:{WORD}…",
        f"--opt={base64.b64encode(f'token: {WORD}'.encode()).decode()}",
        f"/mnt/{base64.urlsafe_b64encode(HF.encode()).decode().rstrip('=')}/x",
        base64.encodebytes(f"{'x' * 80}\ntoken: {WORD}".encode()).decode(),
        base64.b64encode(b"key: " + base64.b64encode(HF.encode())).decode(),
    ],
)
def test_a_token_of_a_known_form_or_behind_its_name_is_hidden(text):
    assert WORD not in scanner.text(text)
    assert "Z7Q8" not in scanner.text(text)
    assert scanner.MARK in scanner.text(text)


@pytest.mark.parametrize(
    "text",
    [
        "the secret of the job is missing; token: must be set",
        "--max_new_tokens 512 --pad_token Value8 --tokenizer org/Model7",
        "spec.trainer.env[HF_TOKEN].value: is taken from a Secret",
        "--hub_token $(HF_TOKEN)",
        "name:tag@sha256:" + "ab12" * 16,
        "registry.example:5000/team/image:v1@sha256:" + "ab12" * 16,
        "git+https://host.example/x@" + "ab12" * 10,
        "job train-" + "ab12" * 10,
        "/mnt/checkpoints/of-the-long-training/epoch…",
        "spec.numNodes: '1111111111111111111111…",
        "ClusterTrainingRuntime/torch-distributed-with-nccl, TrainJobAnnotationsOfMuster",
        "--chat_template " + base64.b64encode(b"{{ bos_token }} a template of some length").decode(),
        "https://host.example:8443/x and http://$(MASTER_ADDR):29500…",
    ],
)
def test_a_sentence_without_one_stays_as_it_is(text):
    assert scanner.text(text) == text


def test_a_text_is_cut_after_its_tokens_are_hidden():
    shown = scanner.text("x " * 20 + HF, 45)
    assert "hf_" not in shown
    assert shown.endswith(f"… of {40 + len(HF)} characters")


@pytest.mark.parametrize("piece", ["a", "token", "token=", "-", "hf_", "://", "eyJa.", "a.b-", '"', "-----BEGIN "])
def test_a_text_of_one_piece_again_and_again_costs_what_its_length_does(piece):
    scanner.text(piece)
    began = time.process_time()
    scanner.text(piece * (scanner.LONGEST * 8 // len(piece)))
    assert time.process_time() - began < 1.0


def test_a_full_record_has_the_values_without_secrets(make_record, make_change, make_finding):
    record = make_record(
        changes=[
            make_change("spec.env", after=[{"name": "HF_TOKEN", "value": WORD}, {"name": "A", "value": "hunter"}]),
            make_change("spec.env[API_KEY].value", after=WORD),
            make_change("spec.args", after=["--hub_token", WORD, "--lr", "1"]),
            make_change("metadata.annotations", after={"a/password": WORD, "b": "c"}),
            make_change("spec.env[LICENCE].value", after=WORD),
        ],
        findings=[make_finding("spec.args[1]", HF, f"{HF} is odd")],
        message=f"password={WORD}",
    )
    shown = scanner.record(record, scanner.compiled(["licen[cs]e"]))
    text = orjson.dumps(shown).decode()
    assert WORD not in text
    assert shown["changes"][0]["after"][1] == {"name": "A", "value": "hunter"}
    assert shown["changes"][2]["after"][2:] == ["--lr", "1"]
    assert shown["changes"][3]["after"]["b"] == "c"
    assert record_schema.misfit(shown, record_schema.Record) is None


def test_a_further_name_that_is_no_regular_expression_is_named():
    with pytest.raises(ValueError, match=r"'a\('.*is not a regular expression"):
        scanner.compiled(["a("])
