"""Documents are shown without characters that a terminal obeys, and still mean the same."""

from __future__ import annotations

import json
import unicodedata

import pytest

from e2e.suites.support import thorough
from muster.webhook import kubeyaml
from muster.webhook.kubeyaml import emitters, jsons

BLOCK = 0x2000
BLOCKS = range(0, 0x110000, BLOCK)
USED = [*range(0, 0x20000, BLOCK), 0xE0000]  # the other planes hold ideographs, what is private, and nothing
OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize("start", thorough.but(*USED, of=BLOCKS, called=hex))
def test_whatever_a_terminal_would_obey_is_an_escape_in_yaml_and_json(start):
    # Lone surrogates are no characters: neither a job nor a record can have one.
    each = [chr(code) for code in range(start, min(start + BLOCK, 0x110000)) if not 0xD800 <= code < 0xE000]
    value = {"one": each, "line": "a" + "".join(each), "script": "a\n" + "".join(each)}
    for text, read in ((kubeyaml.dump(value), kubeyaml.load), (jsons.dump(value), json.loads)):
        assert not {each for each in text if unicodedata.category(each) in OBEYED} - {"\n"}
        assert read(text) == value


@pytest.mark.parametrize("text", ["数据 集", "a\u3000b", "naïve", "🚀", "tab\there\nand a line"])
def test_what_people_can_see_stays_as_it_is(text):
    assert not emitters.is_hidden(text)
    assert text in jsons.dump(text).replace("\\t", "\t").replace("\\n", "\n")


def test_a_name_of_a_member_is_shown_like_its_value():
    assert kubeyaml.dump({"a\u202eb": 1}) == '"a\\u202Eb": 1\n'
    assert jsons.dump({"a\u202eb": "\U000e0041"}, indent=None) == '{"a\\u202eb":"\\udb40\\udc41"}'
