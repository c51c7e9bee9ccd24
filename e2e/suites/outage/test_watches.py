"""The connection between Muster and the API server is cut, stalls or is slow: what Muster's caches then answer.

Muster promises that a cached document is an answer while its watch works, and that other documents, and those whose
watch is broken or silent, are fetched. Only the API server itself decides that a document does not exist. A changed
runtime may be answered by its old version while the API server cannot be reached at all
(`muster_cluster_cache_age_seconds` shows since when), a new one never, and a job whose runtime cannot be read is
refused rather than admitted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from e2e.suites.outage import outages
from e2e.suites.outage.twins import Stalled, Twin
from e2e.suites.support import documents, metrics
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until, within
from muster.webhook.cluster import live

JOB = documents.trainjob("job", "old")
LATE = documents.trainjob("job", "new")
MENDED = live.ASK_AGAIN + 30  # seconds until Muster asks again after the API server did not answer, and some patience


def knows(twin: Twin, space: Space, framework: str) -> bool:
    """Whether the twin uses this framework for runtime `old`."""
    return twin.ask(JOB, space.name).strategy == framework


@pytest.fixture
def known(twin: Twin, space: Space) -> Space:
    """A namespace with runtime `old` of framework torch, which the twin needs no GET for."""
    space.apply(documents.training_runtime("old", "torch")).expect()
    until("the twin to hold the runtime", lambda: fetched(twin, lambda: knows(twin, space, "torch")) == 0)
    until("the twin to use it", lambda: knows(twin, space, "torch"))
    return space


def fetched(twin: Twin, act: Callable[[], object]) -> float:
    """Return how often the twin asked the API server for single objects while `act` was called."""
    before = metrics.total(twin.samples(), "muster_cluster_fetches_total")
    act()
    return metrics.total(twin.samples(), "muster_cluster_fetches_total") - before


def test_a_change_is_followed_within_a_moment(twin: Twin, known: Space) -> None:
    known.apply(documents.training_runtime("old", "trl")).expect()

    within("the twin to use the new runtime", lambda: knows(twin, known, "trl"), 5)

    assert fetched(twin, lambda: knows(twin, known, "trl")) == 0, "a warm cache sends no request"


@pytest.mark.thorough
def test_a_cut_is_told_by_the_age_of_the_caches_and_made_good_after_it(
    twin: Twin, known: Space, say: outages.Say
) -> None:
    twin.line.cut()
    known.apply(documents.training_runtime("old", "trl")).expect()
    until("the age of the cache to show the cut", lambda: twin.age("TrainingRuntime") > 3, 20)
    stale = twin.ask(JOB, known.name)
    assert stale.allowed
    say(f"{twin.age('TrainingRuntime'):.1f} s into a cut, a changed runtime is answered as {stale.strategy}")

    twin.line.mend()

    seconds = outages.seconds_until("the twin to catch up", lambda: knows(twin, known, "trl"), MENDED)
    say(f"the change was known {seconds:.1f} s after the cut")
    until("the age of the cache to be small", lambda: twin.age("TrainingRuntime") < 60)


def test_in_a_cut_a_job_of_a_runtime_not_known_is_refused_and_never_let_through(twin: Twin, known: Space) -> None:
    twin.line.cut()
    known.apply(documents.training_runtime("new", "trl")).expect()

    answer = twin.ask(LATE, known.name)

    assert not answer.allowed
    assert f"TrainingRuntime {known.name}/new" in answer.message, answer
    twin.line.mend()
    until("the new runtime to be known", lambda: twin.ask(LATE, known.name).strategy == "trl", MENDED)


@pytest.mark.thorough
def test_a_mode_that_was_set_in_a_cut_is_in_force_after_it(twin: Twin, known: Space) -> None:
    twin.line.cut()
    known.kubectl.patch("namespace", known.name, None, {"metadata": {"labels": {"muster.dev/mode": "off"}}}).expect()
    twin.line.mend()

    until("the mode to be in force", lambda: knows(twin, known, ""), MENDED)


@pytest.mark.thorough
def test_cut_lines_again_and_again_lose_no_change(twin: Twin, known: Space) -> None:
    for framework in ("trl", "torch", "trl"):
        twin.line.cut()
        known.apply(documents.training_runtime("old", framework)).expect()
        twin.line.mend()
        until(f"the twin to use {framework}", partial(knows, twin, known, framework), MENDED)


@pytest.mark.thorough
def test_every_review_is_answered_while_the_line_comes_and_goes(twin: Twin, known: Space) -> None:
    """Failed connections to the API server do not affect the connections that come from it."""
    for number in range(30):
        twin.line.cut()
        assert knows(twin, known, "torch")
        time.sleep(number % 5 * 0.05)
        assert knows(twin, known, "torch")
        twin.line.mend()
        for _ in range(3):
            assert knows(twin, known, "torch")
        time.sleep(number % 7 * 0.03)
    assert twin.is_alive(), "Muster died"


@pytest.mark.thorough
def test_on_a_slow_line_a_new_runtime_is_fetched_within_the_deadline(twin: Twin, known: Space) -> None:
    twin.line.delay = 0.1
    known.apply(documents.training_runtime("new", "trl")).expect()

    answer = twin.ask(LATE, known.name)

    assert answer.allowed
    assert answer.strategy == "trl"


@pytest.mark.thorough
def test_on_a_line_slower_than_the_deadline_a_job_of_a_new_runtime_is_refused(twin: Twin, known: Space) -> None:
    twin.line.delay = 10.0  # so that the watch does not bring it meanwhile
    known.apply(documents.training_runtime("new", "trl")).expect()

    answer = twin.ask(LATE, known.name)

    assert not answer.allowed
    assert "1.0 s" in answer.message, answer
    assert twin.ask(JOB, known.name).strategy == "torch", "what is known needs no line"


@pytest.mark.thorough
def test_on_a_stalled_line_what_is_not_known_is_asked_for_on_a_new_connection(
    twin: Twin, known: Space, say: outages.Say
) -> None:
    stalled = twin.line.stall()
    assert stalled >= 6, "a watch for each kind"
    known.apply(documents.training_runtime("new", "trl")).expect()

    seconds = outages.seconds_until(
        "the new runtime to be known", lambda: twin.ask(LATE, known.name).strategy == "trl", 20
    )

    say(f"{stalled} connections stalled; a new runtime was known after {seconds:.1f} s")
    assert knows(twin, known, "torch")


@pytest.mark.thorough
@pytest.mark.last
def test_a_watch_that_stalls_without_a_word_is_doubted_and_what_it_missed_is_asked_for(
    stalled: Stalled, say: outages.Say
) -> None:
    since = stalled.seconds()
    left = live.SILENT + 10 - since

    within("the twin to use the current runtime", lambda: stalled.goes_by("trl"), max(left, 5))

    say(
        f"{stalled.seconds():.0f} s after a watch stalled a changed runtime was known (looked at from {since:.0f} s on)"
    )
