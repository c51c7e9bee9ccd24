from __future__ import annotations

import copy

import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import paths
from muster.strategies.documents.paths import ABSENT
from tests.support import generated

ENV = {"spec": {"env": [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}, {"value": "x"}]}}


@given(generated.documents())
def test_every_place_is_found_again_by_its_field_path(document):
    for path in generated.paths_of(document):
        assert paths.locate(document, paths.field(document, path)) == path


@given(generated.documents())
def test_no_two_places_of_one_document_have_one_field_path(document):
    every = list(generated.paths_of(document))
    assert len({paths.field(document, path) for path in every}) == len(every)


_NAMES = st.sampled_from([f"N{number}" for number in range(8)] + [f"V{number}" for number in range(40)])
_PLACES = st.integers(0, 39)
_EDITS = st.tuples(st.sampled_from(["put", "rename", "add", "remove", "look"]), _PLACES, _NAMES)


@given(st.lists(_EDITS, max_size=12))
def test_the_names_in_a_long_list_are_those_that_it_has_after_any_change(edits):
    """A long list is indexed, and the index is not made anew for each change."""
    changes = Changes({"spec": {"env": [{"name": f"V{number}"} for number in range(40)]}})
    for kind, place, name in edits:
        where = ("spec", "env", min(place, len(changes.get("spec", "env")) - 1))
        if kind == "put":
            changes.set(where, {"name": name}, rule="test/rule", reason="because")
        elif kind == "rename":
            changes.set((*where, "name"), name, rule="test/rule", reason="because")
        elif kind == "add":
            changes.append(("spec", "env"), {"name": name}, rule="test/rule", reason="because")
        elif kind == "remove":
            changes.remove(where, rule="test/rule", reason="because")
        unindexed = copy.deepcopy(changes.document)
        for index in (place, *range(0, len(unindexed["spec"]["env"]), 7)):
            path = ("spec", "env", min(index, len(unindexed["spec"]["env"]) - 1))
            assert paths.field(changes.document, path) == paths.field(unindexed, path)
        assert paths.locate(changes.document, f"spec.env[{name}]") == paths.locate(unindexed, f"spec.env[{name}]")


@given(generated.documents())
def test_pointers_agree_with_another_implementation_of_rfc_6901(document):
    for path in generated.paths_of(document):
        assert jsonpointer.resolve_pointer(document, paths.pointer(path)) == paths.lookup(document, path)


@given(generated.documents(), st.lists(generated.keys | st.integers(-2, 5), max_size=4))
def test_lookup_of_any_path_gives_a_value_or_absent_and_never_fails(document, path):
    found = paths.lookup(document, tuple(path))
    assert found is ABSENT or tuple(path) in set(generated.paths_of(document))


@given(generated.documents(), st.text(max_size=20))
def test_locate_of_any_text_never_fails(document, text):
    paths.locate(document, text)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "spec[" * 50_000, "spec..trainer", "spec trainer", "spec[trainer", "9" * 5000]
)
def test_text_that_is_no_field_path_is_nowhere(text):
    assert paths.locate([], text) is None


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (("spec", "trainer", "env", 0, "value"), "spec.trainer.env[A].value"),
        (("metadata", "annotations", "muster.dev/mode"), "metadata.annotations[muster.dev/mode]"),
        (("spec", "args", 3), "spec.args[3]"),
        (("a]b",), r"[a\]b]"),
        ((), ""),
    ],
)
def test_field_paths_read_as_people_write_them(path, field):
    document = {"spec": {"trainer": {"env": [{"name": "A"}]}, "args": list("abcd")}}
    assert paths.field(document, path) == field


def test_an_entry_is_named_by_its_key_and_a_second_one_of_that_name_by_its_index():
    fields = [paths.field(ENV, ("spec", "env", index)) for index in range(4)]
    assert fields == ["spec.env[A]", "spec.env[B]", "spec.env[2]", "spec.env[3]"]


def test_a_name_that_looks_like_an_index_of_the_list_is_not_used():
    document = {"env": [{"name": "1"}, {"name": "0"}, {"name": "7"}]}
    assert [paths.field(document, ("env", index)) for index in range(3)] == ["env[0]", "env[1]", "env[7]"]


def test_an_entry_with_a_name_that_nothing_can_have_is_named_by_its_index():
    document = {"env": [{"name": "A"}, {"name": "B" * 8000}]}
    assert paths.field(document, ("env", 1)) == "env[1]"
    assert paths.locate(document, "env[1]") == ("env", 1)


def test_an_entry_is_found_in_a_reordered_list():
    field = paths.field(ENV, ("spec", "env", 1))
    assert paths.locate({"spec": {"env": [{"name": "B"}, {"name": "A"}]}}, field) == ("spec", "env", 0)


def test_ports_are_named_by_number_and_mounts_by_path():
    document = {"ports": [{"containerPort": 29500}], "volumeMounts": [{"name": "v", "mountPath": "/w"}]}
    assert paths.field(document, ("ports", 0)) == "ports[29500]"
    assert paths.field(document, ("volumeMounts", 0)) == "volumeMounts[/w]"


def test_a_missing_last_step_is_located_where_it_would_be_added_and_a_missing_parent_is_not():
    assert paths.locate({"spec": {}}, "spec.trainer") == ("spec", "trainer")
    assert paths.locate({"spec": {}}, "spec.trainer.env") is None
    assert paths.locate(ENV, "spec.env[C]") is None


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        (("spec", "trainer", "args", 2), ("spec", "trainer", "args")),
        (("spec", "trainer", "command"), ("spec", "trainer", "command")),
        (("spec", "trainer", "env", 1, "value"), ("spec", "trainer", "env", 1)),
        (("spec", "trainer", "env"), ("spec", "trainer", "env")),
        (("s", "containers", 0, "resources", "claims", 0, "name"), ("s", "containers", 0, "resources", "claims", 0)),
        (("s", "containers", 0, "livenessProbe", "httpGet"), ("s", "containers", 0, "livenessProbe", "httpGet")),
        (("spec", "trainer", "numNodes"), ("spec", "trainer", "numNodes")),
        (("s", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0), ("s", "nodeAffinity", REQUIRED)),
        (("s", "podAntiAffinity", REQUIRED, 1), ("s", "podAntiAffinity", REQUIRED)),
        (("s", "topologySpreadConstraints", 1), ("s", "topologySpreadConstraints", 1)),
    ],
)
def test_the_unit_is_what_kubernetes_treats_as_one_value(path, unit):
    assert paths.unit(path) == unit
