from __future__ import annotations

import struct

import pytest

from tests.audit.pages import pictures


@pytest.mark.parametrize("name", list(pictures.PATHS))
def test_the_pictures_in_the_documentation_are_of_a_page_and_small(name):
    picture = (pictures.IMAGES / name).read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == pictures.SIZES[name]
    assert len(picture) < 150_000


@pytest.mark.parametrize("name", list(pictures.PATHS))
def test_the_pictures_are_shown_with_words_for_those_who_cannot_see_them(name):
    page = (pictures.IMAGES.parent / "audit.md").read_text(encoding="utf-8")
    assert len(page.partition(f"](images/{name})")[0].rpartition("![")[2]) > 40
