"""The recording patch builder, against the `jsonpatch` package as an independent reading of RFC 6902."""

from __future__ import annotations

import copy
import itertools
import json

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import paths
from muster.strategies.documents.paths import ABSENT
from tests.support import generated, limits

WHY = {"rule": "test/rule", "reason": "because"}


def text(value):
    """JSON as text: unlike ==, it tells 1 from True."""
    return json.dumps(value, sort_keys=True)


def applied(changes):
    return jsonpatch.apply_patch(copy.deepcopy(changes.original), changes.patch())


def act(draw, changes):
    """Do one random thing through `changes`, and the same by plain assignment; return what should stand then."""
    wanted = copy.deepcopy(changes.document)
    path = draw(st.sampled_from(list(generated.paths_of(wanted))))
    value = draw(generated.values())
    node = paths.lookup(wanted, path)
    if isinstance(node, list) and draw(st.booleans()):
        entries = [value, *draw(st.lists(generated.values(), max_size=2))]
        changes.extend(path, [(entry, *WHY.values()) for entry in entries])
        node += copy.deepcopy(entries)
        return wanted
    if isinstance(node, list) and draw(st.booleans()):
        changes.append(path, value, **WHY)
        node.append(copy.deepcopy(value))
        return wanted
    if isinstance(node, dict):
        path = (*path, draw(generated.keys))
    if not path:
        return wanted
    parent = paths.lookup(wanted, path[:-1])
    if draw(st.booleans()):
        changes.set(path, value, **WHY)
        parent[path[-1]] = copy.deepcopy(value)
    else:
        changes.remove(path, **WHY)
        if isinstance(paths.lookup(wanted, path), paths.Absent):
            return wanted
        del parent[path[-1]]
    return wanted


@limits.MANY
@given(generated.documents(), st.data())
def test_the_patch_makes_of_the_original_what_was_intended_and_touches_nothing_else(document, data):
    before = text(document)
    changes = Changes(document)
    for _ in range(data.draw(st.integers(1, 5))):
        wanted = act(data.draw, changes)
        assert text(changes.document) == text(wanted)
    assert text(applied(changes)) == text(changes.document)
    assert text(document) == before


@limits.MANY
@given(generated.documents(), st.data())
def test_setting_what_stands_already_records_nothing(document, data):
    places = [path for path in generated.paths_of(document) if path]
    changes = Changes(document)
    for path in places:
        changes.set(path, copy.deepcopy(paths.lookup(document, path)), **WHY)
    assert changes.patch() == []
    assert changes.document is document


@limits.MANY
@given(
    generated.documents(),
    st.lists(st.sampled_from(("new", "a/b", "m~n", "", "é")), min_size=1, max_size=4),
    generated.values(),
)
def test_missing_parents_come_with_the_value_in_one_operation(document, members, value):
    document.pop("new-root", None)
    changes = Changes(document)
    changes.set(("new-root", *members), value, **WHY)
    assert [operation["path"] for operation in changes.patch()] == ["/new-root"]
    assert text(paths.lookup(applied(changes), ("new-root", *members))) == text(value)


def test_a_new_entry_is_added_at_the_end_and_its_list_is_never_replaced():
    changes = Changes({"env": [{"name": "A"}]})
    changes.append(("env",), {"name": "B"}, **WHY)
    changes.append(("env",), {"name": "C"}, **WHY)
    assert changes.patch() == [
        {"op": "add", "path": "/env/1", "value": {"name": "B"}},
        {"op": "add", "path": "/env/2", "value": {"name": "C"}},
    ]


@pytest.mark.parametrize("document", [{}, {"env": None}])
def test_a_list_that_is_missing_or_null_is_made(document):
    changes = Changes(document)
    changes.append(("env",), {"name": "A"}, **WHY)
    changes.append(("env",), {"name": "B"}, **WHY)
    assert applied(changes) == changes.document == {"env": [{"name": "A"}, {"name": "B"}]}


@pytest.mark.parametrize("document", [{"metadata": None}, {"metadata": {"annotations": None}}, {"metadata": {}}, {}])
def test_a_parent_that_is_null_counts_as_missing(document):
    changes = Changes(document)
    changes.set(("metadata", "annotations", "k"), "v", **WHY)
    assert applied(changes) == changes.document == {"metadata": {"annotations": {"k": "v"}}}


def test_one_and_true_are_two_values():
    changes = Changes({"a": 1, "b": [1], "c": {"d": 0}})
    changes.set(("a",), True, **WHY)
    changes.set(("b",), [True], **WHY)
    changes.set(("c",), {"d": False}, **WHY)
    assert text(applied(changes)) == '{"a": true, "b": [true], "c": {"d": false}}'


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (("a", "b"), {"a": "text"}),
        (("a", "b", "c"), {"a": {"b": 5}}),
        (("a", 3), {"a": ["x"]}),
        (("a", 0, "b"), {}),
        (("a", 0), {}),
        (("a", "b"), {"a": ["x"]}),
        ((), {}),
    ],
)
def test_a_place_that_cannot_be_is_refused_by_its_name_and_nothing_is_recorded(path, document):
    changes = Changes(document)
    with pytest.raises(ValueError, match=r"cannot|does not exist"):
        changes.set(path, 1, **WHY)
    assert changes.patch() == []
    assert changes.document is document


@pytest.mark.parametrize(
    ("path", "document"),
    [
        (("spec", "env"), {"spec": {"env": [{"name": "A"}]}}),
        (("spec", "env"), {"spec": {"env": None}}),
        (("spec", "env"), {}),
        (("spec", "args"), {"spec": {"args": ["a"]}}),
        (("items", 0, "name", "of"), {"items": [{"name": {"of": []}}]}),
        (("replicatedJobs", 0, "env"), {"replicatedJobs": [{"name": "node", "env": [{"name": "B"}]}]}),
    ],
)
def test_entries_that_are_added_together_are_recorded_as_one_by_one(path, document):
    entries = [({"name": name, "value": ["x"]}, f"test/{name}", f"because of {name}") for name in ("A", "B", "A", "3")]
    together, single = Changes(document), Changes(document)
    together.extend(path, iter(entries))
    for entry, rule, reason in entries:
        single.append(path, entry, rule=rule, reason=reason)
    assert list(together) == list(single)
    assert (together.document, together.units(), together.patch()) == (single.document, single.units(), single.patch())
    assert (together.state(path), len(together)) == (single.state(path), 4)
    assert together.is_whole


def test_entries_without_end_are_too_many(monkeypatch):
    monkeypatch.setattr("muster.strategies.changes.changes.MOST", 10)
    with pytest.raises(ValueError, match="more than 10 changes"):
        Changes({}).extend(("args",), itertools.repeat(("a", "test/rule", "because")))


def test_appending_to_what_is_no_list_is_refused():
    changes = Changes({"a": "text"})
    with pytest.raises(ValueError, match="a: cannot append"):
        changes.append(("a",), 1, **WHY)
    assert changes.patch() == []


def test_what_was_recorded_stays_when_the_strategy_goes_on_with_its_own_value():
    changes, mine = Changes({}), ["one"]
    changes.set(("args",), mine, **WHY)
    mine.append("two")
    assert changes.document == applied(changes) == {"args": ["one"]}


def test_a_part_of_the_document_can_be_put_in_a_second_place():
    changes = Changes({"a": {}})
    changes.set(("a", "b"), 1, **WHY)
    changes.set(("copy",), changes.get("a"), **WHY)
    changes.set(("a", "c"), 2, **WHY)
    assert changes.document == applied(changes) == {"a": {"b": 1, "c": 2}, "copy": {"b": 1}}


def test_a_removed_part_can_be_put_back():
    changes = Changes({"a": {"b": {}}})
    changes.set(("a", "b", "c"), 1, **WHY)
    taken = changes.get("a", "b")
    changes.remove(("a", "b"), **WHY)
    changes.set(("a", "b"), taken, **WHY)
    changes.set(("a", "b", "d"), 2, **WHY)
    assert changes.document == applied(changes) == {"a": {"b": {"c": 1, "d": 2}}}
    assert [change.after for change in changes][2] == {"c": 1}


def test_a_change_says_where_what_before_what_after_by_which_rule_and_why():
    changes = Changes({"spec": {"env": [{"name": "A", "value": "1"}]}})
    changes.set(("spec", "env", 0, "value"), "2", rule="trl/launch", reason="so that it works")
    (change,) = changes
    assert (change.op, change.path, change.field, change.unit) == (
        "replace",
        "/spec/env/0/value",
        "spec.env[A].value",
        "spec.env[A]",
    )
    assert (change.before, change.after, change.rule, change.reason) == ("1", "2", "trl/launch", "so that it works")


def test_a_removal_has_no_value_and_names_the_entry_that_was_there():
    changes = Changes({"env": [{"name": "A"}, {"name": "B"}]})
    changes.remove(("env", 0), **WHY)
    (change,) = changes
    assert (change.field, change.before, change.after) == ("env[A]", {"name": "A"}, ABSENT)
    assert change.operation == {"op": "remove", "path": "/env/0"}


def test_removing_what_is_not_there_records_nothing():
    changes = Changes({"a": [1]})
    for path in (("b",), ("a", 1), ("a", "x"), ("a", -1)):
        changes.remove(path, **WHY)
    assert len(changes) == 0


def test_units_say_what_the_atomic_values_were_in_the_original():
    document = {"args": ["a"], "env": [{"name": "A", "value": "1"}, {"name": "B"}]}
    changes = Changes(document)
    changes.append(("args",), "b", **WHY)
    changes.append(("args",), "c", **WHY)
    changes.set(("env", 0, "value"), "2", **WHY)
    changes.append(("env",), {"name": "C"}, **WHY)
    changes.remove(("env", 1), **WHY)
    changes.set(("deep", "er", "label"), "x", **WHY)
    assert changes.units() == {
        "args": ["a"],
        "env[A]": {"name": "A", "value": "1"},
        "env[C]": ABSENT,
        "env[B]": {"name": "B"},
        "deep": ABSENT,
    }


def test_an_entry_that_was_taken_away_and_added_again_is_remembered_as_it_was_first():
    changes = Changes({"env": [{"name": "A", "value": "1"}]})
    changes.remove(("env", 0), **WHY)
    changes.append(("env",), {"name": "A", "value": "2"}, **WHY)
    assert changes.units() == {"env[A]": {"name": "A", "value": "1"}}


def test_what_lies_inside_an_added_value_is_no_unit_of_its_own():
    changes = Changes({"spec": {}})
    changes.set(("spec", "trainer"), {}, **WHY)
    changes.set(("spec", "trainer", "numProcPerNode"), 2, **WHY)
    changes.append(("spec", "env"), {"name": "A"}, **WHY)
    changes.append(("spec", "env"), {"name": "B"}, **WHY)
    assert changes.units() == {"spec.trainer": ABSENT, "spec.env": ABSENT}


def test_findings_are_kept_in_order():
    changes = Changes({})
    changes.report("first")
    changes.report("second")
    assert changes.findings == ["first", "second"]


@limits.MANY
@given(generated.documents(), st.data())
def test_a_change_is_named_as_the_document_names_it_and_its_unit_is_as_it_was(document, data):
    changes, units, renamed = Changes(document), {}, False
    for _ in range(data.draw(st.integers(1, 6))):
        count, before = changes.count, copy.deepcopy(changes.document)
        act(data.draw, changes)
        made = list(changes)[count:]
        for change in made:
            where = before if change.op == "remove" else changes.document
            place = place_of(where, change.path)
            if len(made) > 1 and not paths.KEYS.isdisjoint(place):
                renamed = True  # of several entries inside a name, each renames what the ones before are inside of
                continue
            assert change.field == paths.field(where, place)
            assert change.unit == paths.field(where, paths.unit(place))
            units.setdefault(change.unit, paths.lookup(before, paths.unit(place)))
            renamed = renamed or not paths.KEYS.isdisjoint(place)
    if not renamed:
        kept = changes.units()
        assert {unit: told(value) for unit, value in kept.items()} == {unit: told(units[unit]) for unit in kept}


def told(value):
    return "absent" if isinstance(value, paths.Absent) else text(value)


def place_of(document, pointer):
    place = ()
    for step in pointer.split("/")[1:]:
        node = paths.lookup(document, place)
        place = (*place, int(step) if isinstance(node, list) else step.replace("~1", "/").replace("~0", "~"))
    return place


def test_entries_that_follow_one_another_are_named_as_each_of_them_is():
    job = {"name": "a", "containers": [{"name": "one"}, {"name": "two", "env": []}]}
    changes = Changes({"jobs": [job]})
    where = ("jobs", 0, "containers", 1)
    changes.append((*where, "env"), {"name": "A"}, **WHY)
    changes.append((*where, "env"), {"name": "A"}, **WHY)
    changes.set((*where, "name"), "one", **WHY)
    changes.append((*where, "env"), {"name": "B"}, **WHY)
    changes.set(("jobs", 0, "name"), "b", **WHY)
    changes.append((*where, "env"), {"name": "C"}, **WHY)
    assert [change.field for change in changes] == [
        "jobs[a].containers[two].env[A]",
        "jobs[a].containers[two].env[1]",
        "jobs[a].containers[1].name",
        "jobs[a].containers[1].env[B]",
        "jobs[b].name",
        "jobs[b].containers[1].env[C]",
    ]
