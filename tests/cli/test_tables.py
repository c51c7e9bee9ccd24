"""Tables and diffs for people: they fit, lose nothing, and obey no control character."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from muster.webhook.cli import terminal

cells = st.text(st.sampled_from("ab.-_/[]= ,"), max_size=60)


@given(cells, st.integers(1, 30))
def test_wrapped_text_fits_and_keeps_every_letter(text, width):
    lines = terminal.wrap(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=4), st.integers(30, 120))
def test_a_table_fits_its_width_and_keeps_every_letter(rows, width):
    lines = list(terminal.layout(("A", "B", "C"), rows, width))
    assert all(len(line) <= width for line in lines)
    letters = re.sub(r"\s", "", "".join("".join(row) for row in rows))
    assert sorted(re.sub(r"\s", "", "".join(lines[1:]))) == sorted(letters)


def test_text_is_broken_at_its_joints():
    assert terminal.wrap("spec.trainer.resourcesPerNode", 20) == ["spec.trainer.", "resourcesPerNode"]
    assert terminal.wrap("torchrun --nproc-per-node=4", 12) == ["torchrun", "--nproc-per-", "node=4"]
    assert terminal.wrap("containers[node].env[MASTER_ADDR]", 20) == ["containers[node].env", "[MASTER_ADDR]"]


def test_columns_that_need_little_leave_their_room_to_the_others():
    (_, line) = terminal.layout(("A", "B"), [("ab", "word " * 10)], 60)
    assert line == f"ab  {('word ' * 10).strip()}"


def test_control_characters_in_cells_are_shown():
    text = "\n".join(terminal.layout(("A",), [("\x1b[31mred\x07",)], 80))
    assert "\x1b" not in text
    assert "\\x1b[31mred\\x07" in text
