"""YAML is read as kubectl reads it: its words, JSON's types, limits, and a line in every error."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.webhook import kubeyaml

words = st.text(st.sampled_from("-+.0123456789eEyYnNoOxXfFbB_:~=<tru ls"), max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=20) | words
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def read(text):
    return [parsed.value for parsed in kubeyaml.load_all(text)]


def fault(text):
    with pytest.raises(kubeyaml.YamlError) as caught:
        list(kubeyaml.load_all(text))
    return caught.value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("2026-11-20", "2026-11-20"),
        ("2026-11-20T08:00:00Z", "2026-11-20T08:00:00Z"),
        ("22:22", "22:22"),
        ("=", "="),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0b101", 5),
        ("0o17", 15),
        ("017", 15),
        ("089", 89),
        ("1e3", 1000),
        ("1.5e-3", 0.0015),
        (".5", 0.5),
        ("2.0", 2),
        ("18446744073709551615", 2**64 - 1),
        ("99999999999999999999", 10**20),
        ("y", True),
        ("off", False),
        ("~", None),
        ("-", None),
        ("nope", "nope"),
        ("!!str 12", "12"),
        ("!!float 1", 1),
        ("'12'", "12"),
    ],
)
def test_a_word_means_what_kubectl_takes_it_for(word, value):
    read_value = kubeyaml.load(f"a: {word}" if word != "-" else "a:")["a"]
    assert read_value == value
    assert type(read_value) is type(value)


def test_a_whole_float_is_an_integer_as_go_writes_it_on_the_wire():
    assert type(kubeyaml.load("numNodes: 2.0")["numNodes"]) is int
    assert type(kubeyaml.load("ratio: 2.5")["ratio"]) is float


def test_a_number_too_long_for_any_integer_is_read_without_an_exception():
    assert kubeyaml.load(f"a: {'9' * 5000}") == {"a": "9" * 5000}


def test_keys_become_strings_as_json_wants_them():
    assert kubeyaml.load("8080: a\non: b\n1.5: c") == {"8080": "a", "true": "b", "1.5": "c"}


def test_merge_keys_give_what_is_not_written_and_never_replace_what_is():
    text = "base: &base {a: 1, b: 2}\nmine:\n  <<: *base\n  b: 3"
    assert kubeyaml.load(text)["mine"] == {"a": 1, "b": 3}


def test_several_merged_objects_count_in_their_order():
    text = "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nmine: {<<: [*x, *y]}"
    assert kubeyaml.load(text)["mine"] == {"a": 1, "b": 2}


def test_a_merge_behind_a_member_replaces_it_as_in_kubectl():
    text = "base: &base {a: 1, b: 2}\nmine: {b: 3, <<: *base}\nlast: {<<: *base, <<: {a: 5}}"
    read_value = kubeyaml.load(text)
    assert (read_value["mine"], read_value["last"]) == ({"b": 2, "a": 1}, {"a": 5, "b": 2})


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("!foo bar", "bar"),
        ("!foo 12", "12"),
        ("!foo {b: 1}", {"b": 1}),
        ("!!python/object/apply:os.system [ls]", ["ls"]),
        ("!!binary aGVsbG8=", "hello"),
        ("{!!merge <<: {b: 1}}", {"b": 1}),
    ],
)
def test_a_tag_that_kubectl_does_not_know_says_nothing(word, value):
    assert kubeyaml.load(f"a: {word}") == {"a": value}


def test_a_quoted_merge_key_is_a_key():
    assert kubeyaml.load("'<<': 1") == {"<<": 1}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb:\n  c: 1\n  c: 2", 4, "the key 'c' is written twice"),
        ("1: a\n'1': b", 2, "the key '1' is written twice"),
        ("a: 1\nb: [1, 2", 3, "is not YAML"),
        ("a:\n\tb: 1", 2, "is not YAML"),
        ("a: 1\nb: \x07", 2, "control characters"),
        ("a: .inf", 1, "a number that JSON does not have"),
        ("a: !!binary '!'", 1, "cannot be read"),
        ("a: !!int x", 1, "does not fit its tag !!int"),
        ("? [1]\n: 2", 1, "cannot be a key"),
        ("~: 2", 1, "null cannot be a key"),
        ("a: &x [*x]", 1, "the anchor of *x must be complete before it"),
        ("a: *nothing", 1, "the anchor of"),
        ("<<: 3", 1, "<< can only merge objects"),
        ("a: &x {b: 1}\n*x : 1", 2, "cannot be a key"),
        ("a: " + "[" * 200 + "]" * 200, 1, "nested more than 128 levels"),
    ],
)
def test_a_fault_is_named_with_its_line(text, line, words):
    error = fault(text)
    assert words in str(error)
    assert error.line == line


def test_a_fault_names_its_document_and_those_before_are_read():
    text = "a: 1\n---\nb: 2\n---\nc: 1\nc: 2\n"
    documents = kubeyaml.load_all(text)
    assert [next(documents).value, next(documents).value] == [{"a": 1}, {"b": 2}]
    with pytest.raises(kubeyaml.YamlError) as caught:
        next(documents)
    assert (caught.value.document, caught.value.line) == (3, 6)


def test_a_fault_of_the_syntax_names_its_document_too():
    error = fault("a: 1\n---\nb: 2\n---\nc: [")
    assert (error.document, error.line) == (3, 6)


def test_documents_know_their_number_and_first_line():
    found = list(kubeyaml.load_all("# words\na: 1\n---\n---\nb: 2\n"))
    assert [(each.value, each.number, each.line) for each in found] == [
        ({"a": 1}, 1, 2),
        (None, 2, 3),
        ({"b": 2}, 3, 4),
    ]


def test_a_bomb_of_aliases_is_stopped_early():
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
    assert "aliases repeat more than" in str(fault("\n".join(lines)))


def test_a_bomb_of_merged_objects_is_stopped_early():
    lines = ["a: &a {x0: 1, x1: 1, x2: 1, x3: 1}"]
    lines += [f"{new}: &{new} [{','.join([f'*{old}'] * 60)}]" for old, new in zip("abcd", "bcde", strict=True)]
    assert "aliases repeat more than" in str(fault("\n".join(lines)))


def test_aliases_can_be_refused_altogether():
    with pytest.raises(kubeyaml.YamlError, match="aliases are not allowed here"):
        kubeyaml.load("a: &x 1\nb: *x", aliases=False)


def test_one_document_is_wanted_where_one_is_asked_for():
    assert kubeyaml.load("") is None
    with pytest.raises(kubeyaml.YamlError, match="a second document"):
        kubeyaml.load("a: 1\n---\nb: 1")


def test_deep_nesting_cannot_exhaust_any_stack():
    assert fault("[" * 100_000).line == 1
    assert fault("\n".join(" " * depth + "a:" for depth in range(1000))).line == 129


@given(values)
def test_what_is_written_is_read_as_it_was(value):
    assert kubeyaml.load(kubeyaml.dump(value)) == value


@given(values)
def test_what_is_written_means_the_same_to_other_parsers(value):
    assert yaml.safe_load(kubeyaml.dump(value)) == value


@given(st.lists(values, max_size=4))
def test_a_stream_keeps_its_documents(documents):
    assert read(kubeyaml.dump_all(documents)) == documents


@given(st.text(st.sampled_from("ab:[]{},-*&!?|>'\"#%@`.\n \t0159eEn~<="), max_size=60))
def test_any_text_is_read_or_refused_and_nothing_worse(text):
    try:
        found = read(text)
    except kubeyaml.YamlError:
        return
    assert read(kubeyaml.dump_all(found)) == found


@pytest.mark.parametrize("word", ["1e3", "y", "0o17", "22:22", "2026-11-20", "<<", "null", "~", "0x1F", "on", "1_000"])
def test_a_text_that_any_parser_would_misread_is_written_in_quotes(word):
    assert kubeyaml.dump({"a": word}) == f"a: '{word}'\n"


def test_a_script_stays_a_block_and_a_long_line_stays_one_line():
    text = kubeyaml.dump({"script": "set -e\ntrain\n", "line": "word " * 100 + "end"})
    assert "script: |\n  set -e\n  train\n" in text
    assert len(text.splitlines()) == 4


def test_shared_parts_are_written_out_and_not_as_aliases():
    shared = {"a": 1}
    assert kubeyaml.dump([shared, shared]) == "- a: 1\n- a: 1\n"
