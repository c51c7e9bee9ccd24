"""The chart's files say one thing with each other and with the rest of the project, without helm."""

from __future__ import annotations

import json
import re
import tomllib

import yaml

from muster.webhook import configs
from muster.webhook.configs import config_file
from tests.manifests import bases, files
from tools import chartvalues

CHART = files.FOLDER / "chart"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
FREE = {"affinity", "config", "custom", "issuerRef", "settings", "tlsConfig"}  # checked by others, or empty by itself


def resolved(schema):
    while "$ref" in schema:
        found = SCHEMA
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def objects(schema, path=""):
    """Every schema of an object with members of its own, by path."""
    schema = resolved(schema)
    if "properties" in schema:
        yield path, schema
    for name, member in schema.get("properties", {}).items():
        if isinstance(member, dict):
            yield from objects(member, f"{path}.{name}")


def test_chart_and_program_have_one_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((bases.ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert chart["version"] == chart["appVersion"] == version
    assert bases.kustomization()["images"][0]["newTag"] == version


def test_the_schema_knows_every_value_and_no_other():
    def compare(values, schema, path):
        schema = resolved(schema)
        if not isinstance(values, dict) or "properties" not in schema or path.rpartition(".")[2] in FREE:
            return
        assert set(values) == set(schema["properties"]) - {"global"}, path
        for name, member in values.items():
            compare(member, schema["properties"][name], f"{path}.{name}")

    compare(VALUES, SCHEMA, "")


def test_the_schema_lets_no_unknown_key_pass():
    for path, schema in objects(SCHEMA):
        if path.rpartition(".")[2] not in {
            "settings",
            "controllers",
            "cluster",
        }:  # of the configuration: Muster checks them
            assert schema.get("additionalProperties") is False, path


def test_the_configuration_may_have_every_key_but_those_that_the_chart_writes():
    known = {configs.Config.model_fields[name].alias for name in configs.Config.model_fields}
    assert set(SCHEMA["properties"]["config"]["properties"]) == known - {"apiVersion", "kind", "tls"}


def test_the_configuration_by_itself_is_that_of_the_base():
    chart = configs.parse(yaml.safe_dump(VALUES["config"]).encode(), "values.yaml")
    assert chart == bases.config().model_copy(update={"tls": chart.tls})


def test_keys_that_start_no_pod_anew_are_those_that_take_effect_at_once():
    (line,) = re.findall(r"omit \$config (.*?) \|", (CHART / "templates" / "_config.tpl").read_text())
    left_out = {json.loads(each) for each in line.split()}
    known = {each.alias for each in configs.Config.model_fields.values()} - {"apiVersion", "kind"}
    assert left_out == known - set(config_file.AT_START)


def test_what_is_linked_into_the_chart_is_there():
    for name in ("runtimes", "monitoring"):
        link = CHART / "files" / name
        assert link.is_symlink()
        assert link.resolve() == files.FOLDER / name


def test_every_runtime_has_a_switch():
    named = set(re.findall(r'"((?:torch|torchtune|trl)-[\w.-]+)"', (CHART / "templates" / "runtimes.yaml").read_text()))
    assert named == {path.stem for path in files.RUNTIMES}


def test_the_table_of_values_is_that_of_the_values():
    assert (CHART / "README.md").read_text() == chartvalues.readme(), "run `make chart-values`"


def test_every_value_is_in_the_table_with_its_default_and_a_description():
    listed = {each.path: each for each in chartvalues.values((CHART / "values.yaml").read_text())}
    assert {path.partition(".")[0] for path in listed} == set(VALUES)
    for path, each in listed.items():
        assert each.text or each.default is None, f"{path} has no comment in values.yaml"
        assert (each.default is None) == any(other.startswith(f"{path}.") for other in listed)


def test_comments_above_and_behind_a_value_are_its_description():
    text = "# One.\n# Two.\na:\n  b: 1 # three\n  # Four.\n\n  c: {d: '#'}\n"
    found = [(each.path, each.default, each.text) for each in chartvalues.values(text)]
    assert found == [("a", None, "One. Two."), ("a.b", "1", "three"), ("a.c", '{"d": "#"}', "")]


def test_images_are_called_alike_in_chart_and_runtimes():
    registry = f"{VALUES['image']['registry']}/{VALUES['image']['repository'].partition('/')[0]}/"
    assert registry in files.RUNTIMES[-1].read_text()
