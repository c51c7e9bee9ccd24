"""What is wrong in a configuration file is said in our words, never in pydantic's."""

from __future__ import annotations

import re
import typing

import pydantic
import pytest

from muster.webhook import configs, kubeyaml
from muster.webhook.configs import wording
from muster.webhook.configs.config_file import Config

VALUES = [None, True, -1, 3.5, 1e30, 10**30, "", "x", "x y", "A" * 300, [], [1], {}, {"x": 1}, {"x": {}}, {"a b": {}}]
FOREIGN = re.compile(
    r"pydantic|[Ii]nput|[Ff]ield required|valid (string|integer|number|bool|dict|tuple|list)|parse|should"
)


def models(annotation):
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from models(each)


def places(model, path=()):
    """Yield the path of each key of the file, with `x` for the names of entries and 0 for those of a list."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        yield here
        around = {dict: ("trainer" if here == ("roles",) else "x",), tuple: (0,)}
        for inner in models(field.annotation):
            yield from places(inner, here + around.get(typing.get_origin(field.annotation), ()))


def around(path, value):
    for part in reversed(path):
        value = [value] if part == 0 else {part: value}
    return value


def fault(text):
    with pytest.raises(configs.ConfigError) as caught:
        configs.parse(text.encode(), "muster.yaml")
    return str(caught.value)


def test_every_fault_of_every_key_is_said_in_our_words():
    kinds = set()
    for path in dict.fromkeys(places(Config)):
        for value in VALUES:
            try:
                Config.model_validate(around(path, value))
            except pydantic.ValidationError as error:
                for each in error.errors():
                    kinds.add(each["type"])
                    said = wording.explained("muster.yaml", Config, each)
                    assert not FOREIGN.search(said), said
                    assert len(said) < 400
    assert kinds >= {"bool_type", "enum", "extra_forbidden", "int_type", "literal_error", "missing", "string_type"}
    assert kinds <= {*wording.TEXTS, "extra_forbidden", "value_error"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: maybe", "mode: 'maybe': must be 'enforce', 'warn', 'audit' or 'off'"),
        ("mode: [warn]", "mode: ['warn']: must be 'enforce', 'warn', 'audit' or 'off'"),
        ("pluginBudget: -1", "pluginBudget: -1: must be more than 0"),
        ("server: 8443", "server: 8443: must be an object with keys"),
        ("server: {port: 70000}", "server.port: 70000: must be at most 65535"),
        ("server: {port: many}", "server.port: 'many': must be a whole number"),
        ("controllers: {enabled: perhaps}", "controllers.enabled: 'perhaps': must be true or false"),
        ("audit: {file: {}}", "audit.file.path: is missing; add it"),
        ("profiles: {a: {config: [x]}}", "profiles.a.config[0]: 'x': must be an object with keys"),
        ("roles: {trainr: {}}", "roles.trainr: 'trainr': must be 'trainer' or 'sampler'"),
        (f"mode: {'x' * 200}", f"mode: '{'x' * 58}…: must be 'enforce', 'warn', 'audit' or 'off'"),
    ],
)
def test_a_fault_names_key_value_and_what_to_write(text, said):
    assert f"muster.yaml: {said}" in fault(text).splitlines()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mood: warn", "mood: is not a key of the configuration; did you mean mode?"),
        ("server: {prt: 1}", "server.prt: is not a key of the configuration; did you mean port?"),
        ("frameworks: {trl: {mod: warn}}", "frameworks.trl.mod: is not a key of the configuration; did you mean mode?"),
        ("xyzzy: 1", "xyzzy: is not a key of the configuration; check its spelling and place"),
    ],
)
def test_a_key_that_does_not_exist_is_told_the_one_that_was_meant(text, said):
    assert fault(text) == f"muster.yaml: {said}"


@pytest.mark.parametrize(
    ("text", "called"), [("[]", "a list"), ("x", "a text"), ("3", "a number"), ("true", "true or")]
)
def test_a_file_that_is_no_object_is_told_so(text, called):
    assert kubeyaml.load(text) is not None
    assert fault(text).startswith(f"muster.yaml: is {called}")
