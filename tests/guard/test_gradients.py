"""What prints of ranks say: who shares gradients, who trains apart, and where it cannot be told."""

import math

import pytest

from muster_guard.gradients import Print, Shared, compare, judge

ONE, OTHER = [1.0, 2.0, -3.0], [-2.0, 0.5, 1.0]


def of(gradient=ONE, *, before=7, after=8, key="0/2 (4, 4) ", sharded=False):
    """The print of one parameter."""
    return Print(key, before, gradient, after, sharded)


def judged(*ranks, moved=True, size=None):
    return judge(dict(enumerate(ranks)), size=size or len(ranks), moved=moved)


def test_ranks_of_equal_weights_and_equal_gradients_share_them():
    assert judged([of()], [of()]) == Shared("shared")


def test_ranks_of_equal_weights_and_other_gradients_train_apart():
    assert judged([of()], [of()], [of(OTHER, after=9)]) == Shared("not-shared", (0, 2))


def test_one_parameter_of_several_that_is_not_shared_is_enough():
    head = "1/2 (4, 4) "

    assert judged([of(), of(key=head)], [of(), of(OTHER, key=head, after=9)]).word == "not-shared"


@pytest.mark.parametrize("after", [7, 8], ids=["no rank has changed yet", "the step has shared them"])
def test_other_gradients_that_make_no_other_weights_say_nothing(after):
    assert judged([of(after=after)], [of(OTHER, after=after)]).word is None


def test_equal_gradients_of_ranks_that_sent_nothing_may_come_from_equal_data():
    assert judged([of()], [of()], moved=False).word is None
    assert judged([of()], [of()], moved=None).word is None


def test_ranks_that_said_nothing_leave_it_open():
    assert judged([of()], [of()], size=3).word is None
    assert judge({}, size=2, moved=None).word is None


def test_weights_that_are_all_one_number_prove_nothing():
    assert judged([of(before=None)], [of(OTHER, before=None, after=9)]).word is None


def test_other_weights_are_stages_or_experts_where_ranks_sent_something():
    assert judged([of()], [of(OTHER, before=70, after=9)]).word is None
    assert judged([of(), of(key="1/2 (4, 4) ")], [of(), of(OTHER, before=70, key="1/2 (4, 4) ")]).word is None


def test_other_weights_of_ranks_that_sent_nothing_are_trainings_apart():
    assert judged([of()], [of(OTHER, before=70)], moved=False) == Shared("not-shared", (0, 1))


def test_shards_differ_as_they_should():
    assert judged([of(sharded=True)], [of(OTHER, before=70, sharded=True)]).word == "sharded"
    assert judged([of(sharded=True)], [of(OTHER, before=70, sharded=True)], moved=False).word == "sharded"


def test_replicas_of_a_shard_must_agree():
    ranks = [[of(key=key, sharded=True, before=len(key))] for key in ("a", "bb", "a")]

    assert judged(*ranks, [of(OTHER, key="bb", before=2, sharded=True, after=9)]) == Shared("not-shared", (1, 3))


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (ONE, "near"),
        ([1.0, 2.0, -3.001], "near"),
        ([1.0, 2.0, -3.03], "unclear"),
        (OTHER, "far"),
        ([0.0] * 3, "far"),
        ([1.0, 2.0, math.nan], "unclear"),
        ([1.0, 2.0], "unclear"),
    ],
)
def test_two_gradients_are_compared_by_their_distance(other, word):
    assert compare(ONE, other) == compare(other, ONE) == word


def test_of_two_gradients_of_zeros_nothing_is_known():
    assert compare([0.0], [0.0]) == "none"
