from hypothesis import given
from hypothesis import strategies as st

from tools.mutants import samples
from tools.mutants.mutations import Mutant

SIZES = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(0, 500), min_size=1, max_size=6)


@given(SIZES, st.integers(0, 1000))
def test_as_many_are_drawn_as_are_asked_for_and_none_more_than_there_are(sizes, count):
    drawn = samples.shares(sizes, count)
    assert drawn.keys() == sizes.keys()
    assert sum(drawn.values()) == min(count, sum(sizes.values()))
    assert all(drawn[name] <= sizes[name] for name in sizes)


def test_a_small_folder_has_its_part_and_a_large_one_more():
    assert samples.shares({"large": 900, "small": 100}, 100) == {"large": 70, "small": 30}


def test_the_same_seed_draws_the_same_and_another_one_others():
    strata = {name: [Mutant(name, "not", (line, line), (0, 0), "") for line in range(100)] for name in "ab"}
    once, again, other = (samples.draw(strata, 20, seed) for seed in (1, 1, 2))
    assert once == again != other
    assert {name: len(set(drawn)) for name, drawn in once.items()} == {"a": 10, "b": 10}
