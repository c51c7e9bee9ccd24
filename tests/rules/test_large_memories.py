"""A memory that its author has made large, or in which many names mean one place, costs no more than its length."""

from __future__ import annotations

import json

import pytest

from muster.strategies.changes import restores
from muster.strategies.changes.changes import Changes
from tests.support import jobs, reapplies

WHY = {"rule": "test/rule", "reason": "because"}
ARGS = ["x" * 1000] * 100
TOLERATIONS = [{"key": f"key-{number}", "operator": "Exists"} for number in range(64)]
PLACE = "spec.replicatedJobs[node].template.spec.template.spec"


def with_memory(text, **trainer):
    return jobs.make_trainjob(**trainer, metadata={"annotations": {reapplies.APPLIED: text}})


def spelt(field):
    """The same place in many ways: each step with a dot or in brackets."""
    steps = field.replace("[", ".").replace("]", "").split(".")
    for number in range(2 ** (len(steps) - 1)):
        rest = (f"[{step}]" if number >> bit & 1 else f".{step}" for bit, step in enumerate(steps[1:]))
        yield steps[0] + "".join(rest)


@pytest.fixture
def hashed(monkeypatch):
    """The characters of all that is hashed."""
    lengths = []

    def encode(value):
        lengths.append(len(text := json.dumps(value, separators=(",", ":"), sort_keys=True)))
        return text

    monkeypatch.setattr(restores, "_CANONICAL", encode)
    return lengths


def remembered(value):
    changes = Changes(jobs.make_trainjob(command=value))
    changes.set(("spec", "trainer", "command"), ["other"], **WHY)
    restores.remember(changes, "x", "1")
    return reapplies.remembered(changes.document)["spec.trainer.command"]


def restored(memory, padding):
    text = json.dumps({"fields": memory}) + " " * padding
    changes = Changes(jobs.make_trainjob(command=["a"]))
    restores.restore(with_memory(text, command=["b"]), changes)
    return changes.document["spec"]["trainer"]["command"] == ["b"]


def test_a_memory_longer_than_any_annotation_is_not_read():
    memory = {"spec.trainer.command": remembered(["a"])}
    assert restored(memory, 1000)
    assert not restored(memory, restores.MAX_TEXT)


def test_a_memory_that_no_update_would_read_is_not_written():
    members = ["n" * (restores.MAX_TEXT // 2) + str(number) for number in range(3)]
    changes = Changes(jobs.make_trainjob(resourcesPerNode={"limits": dict.fromkeys(members, "1")}))
    for member in members:
        changes.set(("spec", "trainer", "resourcesPerNode", "limits", member), "2", **WHY)
    with pytest.raises(ValueError, match="shorter names"):
        restores.remember(changes, "x", "1")


def test_a_place_of_many_names_is_looked_at_once(hashed):
    text = json.dumps({"fields": dict.fromkeys(spelt("spec.trainer.args"), "0" * 16)})
    restores.restore(with_memory(text, args=ARGS), Changes(jobs.make_trainjob(args=[*ARGS, "more"])))
    assert sum(hashed) < 2 * len(json.dumps(ARGS))


def test_a_list_of_many_names_is_kept_once(hashed):
    old, new = (jobs.make_jobset("llama", container={"name": "node"}) for _ in range(2))
    pod = old["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["tolerations"] = TOLERATIONS
    name = old["spec"]["replicatedJobs"][0]["name"]
    new["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["tolerations"] = []
    fields = spelt(f"{PLACE}.tolerations".replace("[node]", f"[{name}]"))
    digests = [f"{number:016x}" for number in range(64)]
    kept = dict(zip(fields, [digests] * 64, strict=False))
    old["metadata"]["annotations"] = {reapplies.APPLIED: json.dumps({"fields": {}, "kept": kept})}
    restores.restore(old, Changes(new))
    assert len(hashed) <= len(TOLERATIONS)


def test_neighbours_that_muster_removed_are_all_removed_again():
    env = [{"name": f"V{number}", "value": "x"} for number in range(4)]
    created = Changes(jobs.make_trainjob(env=env))
    for _ in range(3):
        created.remove(("spec", "trainer", "env", 0), **WHY)
    restores.remember(created, "x", "1")
    again = Changes(jobs.make_trainjob(env=env))
    restores.restore(created.document, again)
    assert again.document["spec"] == created.document["spec"]
