"""Keyed lists are joined as Trainer's strategic merge does it, in time that is linear in both."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.trainer import merges

_NAMES = st.sampled_from(["a", "b", "c", 1, True, None, ["a"], {"a": 1}, '["a"]'])
_ENTRIES = st.lists(st.fixed_dictionaries({"value": st.integers()}, optional={"name": _NAMES}), max_size=8)


def joined(entries, added):
    """The same, written as it is said: each entry takes the first place with its name."""
    found = list(entries)
    for entry in added:
        places = [index for index, each in enumerate(found) if each.get("name") == entry.get("name")]
        if places:
            found[places[0]] = entry
        else:
            found.append(entry)
    return found


@given(_ENTRIES, _ENTRIES)
def test_an_entry_replaces_the_first_of_its_name_or_comes_last(entries, added):
    assert merges.upsert(entries, added, "name") == joined(entries, added)


@given(_ENTRIES, _ENTRIES)
def test_a_patch_meets_the_entries_of_its_names(entries, added):
    merged = merges.merge({"env": entries}, {"env": added})["env"]
    assert [each.get("name") for each in merged] == [each.get("name") for each in joined(entries, added)]


class Counted(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def test_each_name_is_compared_with_few_others():
    both = [[{"name": Counted(f"a{first + number}")} for number in range(500)] for first in (0, 250)]
    Counted.compared = 0
    assert len(merges.upsert(*both, "name")) == 750
    assert Counted.compared < 3000
