from __future__ import annotations

import copy
import json
import shlex
from urllib import parse

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.webhook.audit import schemas
from muster.webhook.audit.records import Record
from muster.webhook.audit.redaction import redaction, texts

MARK = texts.MARK
NAMES = st.sampled_from(
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "hub_token", "apiKey", "password", "credentials"]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# What means something to a shell, to YAML or to JSON.
SYNTAX = st.sampled_from(
    [*"<>=-()`&|;#'\\\"{}[],:@!*?~%$\n", "<<", "<<-", "<<<", ">>", "==", "=>", ":=", "$(", "${", "://"]
)
# Any text, with something inside that stands nowhere else in a record; what begins with -- would be the next flag.
SECRETS = st.tuples(TEXT | SYNTAX, TEXT | SYNTAX).map("-Zq7-Zq7".join).filter(lambda text: not text.startswith("--"))
FORMATTED = st.from_regex(r"\A(hf_[A-Za-z0-9]{30}|ghp_[A-Za-z0-9]{36}|AKIA[A-Z0-9]{16}|sk-[a-z]{10}[0-9]{10})\Z")


VOLUME = ("secretName", "name", "defaultMode", "optional", "items")


def env(*entries):
    return [{"name": "PET_NNODES", "value": "2"}, *entries, {"name": "TOKENIZERS_PARALLELISM", "value": "false"}]


def leaves(value):
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield str(value)


def assert_gone(secret, record):
    assert not [leaf for leaf in leaves(record) if secret in leaf]
    assert json.dumps(secret)[1:-1] not in json.dumps(record)


# Each plants one secret, as (field, value), the way that jobs carry them.
PLANTS = {
    "entry": lambda name, secret: ("env", {"name": name, "value": secret}),
    "env": lambda name, secret: ("spec.trainer.env", env({"name": name, "value": secret})),
    "container": lambda name, secret: (
        "containers[node]",
        {"image": "x", "env": env({"name": name, "value": secret})},
    ),
    "bare": lambda name, secret: (f"spec.trainer.env[{name}].value", secret),
    "keyed": lambda name, secret: (f"spec.trainer.env[{name}]", {"name": name, "value": secret}),
    "annotation": lambda name, secret: (f"metadata.annotations[example.com/{name}]", secret),
    "member": lambda name, secret: (f"spec.{name}", {"inner": [secret]}),
    "map": lambda name, secret: ("data", {"user": "bob", name: secret}),
    "nested map": lambda name, secret: ("data", {name: {"inner": [secret]}}),
    "flag": lambda name, secret: ("spec.trainer.args", ["--lr", "1", f"--{name}", secret, "--seed", "2"]),
    "flag=": lambda name, secret: ("spec.trainer.args", ["--lr", "1", f"--{name}={secret}"]),
    "shell": lambda name, secret: ("args", ["bash", "-c", f"{name}={shlex.quote(secret)} trl sft --seed 1"]),
    "shell flag": lambda name, secret: ("args", ["bash", "-c", f"trl sft --{name} {shlex.quote(secret)} --seed 1"]),
    "document": lambda name, secret: (
        "annotations[applied]",
        orjson.dumps({"env": env({"name": name, "value": secret})}).decode(),
    ),
}


@pytest.mark.parametrize("plant", PLANTS)
@settings(deadline=None)
@given(data=st.data(), name=NAMES, secret=SECRETS)
def test_no_secret_planted_in_a_change_survives(make_record, make_change, plant, data, name, secret):
    side = data.draw(st.sampled_from(["before", "after"]))
    field, value = PLANTS[plant](name, secret)
    record = make_record(changes=[make_change(), make_change(field, **{side: value}), make_change()])
    redacted = redaction.redact(record)
    assert_gone(secret, redacted)
    assert MARK in orjson.dumps(redacted).decode()


@pytest.mark.parametrize("plant", PLANTS)
@settings(deadline=None)
@given(name=NAMES, secret=SECRETS)
def test_no_secret_planted_in_a_finding_survives(make_record, make_finding, plant, name, secret):
    record = make_record(findings=[make_finding(*PLANTS[plant](name, secret))])
    assert_gone(secret, redaction.redact(record))


@settings(deadline=None)
@given(name=NAMES, secret=SECRETS, quote=st.sampled_from(["{}", "{!r}", "got '{}' here"]))
def test_a_secret_that_messages_and_reasons_repeat_is_gone_from_them_too(
    make_record, make_change, make_finding, name, secret, quote
):
    told = quote.format(secret)
    change = make_change(f"env[{name}].value", after=secret) | {"reason": told}
    record = make_record(changes=[change], findings=[make_finding("spec.x", told, told)], message=told)
    assert_gone(secret, redaction.redact(record))


@settings(deadline=None)
@given(
    secret=FORMATTED,
    place=st.sampled_from(["uid", "framework", "message", "username", "groups", "object", "key", "value", "reason"]),
)
def test_a_known_token_format_survives_nowhere(make_record, make_change, make_finding, secret, place):
    record = make_record(
        changes=[make_change(after={"a": secret} if place == "value" else {secret: "a"} if place == "key" else "a")],
        user={
            "username": secret if place == "username" else "bob",
            "groups": [secret if place == "groups" else "team"],
        },
        object={"kind": "TrainJob", "namespace": "n", "name": f"x {secret}" if place == "object" else "x"},
    )
    if place in {"uid", "framework", "message"}:
        record[place] = f"of {secret}."
    if place == "reason":
        record["changes"][0]["reason"] = f"because {secret} was there"
    assert_gone(secret, redaction.redact(record))


@settings(deadline=None)
@given(user=st.text("abcXYZ012", min_size=1), secret=SECRETS)
def test_a_password_in_a_url_is_gone(make_record, make_change, user, secret):
    password = parse.quote(secret, safe="")
    record = make_record(changes=[make_change("image", after=f"git+https://{user}:{password}@host/x.git")])
    assert_gone(password, redaction.redact(record))


@settings(deadline=None)
@given(secret=SECRETS)
def test_a_variable_taken_from_a_secret_hides_the_value_that_it_had_or_gets(make_record, make_change, secret):
    reference = {"secretKeyRef": {"name": "hf", "key": "token"}}
    change = make_change(
        "env[PLAIN]", before={"name": "PLAIN", "valueFrom": reference}, after={"name": "PLAIN", "value": secret}
    )
    redacted = redaction.redact(make_record(changes=[change]))
    assert_gone(secret, redacted)
    assert redacted["changes"][0]["before"]["valueFrom"] == reference


def test_a_source_that_is_set_alone_makes_its_variable_secret(make_record, make_change):
    source = make_change("env[PLAIN].valueFrom", after={"secretKeyRef": {"name": "hf", "key": "token"}})
    value = make_change("env[PLAIN].value", before="planted-here")
    assert_gone("planted-here", redaction.redact(make_record(changes=[value, source])))


@settings(deadline=None)
@given(secret=SECRETS)
def test_a_value_added_behind_its_flag_in_an_operation_of_its_own_is_gone(make_record, make_change, secret):
    changes = [
        make_change(f"args[{i}]", f"/spec/trainer/args/{i}", after=each)
        for i, each in enumerate(["--hub_token", secret], 2)
    ]
    redacted = redaction.redact(make_record(changes=changes))
    assert redacted["changes"][0]["after"] == "--hub_token"
    assert_gone(secret, redacted)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.text(max_size=12)
    | st.sampled_from(["HF_TOKEN=abc", "--hub_token", "hf_" + "a" * 20]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "value", "env", "api_key", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(before=JSON, after=JSON)
def test_redaction_leaves_its_input_alone_and_a_second_one_changes_nothing(make_record, make_change, before, after):
    record = make_record(changes=[make_change("env[HF_TOKEN]", before=before, after=after)])
    kept = copy.deepcopy(record)
    once = redaction.redact(record)
    assert record == kept
    assert redaction.redact(once) == once
    assert schemas.check(once, Record) == []


def test_a_record_without_secrets_is_returned_as_it_is(make_record, make_change):
    record = make_record(changes=[make_change("spec.trainer.env", after=env())])
    assert redaction.redact(record) is record


def test_only_what_is_secret_is_hidden(make_record, make_change):
    entries = env({"name": "HF_TOKEN", "value": "planted"}, {"name": "HF_HOME", "value": "/data"})
    after = redaction.redact(make_record(changes=[make_change("env", after=entries)]))["changes"][0]["after"]
    assert [entry["value"] for entry in after] == ["2", MARK, "/data", "false"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("volumes[x]", {"name": "x", "secret": {"secretName": "hf-credentials", "defaultMode": 256}}),
        ("volumes[x]", {"name": "x", "secret": dict.fromkeys(VOLUME, "hf")}),
        ("spec.tokenRef", "hf"),
        ("spec.tokenRefs", ["hf"]),
        ("spec.tokenSecretName", "hf"),
        *(("env[HF_TOKEN].value", switch) for switch in ("", "true", "False", "none", "null")),
        ("spec.template.spec", {"imagePullSecrets": [{"name": "registry"}], "automountServiceAccountToken": False}),
        ("envFrom", [{"secretRef": {"name": "hf"}}]),
        ("env[HF_TOKEN]", {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}),
        ("env[HF_TOKEN].value", "$(OTHER_TOKEN)"),
        ("env[USE_AUTH]", {"name": "USE_AUTH", "value": "true"}),
        ("containers[auth]", {"name": "auth", "image": "nginx"}),
        ("containers[auth].image", "nginx"),
        ("env[HF_TOKEN].value", None),
        ("spec.auth", True),
    ],
)
def test_what_only_names_a_secret_or_a_switch_is_shown(make_record, make_change, field, value):
    record = make_record(changes=[make_change(field, after=value)])
    assert redaction.redact(record) == record


def test_a_secret_that_is_no_volume_is_hidden_whatever_else_it_says(make_record, make_change):
    written = {"secret": {"secretName": "hf", "token": "planted"}, "other": {"secret": "planted"}}
    assert "planted" not in str(redaction.redact(make_record(changes=[make_change("spec", after=written)])))


def test_further_rules_hide_further_names_and_formats(make_record, make_change):
    rules = redaction.Rules.from_patterns(names=["licen[cs]e"], formats=[r"acme-\d+"])
    changes = [
        make_change("env", after=[{"name": "ACME_LICENCE", "value": "abc"}]),
        make_change("x", after="see acme-123!"),
    ]
    first, second = redaction.redact(make_record(changes=changes), rules)["changes"]
    assert (first["after"][0]["value"], second["after"]) == (MARK, f"see {MARK}!")


def test_a_further_format_is_hidden_wherever_it_stands(make_record):
    rules = redaction.Rules.from_patterns(formats=[r"acme-\d+"])
    record = make_record(user={"username": "acme-123"}, message="acme-4 asks")
    redacted = redaction.redact(record, rules)
    assert (redacted["user"]["username"], redacted["message"]) == (MARK, f"{MARK} asks")


def test_a_rule_that_is_no_expression_is_named():
    with pytest.raises(ValueError, match=r"redaction name 'a\(' is not a regular expression"):
        redaction.Rules.from_patterns(names=["fine", "a("])


def test_a_record_that_json_cannot_hold_is_refused(make_record, make_change):
    with pytest.raises(TypeError):
        redaction.redact(make_record(changes=[make_change(after=object())]))


@pytest.mark.parametrize(
    "named",
    [
        {"object": {"kind": "TrainJob", "namespace": "n", "name": "--hub_tok planted-here"}},
        {"object": {"kind": "TrainJob", "namespace": "n", "name": "", "generateName": "x?token=planted-here&b=1"}},
        {"owner": {"kind": "TrainJob", "name": "password=planted-here", "uid": "u"}},
        {"runtime": {"kind": "x", "name": '{"token": "planted-here"}', "source": "live"}},
        {"framework": "curl -u bob:planted-here"},
    ],
    ids=lambda named: next(iter(named)),
)
def test_what_the_author_named_has_no_secret_and_neither_has_what_repeats_it(make_record, make_change, named):
    record = make_record(changes=[make_change("spec.x", after="see planted-here")], **named)
    assert_gone("planted-here", redaction.redact(record))


def test_a_secret_that_is_a_word_of_muster_changes_no_rule_and_no_member_of_a_record(make_record, make_change):
    finding = {"severity": "warning", "field": "spec", "value": None, "message": "severity", "rule": "core/unknown"}
    changes = [
        make_change("env[HF_TOKEN].value", after="severity"),
        make_change("env[A_TOKEN].value", after="core/unknown"),
        make_change("env[B_TOKEN].value", after="trl/launch"),
    ]
    record = redaction.redact(make_record(changes=changes, findings=[finding]))
    assert record["findings"] == [{**finding, "message": "<redacted>"}]
    assert {change["rule"] for change in record["changes"]} == {"trl/launch"}
