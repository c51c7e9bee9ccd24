"""Who has a device, since when and how often that changed, counted along walks of the lease."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from muster.sessions.devices.holders import Holders
from muster.sessions.devices.lease import (
    Asked,
    Died,
    Done,
    Engine,
    Gone,
    Joined,
    Late,
    Lease,
    Left,
    Measured,
    TurnOver,
    told,
)
from muster.sessions.nodes import notices
from muster.strategies.documents import names
from muster.webhook.controllers.surveys import Holding, parse_holding

ENGINES = {name: Engine(name, name[0]) for name in ("a.trainer", "a.sampler", "b.trainer")}
FREE = Measured(frozenset())


class Walk:
    """A lease that is told events, each a second after the other."""

    def __init__(self):
        self.lease, self.holders, self.clock = Lease(), Holders(), 0.0

    def tell(self, *events):
        for event in events:
            after, _ = told(self.lease, event)
            self.holders.count(self.lease, after, self.clock)
            self.lease = after
            self.clock += 1
        return self


def begun():
    return Walk().tell(*(Joined(each) for each in ENGINES.values()), FREE)


def left(walk):
    return Left(walk.lease.holder.name, walk.lease.number)


def test_who_gets_the_device_has_it_from_then_on_also_while_it_is_idle():
    walk = begun().tell(Asked("a.trainer"))
    since = walk.clock - 1
    walk.tell(Done("a.trainer", 1), Asked("a.trainer"), Done("a.trainer", 2))
    assert (walk.lease.resident, walk.holders.since) == (ENGINES["a.trainer"], since)
    assert walk.holders.changes == 0


def test_who_left_has_it_no_more_and_the_next_one_is_a_change():
    walk = begun().tell(Asked("a.trainer"), Asked("b.trainer"), Done("a.trainer", 1))
    walk.tell(left(walk))
    assert (walk.lease.resident, walk.holders.since) == (None, None)
    walk.tell(FREE)
    assert walk.lease.resident == ENGINES["b.trainer"]
    assert walk.holders.changes == 1
    assert walk.holders.turns == {"a": 1, "b": 1}


def test_who_gets_it_again_after_it_left_has_it_anew_and_that_is_no_change():
    walk = begun().tell(Asked("a.trainer"))
    walk.tell(left(walk), FREE, Asked("a.trainer"))
    assert walk.holders.since == walk.clock - 1
    assert walk.holders.changes == 0


def test_a_session_without_engines_is_forgotten():
    walk = begun().tell(Asked("a.trainer"))
    walk.tell(left(walk), FREE, Asked("b.trainer"))
    walk.tell(Gone("a.trainer"), Died("a.trainer"))
    assert walk.holders.turns == {"a": 1, "b": 1}
    walk.tell(Gone("a.sampler"))
    assert walk.holders.turns == {"b": 1}


EVENTS = st.one_of(
    *(st.sampled_from([kind(name) for name in ENGINES]) for kind in (Asked, Gone, Died)),
    st.sampled_from([Joined(each) for each in ENGINES.values()]),
    *(st.builds(kind, st.sampled_from(sorted(ENGINES)), st.integers(0, 6)) for kind in (Done, Left)),
    st.builds(Measured, st.frozensets(st.sampled_from(sorted(ENGINES)))),
    st.builds(TurnOver, st.integers(0, 6)),
)


@given(st.lists(EVENTS, max_size=60))
def test_on_each_walk_who_is_told_to_have_the_device_is_who_may_have_memory_there(events):
    walk, granted = begun(), []
    for event in events:
        before = walk.lease
        walk.tell(event)
        walk.tell(Late(walk.lease.phase, walk.lease.number)) if walk.lease.ending else None
        assert (walk.holders.since is None) == (walk.lease.resident is None)
        if walk.lease.number != before.number:
            granted.append(walk.lease.holder.name)
    assert walk.holders.changes == sum(one != other for one, other in itertools.pairwise(granted))
    assert set(walk.holders.turns) <= {each.session for each in walk.lease.engines}
    text = notices.patch("u", notices.told(walk.lease, walk.holders, str.upper), 7.0)["metadata"]["annotations"]
    (annotation,) = text.values()
    if annotation is None:  # nobody takes turns any more
        assert not walk.lease.engines
        assert walk.lease.resident is None
        return
    read = parse_holding(annotation)
    assert read == Holding(**{**json.loads(annotation), "waiting": tuple(json.loads(annotation)["waiting"])})
    assert read.holder == (walk.lease.resident.name.upper() if walk.lease.resident else None)
    assert (read.changes, read.turns, read.at) == (walk.holders.changes, walk.holders.turns, "1970-01-01T00:00:07Z")


def test_the_annotation_is_the_one_that_the_command_reads():
    assert names.LEASE_ANNOTATION == notices.ANNOTATION
