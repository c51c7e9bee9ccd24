"""The generated pages of the reference are current, and leave out no command, no option and no key."""

from __future__ import annotations

import re

import pytest

from muster.sessions.cli import main as sessions
from muster.webhook import configs
from muster.webhook.cli import commandline
from tests.operations import pages
from tools.site import commands, configuration, migrations

COMMANDS = list(commands.commands())
SECTIONS = list(configuration.sections_of())
SCHEMA = configs.Config.model_json_schema(by_alias=True)
PAGES = {
    "docs/reference/commands.md": commands.page,
    "docs/reference/configuration.md": configuration.page,
    "docs/reference/migrations.md": migrations.page,
}


def section(page, title):
    """The text of a section of the second level."""
    return pages.read(page).partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def keys(schema, path=""):
    """Yield the path of every key that a JSON schema has, with * for a name that the author chooses."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}"
        yield from keys(inner, f"{path}{name}.")
    for inner in schema.get("anyOf", ()):
        yield from keys(inner, path)
    others = [schema.get("additionalProperties"), *schema.get("patternProperties", {}).values()]
    for inner in (each for each in others if isinstance(each, dict)):
        yield from keys(inner, f"{path}*.")
    if isinstance(schema.get("items"), dict):
        yield from keys(schema["items"], f"{path.removesuffix('.')}[].")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_reference_is_the_one_that_make_reference_writes(page):
    assert pages.read(page) == PAGES[page]()


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.words)
def test_each_option_that_the_help_of_a_command_names_is_on_the_page(command, capsys):
    words, elsewhere = command.words.split()[1:], command.words.startswith("muster sessions ")
    parser = sessions.parser() if elsewhere else commandline.parser()
    with pytest.raises(SystemExit):
        parser.parse_args([*words[elsewhere:], "--help"])
    helped = re.findall(r"^ +(-.*?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    options = {option for line in helped for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", line)}
    assert {"-h", "--help"} | (set() if elsewhere else {"--version"}) <= options
    shown = section("docs/reference/commands.md", command.words)
    lacking = [each for each in options - set(commands.EVERYWHERE) if not re.search(rf"`(.*, )?{each}[ ,`]", shown)]
    assert lacking == []
    assert len(shown.splitlines()) > 4


def test_each_word_of_the_command_line_that_leads_to_a_command_is_found():
    words = {command.words for command in COMMANDS}
    assert {"muster check", "muster audit verify", "muster serve", "muster sessions checkpoints rm"} <= words
    assert "muster sessions" not in words
    assert "muster audit" not in words


def test_each_key_that_the_configuration_takes_is_on_the_page():
    shown = {re.sub(r"\b[A-Z]+\b", "*", key.path) for section in SECTIONS for key in section.keys}
    assert shown == set(keys(SCHEMA))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.path or "the file")
def test_each_key_has_a_meaning_and_values(section):
    assert section.told
    for key in section.keys:
        assert len(key.told) > 8, key.path
        assert key.values, key.path


def test_the_defaults_on_the_page_are_those_of_an_empty_file():
    shown = {key.path: key.default for section in SECTIONS for key in section.keys}
    config = configs.Config()
    assert shown["server.port"] == str(config.server.port)
    assert shown["mode"] == config.mode.value
    assert shown["audit.onFailure"] == config.audit.on_failure
    assert shown["tls.selfSigned"] == "false"
