"""Tokens of a known form in replies, terminals and log lines, and in records with whole values."""

from __future__ import annotations

import base64
import time

import orjson
import pytest

from muster.audit import record_schema, scanner
from tests.attacks import secret_shapes

SHAPES = secret_shapes.drawn(3)
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
        "sk-learn-trainer-v2 in sk-prod-us-east-1 on tml-node-pool-12345 of glpat-mirror-runner-1",
        "pypi-cache.internal-1, ghcr.io/team/sk-image-v2:1.0, hf_mirror_2024 and xai-grok-1-314b",
        "ghcr.io/team/trainer:" + "ab12" * 10,
        f"--revision={'ab12' * 10} --revision {'ab12' * 10}; git commit {'ab12' * 10}",
        f'git checkout {"ab12" * 10}; revision: {"ab12" * 10}; "revision": "{"ab12" * 10}"',
        f"/cache/hub/models--org--name/snapshots/{'ab12' * 10}/config.json",
        "--min_tokens=1024 --batch_tokens 8192 --tokens 8192 --spec_tokens 4096",
        "basic training, a bearer capability",
        "ssh://git@github.com/x and a:latest@node1",
    ],
)
def test_a_sentence_without_one_stays_as_it_is(text):
    assert scanner.text(text) == text


@pytest.mark.parametrize(
    "token",
    [
        "pcsk_" + WORD * 3,
        "lsv2_pt_" + "ab12" * 8 + "_" + "ab12ab12ab",
        "rpa_" + WORD.upper() * 2,
        "tvly-" + WORD * 2,
        "sbp_" + "ab12" * 10,
        "shpat_" + "ab12" * 8,
        "lin_api_" + WORD * 2,
        "ntn_" + WORD * 2,
        "CCIPAT_" + WORD * 2,
        f"tskey-auth-{WORD}-{WORD * 2}",
        f"PMAK-{'ab12' * 6}-{'ab12' * 8}",
        "NRAK-" + WORD.upper() * 2,
        "sntrys_" + WORD * 4,
        "ATCTT3" + WORD * 4,
        f"{'aB34' * 3}aB.atlasv1.{WORD * 4}",
        "dp.pt." + WORD * 2,
        "figd_" + WORD * 2,
        "hvb." + WORD * 5,
        "glft-" + WORD,
        "hf_" + "a" * 34,
        "ab12" * 10,
    ],
)
def test_a_token_of_a_service_is_hidden_whole(token):
    assert scanner.text(f"see {token}, it says") == f"see {scanner.MARK}, it says"


def test_the_signature_of_a_presigned_url_is_hidden():
    signature = "ab12" * 16
    assert signature not in scanner.text(f"s3://b/x?X-Amz-Signature={signature}&x=1")


def test_a_number_is_a_secret_only_behind_the_name_of_a_password_or_a_further_name():
    given = {"min_tokens": "1024", "password": "10241024", "args": ["--batch_token", "8192"]}
    assert scanner.value(given) == {**given, "password": scanner.MARK}
    assert scanner.text("--password=10241024") == f"--password={scanner.MARK}"
    assert scanner.value({"min_token": "1024"}, scanner.compiled(["min_token"])) == {"min_token": scanner.MARK}


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


def test_a_full_record_says_who_sent_a_job_whatever_prefix_the_api_server_gives_names(make_record):
    record = scanner.record(
        make_record(user={"username": "oidc:ann@example.com", "groups": ["oidc:dev@example.com", HF]})
    )
    assert record["user"] == {"username": "oidc:ann@example.com", "groups": ["oidc:dev@example.com", scanner.MARK]}


def test_a_further_name_that_is_no_regular_expression_is_named():
    with pytest.raises(ValueError, match=r"'a\('.*is not a regular expression"):
        scanner.compiled(["a("])


@pytest.mark.parametrize("form", secret_shapes.FORMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_text_with_a_token_looks_as_if_it_may_have_one(shape, form):
    for whole in secret_shapes.FORMS[form](SHAPES[shape].text):
        for text in (whole, f"{whole[: len(whole) * 3 // 4]}…"):
            if scanner._TOKENS.search(text):
                assert scanner._may_have_token(text, text.casefold())
