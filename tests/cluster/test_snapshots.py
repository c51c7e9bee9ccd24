from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook import kubeyaml
from muster.webhook.cluster import readers, snapshots

REF = readers.Ref("RuntimeSnapshot", "team-a", "llama")
WHO = r"ConfigMap team-a/llama-runtime-snapshot: data\.runtime is not a readable runtime"

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcyno", min_size=1), inner, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_what_is_written_as_yaml_is_read_as_it_was(spec):
    runtime = {"kind": "TrainingRuntime", "metadata": {"name": "trl"}, "spec": spec}
    assert snapshots.parse(REF, kubeyaml.dump(runtime)) == runtime


@given(st.text("ab:[]{},-*&!?|>'\"#%@`.\n \t0159eExXn_~<=", max_size=40))
def test_any_text_is_a_runtime_or_an_invalid_snapshot_and_nothing_worse(text):
    try:
        runtime = snapshots.parse(REF, f"metadata: {{}}\n{text}")
    except readers.SnapshotInvalid:
        return
    assert isinstance(runtime["metadata"], dict)


def test_a_bare_date_and_a_bare_equals_sign_are_strings_as_go_writes_them():
    runtime = snapshots.parse(REF, "metadata: {name: trl}\nargs: [=, 2026-01-02, 2026-01-02T03:04:05Z]")
    assert runtime["args"] == ["=", "2026-01-02", "2026-01-02T03:04:05Z"]


def test_plain_words_are_read_as_trainers_own_parser_reads_them():
    runtime = snapshots.parse(REF, "metadata: {name: trl}\nargs: [1e+06, 0o14, 0x1F, 22:22, yes]\n1: a")
    assert runtime["args"] == [1_000_000.0, 12, 31, "22:22", True]
    assert runtime["1"] == "a"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "missing or empty"),
        ("a: [b", "expected ',' or ']'"),
        ("- a", "it holds list, not an object"),
        ("metadata: trl", "its metadata is not an object"),
        ("metadata: {name: trl}\nspec: !!binary aGk", "line 2: 'aGk' cannot be read"),
        ("metadata: {name: trl}\na: 1\na: 2", "line 3: the key 'a' is written twice"),
        ("metadata: {name: trl}\n---\na: 1", "a second document starts here"),
        ("---\n" * 60_000, "a second document starts here"),
        ("metadata: {name: trl}\na: &x [1]\nb: *x", "line 3: uses the alias"),
        ("metadata: " + "x" * snapshots.MAX_TEXT, "more than 262144 characters"),
        ("metadata: {}\nspec: " + "[" * 128, "nested more than 128 levels deep"),
        ("[" * 100_000 + "]" * 100_000, "nested more than 128 levels deep"),
        ("{a: " * 50_000 + "1" + "}" * 50_000, "nested more than 128 levels deep"),
        ("metadata: {}\nspec: [" + "1," * 120_000 + "1]", "more than 10000 values"),
        ("- " * 120_000 + "a", "nested more than 128 levels deep"),
    ],
)
def test_what_is_no_runtime_is_an_error_that_names_the_configmap(text, reason):
    with pytest.raises(readers.SnapshotInvalid, match=WHO + ".*" + f"({reason})"):
        snapshots.parse(REF, text)


def test_a_star_in_a_command_is_not_an_alias():
    runtime = snapshots.parse(REF, 'metadata: {name: trl}\nargs: ["ls *.py && echo"]')
    assert runtime["args"] == ["ls *.py && echo"]


def test_no_more_of_a_text_is_held_than_tells_that_it_is_too_long():
    assert len(snapshots.text({"data": {"runtime": "x" * 1_000_000}})) == snapshots.MAX_TEXT + 1


def test_a_runtime_may_be_as_deep_as_the_limit():
    assert snapshots.parse(REF, "metadata: {}\nspec: " + "[" * 127 + "]" * 127)


@pytest.mark.parametrize("configmap", [{}, {"data": None}, {"data": {}}, {"data": {"runtime": 1}}])
def test_a_configmap_without_a_runtime_has_an_empty_text(configmap):
    assert snapshots.text(configmap) == ""
