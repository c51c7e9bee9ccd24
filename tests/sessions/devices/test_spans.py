"""Whose turn it was: counted from the lease as it runs, logged, read again, and drawn."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.sessions.devices import spans, timelines
from muster.sessions.devices.lease import Asked, Done, Engine, Joined, Late, Lease, Left, Measured, Phase, told
from muster.sessions.devices.spans import Span, Spans
from tests.sessions.devices.houses import ROOT

FREE = Measured(frozenset())
A, B = Engine("trainer.7.1", "team-a/a"), Engine("sampler.8.1", "team-a/b")


def run(*events):
    """Tell a lease of events, each with the seconds that passed before it; returns the spans that ended."""
    lease, now, found = Lease(), 0.0, []
    counted = Spans("pool/gpu-0", now)
    for seconds, event in events:
        now += seconds
        after, _ = told(lease, event)
        if span := counted.count(lease, after, now, 1000.0 + now):
            found.append(span)
        lease = after
    return found, lease


def test_a_span_is_from_the_grant_until_the_memory_is_free_and_says_what_it_was_spent_on():
    begun = [(0, Joined(A)), (0, Joined(B)), (0, FREE), (5, Asked(A.name))]
    turned = [(2, Done(A.name, 1)), (1, Asked(B.name)), (0.5, Late(Phase.IDLE, 1)), (0.25, Left(A.name, 1))]
    found, lease = run(*begun, *turned, (0.25, FREE))
    assert found == [Span("pool/gpu-0", "team-a/a", "trainer", 1005.0, 2.0, 1.5, 0.5)]
    assert found[0].end == 1009.0
    assert lease.resident == B


def test_an_engine_that_is_asked_again_while_it_has_its_memory_has_one_span():
    found, _ = run(
        (0, Joined(A)),
        (0, FREE),
        (0, Asked(A.name)),
        (1, Done(A.name, 1)),
        (1, Asked(A.name)),
        (1, Left(A.name, 2)),
        (1, FREE),
    )
    assert [(each.working, each.idle, each.leaving) for each in found] == [(2.0, 1.0, 1.0)]


ANY = st.builds(
    Span,
    st.just("pool/gpu-0"),
    st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40),
    st.sampled_from(["trainer", "sampler"]),
    *[st.integers(0, 10**6).map(lambda each: each / 1000)] * 4,
)


@given(st.lists(ANY, max_size=6))
def test_what_was_logged_is_read_among_other_lines(made):
    log = [line for each in made for line in ("INFO other {}", f"12:00 INFO {spans.LOGGER} {each.line()}\n")]
    assert list(spans.read(log)) == made


@pytest.mark.parametrize("torn", ["", "{", "7", "[]", '{"device": "d"}', "{}" * 999, '{"begin": 1e999}'])
def test_a_line_that_is_torn_is_passed_over(torn):
    assert list(spans.read([f"{spans.LOGGER} {torn}"])) == []


@given(st.lists(ANY, min_size=1, max_size=6))
def test_the_picture_is_a_document_with_a_row_for_each_session_and_bars_inside_of_it(made):
    document = ElementTree.fromstring(timelines.svg(made))  # noqa: S314  # it is ours
    width = float(document.get("width"))
    bars = [each for each in document.iter("{http://www.w3.org/2000/svg}rect") if each.get("height") == "22"]
    assert len(bars) == 2 * len(made)
    assert all(float(each.get("x")) + float(each.get("width")) <= width for each in bars)
    assert len({each.get("y") for each in bars}) == len({each.session for each in made})


def test_shares_are_of_the_time_from_the_first_grant_to_the_last_end():
    made = [Span("d", "a", "trainer", 0.0, 6.0, 1.0, 1.0), Span("d", "b", "sampler", 8.0, 2.0, 0.0, 0.0)]
    assert timelines.summary(made) == "2 grants in 10 s: computing 80 %, idle with memory 10 %, changing hands 10 %"


def command(*words, log):
    line = [sys.executable, "-m", "muster.sessions.cli", "timeline", *words]
    return subprocess.run(line, input=log, capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_command_draws_the_log_of_an_agent_and_asks_which_device_where_there_are_two():
    lines = [f"INFO {spans.LOGGER} {Span(name, 'a', 'trainer', 0.0, 1.0, 0.0, 0.0).line()}\n" for name in ("d", "e")]
    drawn = command(log=lines[0])
    assert (drawn.returncode, drawn.stdout.startswith("<svg")) == (0, True)
    assert "1 grants in 1 s: computing 100 %" in drawn.stderr
    refused = command(log="".join(lines))
    assert (refused.returncode, refused.stderr) == (2, "sessions: --device: is missing: the log has d, e\n")
    assert command("--device", "e", log="".join(lines)).returncode == 0
    assert "x: is not in" in command("--device", "x", log=lines[0]).stderr.replace("'", "")
    assert "no line of muster.sessions.devices.spans" in command(log="").stderr
