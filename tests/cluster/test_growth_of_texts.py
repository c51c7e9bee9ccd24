"""The time and the memory of reading a YAML text grow with its length, whatever the text is.

libyaml does most of the work, in C, so there are no steps of ours to count. The CPU time of a text eight times as long
is compared: 64 times as much would be quadratic, and 28 times is the limit, far from what a busy machine adds.
"""

from __future__ import annotations

import gc
import time
import tracemalloc

import pytest

from muster.webhook import kubeyaml
from muster.webhook.cluster import snapshots
from muster.webhook.kubeyaml import scalars

SHORT, LONG = 30_000, 240_000
LEAST = 0.002  # seconds


def counted(form):
    """A text of numbered pieces."""
    return lambda n: "".join(form.format(number) for number in range(n // len(form.format(10_000))))


def repeated(piece, before="", after=""):
    return lambda n: before + piece * (n // len(piece)) + after


TEXTS = {
    "lists that stay open": repeated("["),
    "pairs of brackets": repeated("[]", "[", "]"),
    "a flow list": repeated("1,", "[", "]"),
    "objects in a flow list": repeated("{},", "[", "]"),
    "texts in a deep flow list": repeated("a, ", "[" * 120),
    "quoted texts in a deep flow list": repeated('"a", ', "[" * 120),
    "questions in an object": repeated("? ", "{"),
    "questions": repeated("? "),
    "dashes": repeated("- "),
    "entries": repeated("- a\n"),
    "members": counted("k{}: b\r\n"),
    "colons": repeated(":"),
    "colons with blanks": repeated("a: "),
    "quoted keys": repeated('"a":'),
    "deeper and deeper": lambda n: "".join(" " * depth + "a:\n" for depth in range(int((2 * n) ** 0.5))),
    "a plain text": repeated("a"),
    "plain words": repeated("a "),
    "plain lines": repeated("a\n"),
    "blank lines": repeated("\n", "a", "b"),
    "blanks": repeated(" "),
    "blank lines with blanks": repeated(" \n"),
    "tabs": repeated("\t", "a:", "b"),
    "anchors": counted("- &a{} 1\n"),
    "an anchor": repeated("a", "- &"),
    "aliases": repeated("- *a\n", "- &a 1\n"),
    "a comment": repeated("#"),
    "comments": repeated("# \n"),
    "comments at the ends of lines": counted("k{}: 1 #c\n"),
    "a quoted text": repeated("a", '"', '"'),
    "escapes": repeated("\\n", '"', '"'),
    "lines in quotes": repeated("a\n", '"', '"'),
    "blank lines in quotes": repeated("\n", '"', '"'),
    "single quotes": repeated("''", "'", "'"),
    "a block": repeated(" x\n", "a: |\n"),
    "a block of blank lines": repeated("\n", "a: |\n"),
    "a block of lines of blanks": repeated(" " * 1000 + "\n", "a: |\n"),
    "a folded block": repeated("\n x\n", "a: >\n"),
    "a number": repeated("1", "a: "),
    "numbers of 5,000 digits": repeated(f"- {'7' * 5000}\n"),
    "underscores": repeated("_", "a: 1"),
    "a hexadecimal number": repeated("f", "a: 0x"),
    "an octal number": repeated("7", "a: 0"),
    "powers": repeated("- 1e999999\n"),
    "a power": repeated("9", "a: 1e"),
    "a fraction that is none": repeated("1", "a: 1.", "x"),
    "times": repeated("- 2001-12-14t21:59:43.10-05:00\n"),
    "merges of one object": lambda n: "b: &b {a: 1, c: 2}\n" + counted("m{}: {{<<: *b}}\n")(n),
    "a merge of many": lambda n: counted("k{}: 1\n")(n // 2) + "z: &z {a: 1}\nm: {<<: [" + "*z," * (n // 6) + "]}\n",
    "letters of two bytes": repeated("é", "a: "),
    "letters of four bytes": repeated("😀", "a: "),
    "line separators": repeated("\u2028", "a: "),
    "marks of order": repeated("\ufeff"),
    "control characters": repeated("\x01", "a: "),
    "a long key": repeated("a", "", ": 1"),
    "a key that is repeated": repeated("a: 1\n"),
    "documents": repeated("---\n"),
    "ends of documents": repeated("...\n"),
    "a directive": repeated("%TAG ! tag:x\n"),
    "directives": counted("%TAG !a{}! tag:x\n"),
    "directives between separators": counted("%TAG !a{}! tag:x\u2028"),
    "a tag": repeated("x", "a: !<", "> b"),
    "escapes in a tag": repeated("%41", "a: !", " b"),
    "stars": repeated("*"),
    "ampersands": repeated("&"),
    "bars": repeated("|"),
}


def read(text):
    try:
        return [parsed.value for parsed in kubeyaml.load_all(text)]
    except kubeyaml.YamlError as error:
        return str(error)


def seconds(text):
    started = time.thread_time()
    read(text)
    return time.thread_time() - started


@pytest.fixture(autouse=True)
def _heap_of_other_tests_is_left_alone():
    """Keep the collector from walking through objects of earlier tests, which a longer text causes more often."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", TEXTS)
def test_the_time_grows_with_the_text(name):
    short, long = TEXTS[name](SHORT), TEXTS[name](LONG)
    least = max(min(seconds(short) for _ in range(2)), LEAST)
    assert min(seconds(long) for _ in range(2)) < 28 * least


@pytest.mark.parametrize("name", TEXTS)
def test_no_error_repeats_the_text(name):
    answer = read(TEXTS[name](LONG))
    assert not isinstance(answer, str) or len(answer) < 500


def test_a_key_that_is_long_and_repeated_is_cut_in_the_error_and_in_the_reason():
    key = "k" * 100_000
    assert len(read(f"{key}: 1\n{key}: 2")) < 500
    assert len(snapshots._packed(f"metadata: {{}}\n{key}: 1\n{key}: 2")[1]) < 500


@pytest.mark.parametrize("text", ["%TAG !a! tag:x\n---\nb: 1", "\ufeff%YAML 1.1\n---\nb: 1"])
def test_a_few_directives_are_read(text):
    assert read(text) == [{"b": 1}]


def test_long_words_are_not_remembered():
    scalars._remembered.cache_clear()
    tracemalloc.start()
    try:
        for number in range(300):
            assert read(f"a: y{number}{'x' * 4_000}\nb: 1{number}{'1' * 4_000}x\nc: on")[0]["c"] is True
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000
