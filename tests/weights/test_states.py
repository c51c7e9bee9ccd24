"""A sampler takes the next version of its trainer, and nothing else; what it refuses changes nothing."""

from dataclasses import replace

import pytest

from muster_weights.refusals import Refused
from muster_weights.sampler.leases import Lease
from muster_weights.sampler.states import State
from tests.support.waits import until
from tests.weights.versions import RUN, SHAPES, place, published


@pytest.fixture
def state(tmp_path):
    made = State(tmp_path, SHAPES)
    made.bind(RUN)
    yield made
    made.close()


async def settled(state, told):
    """The state of a version when it is not being verified any more."""
    found = []
    await until(lambda: found.append(state.stage(told)) or found[-1]["state"] != "verifying")
    return found[-1]


def serve(state, told):
    verified = state.take(told)
    state.served = verified.told
    verified.close()


async def test_a_version_is_verified_beside_the_serving_and_then_taken(state, tmp_path):
    told = published(tmp_path)

    assert await settled(state, told) == {"state": "verified"}
    assert state.told() == {"run": RUN, "version": None, "digest": None}
    serve(state, told)
    assert state.told() == {"run": RUN, "version": 1, "digest": told.digest}


def test_a_version_that_nobody_staged_is_verified_before_it_is_taken(state, tmp_path):
    told = published(tmp_path)
    (place(tmp_path, told) / "weights.bin").write_bytes(b"")

    with pytest.raises(Refused, match="torn"):
        state.take(told)


async def test_another_run_is_refused_until_the_sampler_is_bound_to_it(state, tmp_path):
    foreign = published(tmp_path, run="run-b")

    assert "of another run than run-a" in (await settled(state, foreign))["reason"]
    with pytest.raises(Refused):
        state.take(foreign)
    state.bind("run-b")
    assert await settled(state, foreign) == {"state": "verified"}


async def test_an_older_version_is_refused_and_the_served_one_may_be_sent_again(state, tmp_path):
    first, second = published(tmp_path, 1), published(tmp_path, 2)
    serve(state, second)

    assert "run-a/2 is served already" in (await settled(state, first))["reason"]
    assert "served already" in (await settled(state, replace(second, digest="0" * 64)))["reason"]
    assert await settled(state, second) == {"state": "verified"}


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"embed.weight": (2, 3)}, r"lacks 1 tensors, first head\.weight"),
        ({**SHAPES, "head.weight": (4,)}, r"head\.weight: \(4,\), here \(3,\)"),
        ({**SHAPES, "more": (1,)}, "more: .* here not in the model"),
    ],
)
def test_a_version_of_another_model_is_refused(state, tmp_path, shapes, reason):
    told = published(tmp_path, shapes=shapes)

    with pytest.raises(Refused, match=reason):
        state.take(told)


async def test_a_version_that_comes_late_is_missing_and_then_verified(state, tmp_path):
    told = published(tmp_path / "aside")
    assert (await settled(state, told))["state"] == "missing"

    (tmp_path / RUN).mkdir()
    place(tmp_path / "aside", told).rename(place(tmp_path, told))
    assert await settled(state, told) == {"state": "verified"}


async def test_a_version_that_is_replaced_after_it_was_verified_is_refused(state, tmp_path):
    told = published(tmp_path)
    assert await settled(state, told) == {"state": "verified"}
    with (place(tmp_path, told) / "weights.bin").open("r+b") as file:
        file.truncate(1)

    with pytest.raises(Refused, match="changed after it was verified"):
        state.take(told)


async def test_another_version_than_the_verified_one_is_not_taken_for_it(state, tmp_path):
    first, second = published(tmp_path, 1), published(tmp_path, 2, value=2.0)
    assert await settled(state, first) == {"state": "verified"}

    verified = state.take(second)
    assert verified.told == second
    verified.close()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_lease_is_of_one_run_until_it_ends():
    clock = Clock()
    lease = Lease(clock)
    lease.renew("a", 60)
    with pytest.raises(Refused, match="a holds this sampler for 60 s more"):
        lease.renew("b", 60)
    clock.now = 59
    lease.renew("a", 60)
    clock.now = 118
    assert lease.left == 1
    clock.now = 119
    lease.renew("b", 60)
    assert lease.run == "b"


def test_a_lease_is_given_back_by_its_holder_only():
    lease = Lease(Clock())
    lease.renew("a", 60)
    assert not lease.release("b")
    assert lease.release("a")
    assert lease.left == 0


@pytest.mark.parametrize("seconds", [0, -1, 3601, float("nan"), float("inf")])
def test_a_time_that_is_none_of_a_lease_is_refused(seconds):
    with pytest.raises(Refused, match="is not a time of a lease"):
        Lease(Clock()).renew("a", seconds)
