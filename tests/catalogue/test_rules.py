"""The catalogue: every rule that the code can report is explained, and its example is about that rule."""

from __future__ import annotations

import fnmatch
import itertools
import tempfile
from pathlib import Path

import pytest
import yaml

from muster.strategies.documents import findings
from muster.webhook import catalogue
from muster.webhook.cli import cases, commandline, explanations
from muster.webhook.cli.commands import explain
from tests.support import jobs as made
from tests.support import rules
from tools import findings as tool

_RUNTIMES = {"sampler": "trl-grpo", "torchtune": "torchtune-llama3.2-1b", "trl": "trl-distributed"}
_ENTRIES = sorted(set(catalogue.load().values()), key=lambda rule: rule.name)
_SHOWN = [rule for rule in _ENTRIES if not rule.needs]


def _matches(rule_id, pattern):
    return fnmatch.fnmatchcase(rule_id, pattern.replace("{}", "*"))


def test_every_rule_that_stands_in_the_code_is_explained():
    known = list(catalogue.load())
    missing = {
        f"{found} ({where})" for found, where in rules.written() if not any(_matches(each, found) for each in known)
    }
    assert not missing, f"add these to the rules.toml of their room: {sorted(missing)}"


def test_a_family_is_explained_for_every_framework_of_torch():
    shared = {found.removeprefix("{}") for found, _ in rules.written() if found.startswith("{}/") and found != "{}/{}"}
    lacking = [f"{each}{rest}" for rest in shared for each in ("torch", "torchtune", "trl")]
    assert not set(lacking) - set(catalogue.load())


def test_every_entry_is_about_a_rule_that_the_code_reports():
    patterns = {found for found, _ in rules.written()}
    assert not [each for each in catalogue.load() if not any(_matches(each, found) for found in patterns)]


def test_every_entry_stands_in_the_room_that_reports_it():
    written = list(rules.written())
    for rule in _ENTRIES:
        places = [where for found, where in written if any(_matches(each, found) for each in rule.ids)]
        assert any(where.startswith(f"{rule.room}/") for where in places), (rule.name, rule.room, places)


def test_a_finding_that_no_entry_explains_is_noticed():
    findings.warning("spec", None, "is odd", rule="core/not-explained")
    findings.note("spec", None, "is odd", rule="core/numbers")
    findings.error("spec", None, "is odd", rule="another-package/whatever")
    assert rules.strangers() == ["core/not-explained as warning", "core/numbers as note"]


def test_the_texts_of_an_entry_are_sentences_and_yaml():
    for rule in _ENTRIES:
        assert rule.title[0].isupper() or not rule.title[0].isalpha() or " " not in rule.title.split()[0], rule.name
        assert not rule.title.endswith("."), rule.name
        assert rule.why.endswith("."), rule.name
        for example in (rule.wrong, rule.right):
            assert example == "" or isinstance(yaml.safe_load(example), dict), rule.name


@pytest.mark.parametrize("rule", _SHOWN, ids=lambda rule: rule.name)
def test_the_example_of_an_entry_is_about_its_rule(rule):
    assert set(rule.ids) & _reported(rule, rule.wrong)


@pytest.mark.parametrize("rule", [each for each in _SHOWN if each.right], ids=lambda rule: rule.name)
def test_what_an_entry_says_to_write_instead_has_no_finding_of_its_rule(rule):
    assert not set(rule.ids) & _reported(rule, rule.right, changes=False)


def test_the_page_is_the_one_that_make_findings_writes():
    assert (rules.ROOT / "docs/reference/findings.md").read_text(encoding="utf-8") == tool.page()


def _reported(rule, example, *, changes=True):
    """Return the rules of what is decided about an example: about the job, and about the JobSet to come."""
    text = yaml.safe_dump(_completed(rule, yaml.safe_load(example)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "example.yaml"
        path.write_text(text, encoding="utf-8")
        setup = cases.prepare(commandline.parser().parse_args(["explain", "-f", str(path)]))
        decided = [explanations.explain(case, setup) for case in explain.sections(setup, with_jobsets=True)]
    members = ("findings", "changes") if changes else ("findings",)
    return {entry["rule"] for each in decided for member in members for entry in each[member]}


def _completed(rule, part):
    """Return a whole job of which an example is a part: of the runtime of the rule's framework."""
    group = "torch" if rule.is_family else rule.name.partition("/")[0]
    if part.get("kind") == "JobSet":
        return _merged(made.make_jobset("example", framework="vllm" if group == "vllm" else "torch"), part)
    runtime = _RUNTIMES.get(group, "torch-distributed")
    return _merged(made.make_trainjob("example", runtime=runtime), part)


def _merged(whole, part):
    """Put a part over a whole, member by member; entries of lists belong together by their position."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return {key: _merged(whole.get(key), part.get(key, whole.get(key))) for key in {**whole, **part}}
    if isinstance(whole, list) and isinstance(part, list):
        pairs = itertools.zip_longest(whole, part)
        return [_merged(one, one if other is None else other) for one, other in pairs]
    return part
