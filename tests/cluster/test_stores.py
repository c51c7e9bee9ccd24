from __future__ import annotations

import pytest

from muster.webhook.cluster import kinds, readers, snapshots, stores

JOB = readers.Ref("TrainJob", "team-a", "llama")
SNAPSHOT = readers.Ref("RuntimeSnapshot", "team-a", "llama")
RUNTIME = "kind: TrainingRuntime\nmetadata: {name: trl}"


@pytest.fixture
def jobs():
    return stores.Store(kinds.KINDS["TrainJob"])


@pytest.fixture
def frozen():
    return stores.Store(kinds.KINDS["RuntimeSnapshot"])


def listed(store, *pages):
    listing = store.listing()
    for page in pages:
        listing.take(page)
    listing.end()


def test_an_object_is_held_from_put_to_drop(jobs, trainjob):
    jobs.put(trainjob())
    assert jobs.get(JOB) == trainjob()
    jobs.drop(trainjob())
    jobs.drop(trainjob())
    assert jobs.get(JOB) is None
    assert len(jobs) == 0


def test_all_objects_are_fresh_copies_and_what_changes_meanwhile_does_no_harm(jobs, trainjob):
    listed(jobs, [trainjob("a"), trainjob("b"), trainjob("c")])
    seen = []
    for document in jobs.every({}):
        seen.append(document["metadata"]["name"])
        jobs.drop(trainjob("b"))
        jobs.put(trainjob("d"))
        document.clear()
    assert seen == ["a", "c"]
    assert jobs.get(JOB._replace(name="a")) == trainjob("a")


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        ({}, ["a", "b", "c"]),
        ({"pool": ["gpu"]}, ["a"]),
        ({"pool": ["gpu", "cpu"]}, ["a", "b"]),
        ({"pool": ["gpu", "cpu"], "x/y": ["1"]}, ["b"]),
        ({"pool": []}, []),
        ({"note": ['"q"']}, ["c"]),
    ],
)
def test_objects_are_chosen_by_their_labels_and_by_nothing_else(jobs, trainjob, labels, found):
    for name, own in (("a", {"pool": "gpu"}), ("b", {"pool": "cpu", "x/y": "1"}), ("c", {"note": '"q"'})):
        document = trainjob(name, pool="gpu")
        document["metadata"] |= {"labels": own, "annotations": {"pool": "cpu"}}
        jobs.put(document)
    assert [document["metadata"]["name"] for document in jobs.every(labels)] == found


def test_a_reader_cannot_spoil_the_cache(jobs, trainjob):
    jobs.put(trainjob())
    jobs.get(JOB)["spec"].clear()
    assert jobs.get(JOB) == trainjob()


def test_replacing_forgets_what_is_not_there_any_more(jobs, trainjob):
    jobs.put(trainjob("old"))
    listed(jobs, [trainjob("new")])
    assert jobs.get(JOB._replace(name="old")) is None
    assert jobs.get(JOB._replace(name="new")) == trainjob("new")


def test_equal_snapshots_are_held_once_and_read_once_and_only_when_asked_for(frozen, snapshot, monkeypatch):
    read = []
    document = snapshots._document
    monkeypatch.setattr(snapshots, "_document", lambda text: read.append(text) or document(text))
    text = f"{RUNTIME}\nonly: here"
    frozen.put(snapshot(text))
    frozen.put(snapshot("".join(list(text)), trainjob="other"))
    assert read == []
    assert frozen.get(SNAPSHOT) == frozen.get(SNAPSHOT._replace(name="other"))
    assert read == [text]
    assert len({id(frozen._shelf.get(SNAPSHOT._replace(name=name))[1]) for name in ("llama", "other")}) == 1


def test_a_snapshot_says_which_incarnation_of_its_job_it_was_made_for(frozen, snapshot):
    document = snapshot(RUNTIME)
    document["metadata"]["ownerReferences"] = [{"kind": "TrainJob", "controller": True, "name": "llama", "uid": "u7"}]
    frozen.put(document)
    (owner,) = frozen.get(SNAPSHOT)["metadata"]["ownerReferences"]
    assert owner["uid"] == "u7"


def test_a_reader_of_a_snapshot_cannot_spoil_it_for_the_next(frozen, snapshot):
    frozen.put(snapshot(RUNTIME))
    frozen.get(SNAPSHOT)["metadata"].clear()
    assert frozen.get(SNAPSHOT)["metadata"] == {"name": "trl"}


def test_a_broken_snapshot_stays_an_error_until_it_is_replaced(frozen, snapshot):
    frozen.put(snapshot("a: ["))
    for _ in range(2):
        with pytest.raises(readers.SnapshotInvalid):
            frozen.get(SNAPSHOT)
    frozen.put(snapshot(RUNTIME))
    assert frozen.get(SNAPSHOT)["metadata"] == {"name": "trl"}


def test_a_snapshot_without_its_key_is_invalid_and_not_absent(frozen, snapshot):
    frozen.put({**snapshot(""), "data": {}})
    with pytest.raises(readers.SnapshotInvalid, match="missing or empty"):
        frozen.get(SNAPSHOT)


def test_ordinary_configmaps_take_no_room(frozen, snapshot):
    other = snapshot("")
    other["metadata"]["name"] = "settings"
    frozen.put(other)
    frozen.drop(other)
    assert len(frozen) == 0
