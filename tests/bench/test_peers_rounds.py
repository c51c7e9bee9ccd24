from __future__ import annotations

import math

import pytest

from bench.peers import catalogue, rounds
from e2e.cluster.errors import ClusterError

_SOME = catalogue.PEERS[:3]


def _measured(monkeypatch, turn, number=4):
    monkeypatch.setattr(rounds, "_turn", turn)
    return list(rounds.measured(None, _SOME, number, (1, 1), math.inf))


def test_a_peer_that_fails_is_told_and_the_others_are_measured(monkeypatch):
    def turn(_lab, peer, number, _requests):
        if (peer.name, number) == ("native", 2):
            raise ClusterError("it does not answer")
        return [(peer.name, number)]

    found = _measured(monkeypatch, turn)
    assert [len(each.runs) for each in found] == [3, 2, 3, 3]
    assert found[1].failures == [rounds.Failure(2, "native", "it does not answer")]


def test_a_peer_that_failed_twice_gets_no_further_turn(monkeypatch):
    tried = []

    def turn(_lab, peer, number, _requests):
        if peer.name == "native":
            tried.append(number)
            raise OSError("refused")
        return [peer.name]

    found = _measured(monkeypatch, turn)
    assert tried == [1, 2]
    assert [len(each.runs) for each in found] == [2, 2, 2, 2]


def test_a_mistake_of_the_bench_itself_is_not_taken_for_a_failure_of_a_peer(monkeypatch):
    def turn(*_):
        raise TypeError("a mistake")

    with pytest.raises(TypeError, match="mistake"):
        _measured(monkeypatch, turn)


class _Recording:
    """Stands for a peer, and keeps what is asked of it; the step that is named fails."""

    name = title = "recording"
    lacks, claims, judges = ("claim",), False, False

    def __init__(self, failing):
        self.failing, self.steps = failing, []

    def __getattr__(self, step):
        def asked(_lab):
            self.steps.append(step)
            if step == self.failing:
                raise ClusterError(step)
            return True

        return asked


@pytest.mark.parametrize(
    ("failing", "steps"),
    [
        ("start", ["start", "stop"]),
        ("register", ["start", "ready", "register", "unregister", "stop"]),
    ],
)
def test_whatever_fails_in_a_turn_the_peer_is_taken_away_again(failing, steps):
    peer = _Recording(failing)
    with pytest.raises(ClusterError, match=failing):
        rounds._turn(None, peer, 1, (1, 1))
    assert peer.steps == steps
