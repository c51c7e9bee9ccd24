"""The memory of what was replaced: it is the object's own annotation, and so nothing that it says is trusted."""

from __future__ import annotations

import copy
import json

import pytest

from muster.strategies.changes import restores
from muster.strategies.changes.changes import Changes
from tests.support import jobs, merges, reapplies

WHY = {"rule": "test/rule", "reason": "because"}


@pytest.fixture(params=reapplies.EVERY.values(), ids=reapplies.EVERY)
def file(request):
    """What the user wrote."""
    return copy.deepcopy(request.param)


@pytest.fixture
def old(file):
    """What Muster made of it, stored."""
    return reapplies.stored(file, jobs.make_runtime())


FORGED = json.dumps({"strategy": "x", "version": "1", "fields": {"spec.suspend": "-", "spec.trainer.command": "-"}})


def test_the_incoming_object_cannot_change_the_memory(file, old):
    incoming = merges.reapply_server_side(old, file)
    incoming["metadata"]["annotations"][reapplies.APPLIED] = FORGED
    assert reapplies.updated(old, incoming) == old


@pytest.mark.parametrize("text", [FORGED, "", "{}"])
def test_an_update_cannot_bring_a_memory_where_there_was_none(text):
    old = jobs.make_trainjob(command=["torchrun", "x"], metadata={"annotations": {"a": "b"}})
    incoming = copy.deepcopy(old)
    incoming["metadata"]["annotations"][reapplies.APPLIED] = text
    assert reapplies.updated(old, incoming) == old


def test_an_update_that_drops_all_annotations_gets_only_the_memory_back():
    old = reapplies.stored(reapplies.TRAINJOBS["annotations and labels of its own"], jobs.make_runtime())
    incoming = copy.deepcopy(old)
    del incoming["metadata"]["annotations"]
    assert set(reapplies.updated(old, incoming)["metadata"]["annotations"]) == {reapplies.APPLIED}


def digest_of(value):
    """What Muster remembers of a value."""
    changes = Changes(jobs.make_trainjob(command=value))
    changes.set(("spec", "trainer", "command"), ["other"], **WHY)
    restores.remember(changes, "x", "1")
    return reapplies.remembered(changes.document)["spec.trainer.command"]


@pytest.mark.parametrize(
    ("field", "path", "value"),
    [
        ("spec.suspend", ("spec", "suspend"), True),
        ("spec.ttlSecondsAfterFinished", ("spec", "ttlSecondsAfterFinished"), 5),
        ("metadata.labels", ("metadata", "labels"), {"a": "b"}),
        ("metadata.finalizers", ("metadata", "finalizers"), []),
        ("spec.runtimePatches", ("spec", "runtimePatches"), [{"manager": "kueue.x-k8s.io/m"}]),
        ("spec.managedBy", ("spec", "managedBy"), "x"),
        (
            "spec.replicatedJobs[server].template.spec.template.spec.nodeSelector",
            ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "nodeSelector"),
            {"flavor": "h200"},
        ),
        (
            "spec.replicatedJobs[server].template.spec.template.spec.tolerations",
            ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "tolerations"),
            [],
        ),
        (
            "spec.replicatedJobs[server].template.spec.template.metadata.labels",
            ("spec", "replicatedJobs", 0, "template", "spec", "template", "metadata", "labels"),
            {"a": "b"},
        ),
    ],
)
@pytest.mark.parametrize("kind", ["TrainJob", "JobSet"])
def test_a_memory_forged_at_create_holds_nothing_back_that_the_api_lets_change(kind, field, path, value):
    """Else a user could keep a queue from suspending the job: a field that the API freezes is the most it can name."""
    document = (
        jobs.make_jobset()
        if kind == "JobSet"
        else jobs.make_trainjob(spec={"replicatedJobs": jobs.make_jobset()["spec"]["replicatedJobs"]})
    )
    old = reapplies.with_memory(document, {field: digest_of(value), f"{field}.x": "-"})
    incoming = copy.deepcopy(old)
    changes = Changes(incoming)
    changes.set(path, value, **WHY)
    assert reapplies.updated(old, changes.document) == changes.document


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "null",
        "5",
        "[]",
        "{}",
        '{"fields": 5}',
        '{"fields": []}',
        '{"fields": {"spec.trainer.command": null}}',
        '{"fields": {"spec.trainer.command": {"a": 1}}}',
        '{"fields": {"": "-"}}',
        '{"fields": {"[": "-", "spec.": "-", "spec..trainer": "-"}}',
        "[" * 200_000,
        '{"fields": {"' + "[" * 200_000 + '": "-"}}',
        '{"fields": {' + ",".join(f'"spec.trainer.x{n}":"-"' for n in range(9000)) + "}}",
        '{"fields": {"spec.trainer.command": ' + "9" * 10_000 + "}}",
    ],
)
def test_a_memory_that_is_broken_or_foreign_does_no_harm(text):
    file = reapplies.TRAINJOBS["a rewritten command"]
    old = reapplies.with_memory(file, text)
    incoming = copy.deepcopy(old)
    incoming["spec"]["trainer"]["command"] = ["edited"]
    assert reapplies.updated(old, incoming) == incoming


@pytest.mark.parametrize(
    "annotations", [{reapplies.APPLIED: 5}, {reapplies.APPLIED: None}, {reapplies.APPLIED: ["x"]}, None, "text"]
)
def test_a_memory_of_another_type_does_no_harm(annotations):
    old = {**jobs.make_trainjob(command=["x"]), "metadata": {"name": "a", "annotations": annotations}}
    incoming = jobs.make_trainjob(command=["edited"])
    assert reapplies.updated(old, incoming)["spec"] == incoming["spec"]


def test_the_memory_names_strategy_version_and_every_changed_field():
    document = reapplies.stored(reapplies.TRAINJOBS["an accelerate preset"], jobs.make_runtime())
    note = json.loads(document["metadata"]["annotations"][reapplies.APPLIED])
    assert (note["strategy"], note["version"]) == ("trl", "1")
    assert set(note["fields"]) >= {"spec.trainer.command", "spec.trainer.args"}
    assert all(value == "-" or len(value) == 16 for value in note["fields"].values())


def test_a_second_pass_at_create_adds_to_the_memory_and_keeps_what_it_held():
    """The API server asks again when a later webhook changed the object (reinvocation)."""
    first = Changes(jobs.make_trainjob(command=["a"]))
    first.set(("spec", "trainer", "command"), ["b"], **WHY)
    restores.remember(first, "x", "1")
    second = Changes(first.document)
    second.set(("spec", "trainer", "command"), ["c"], **WHY)
    second.set(("spec", "trainer", "numNodes"), 2, **WHY)
    restores.remember(second, "x", "1")
    assert reapplies.remembered(second.document) == {
        "spec.trainer.command": digest_of(["a"]),
        "spec.trainer.numNodes": "-",
    }


def changed(count, document=None):
    changes = Changes(document or jobs.make_trainjob(command=["a"]))
    for number in range(count):
        changes.set(("spec", "trainer", f"x{number}"), 1, **WHY)
    return changes


def test_more_changes_than_can_be_restored_are_refused_when_they_are_made():
    restores.remember(changed(256), "x", "1")
    with pytest.raises(ValueError, match="Muster would change 257 fields, and an update can restore at most 256"):
        restores.remember(changed(257), "x", "1")


def test_a_forged_memory_does_not_crowd_out_the_real_one():
    forged = {f"spec.trainer.forged{number}": "-" for number in range(250)}
    changes = changed(20, reapplies.with_memory(jobs.make_trainjob(command=["a"]), forged))
    restores.remember(changes, "x", "1")
    assert set(reapplies.remembered(changes.document)) == {f"spec.trainer.x{number}" for number in range(20)}


def test_nothing_changed_leaves_no_memory():
    changes = Changes(jobs.make_trainjob())
    restores.remember(changes, "x", "1")
    assert len(changes) == 0


def test_a_field_that_was_taken_away_is_taken_away_again_and_only_that_one():
    changes = Changes(jobs.make_trainjob(args=["x"], env=[{"name": "A"}, {"name": "B"}]))
    changes.remove(("spec", "trainer", "args"), **WHY)
    changes.remove(("spec", "trainer", "env", 0), **WHY)
    restores.remember(changes, "x", "1")
    old = changes.document
    assert reapplies.updated(old, {**changes.original, "metadata": old["metadata"]}) == old


def test_a_parent_that_muster_made_comes_back_with_what_it_held():
    changes = Changes(jobs.make_jobset(framework=None))
    path = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0)
    changes.set((*path, "securityContext", "capabilities", "add"), ["IPC_LOCK"], **WHY)
    restores.remember(changes, "x", "1")
    assert reapplies.updated(changes.document, copy.deepcopy(changes.original)) == changes.document
