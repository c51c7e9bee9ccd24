"""A configuration file is taken whole or refused with every error by its path."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks import builtin
from muster.webhook import configs
from muster.webhook.admission.policies import Mode

REGISTRY = builtin.load(plugins=False)


def parsed(text):
    return configs.parse(text.encode(), "muster.yaml")


def problem(text):
    with pytest.raises(configs.ConfigError) as caught:
        parsed(text)
    return str(caught.value)


def test_an_empty_file_is_the_default_configuration():
    assert parsed("") == configs.Config() == configs.load(None)


def test_modes_and_settings_reach_the_policy():
    policy = parsed("mode: warn\nframeworks: {trl: {mode: audit, rendezvous: c10d}}").policy(REGISTRY)
    assert policy.mode is Mode.WARN
    assert policy.mode_of("trl", None) is Mode.AUDIT
    assert policy.mode_of("torch", None) is Mode.WARN
    assert policy.framework("trl").settings.rendezvous == "c10d"
    assert policy.framework("torch").settings.rendezvous == "static"


def test_the_guard_reaches_the_policy_and_names_its_image():
    guard = parsed("guard: {inject: open, image: example.org/muster:1}").policy(REGISTRY).guard
    assert (guard.inject, guard.mount, guard.image) == ("open", "init", "example.org/muster:1")
    assert parsed("").policy(REGISTRY).guard.inject == "never"
    told = problem("guard: {inject: always}")
    assert "guard: " in told
    assert "inject always: image is missing; give the image of Muster's own Deployment" in told


def test_the_bare_word_off_is_a_mode_although_yaml_reads_false():
    assert parsed("mode: off\nframeworks: {trl: {mode: off}}").policy(REGISTRY).mode_of("trl", None) is Mode.OFF


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("modus: enforce", "modus"),
        ("frameworks: {trl: {mod: audit}}", "frameworks.trl.mod"),
        ("server: {body_limit: 1}", "server.body_limit"),
    ],
)
def test_an_unknown_key_is_an_error_that_names_its_path(text, field):
    assert f"muster.yaml: {field}: is not a key of the configuration" in problem(text)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("mode: enforced", "mode: 'enforced'"),
        ("server: {port: 99999}", "server.port: 99999"),
        ("server: {bodyLimit: 1}", "server.bodyLimit: 1"),
        ("audit: {onFailure: explode}", "audit.onFailure: 'explode'"),
        ("apiVersion: muster.dev/v9", "apiVersion: 'muster.dev/v9'"),
    ],
)
def test_a_wrong_value_is_named_with_its_path(text, field):
    assert f"muster.yaml: {field}" in problem(text)


def test_all_errors_are_reported_at_once():
    assert len(problem("mode: x\nserver: {port: -1}\nfoo: 1").splitlines()) == 3


@pytest.mark.parametrize("text", ["- a", "mode: [", "just words"])
def test_what_is_no_configuration_is_refused(text):
    assert problem(text).startswith("muster.yaml: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(configs.ConfigError, match=r"nothing\.yaml: cannot be read"):
        configs.load(tmp_path / "nothing.yaml")


def test_a_file_in_another_encoding_is_refused(tmp_path):
    path = tmp_path / "muster.yaml"
    path.write_bytes("# grüße\nmode: warn".encode("latin-1"))
    with pytest.raises(configs.ConfigError, match="is not UTF-8"):
        configs.load(path)


def test_what_needs_a_restart_is_said():
    started = parsed("")
    assert started.restart_needed(parsed("mode: audit")) == []
    assert started.restart_needed(parsed("server: {port: 9000}\naudit: {stdout: false}")) == ["server", "audit"]
