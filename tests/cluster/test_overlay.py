from __future__ import annotations

import pytest

from muster.webhook.cluster import memory, overlay, readers

JOB = readers.Ref("TrainJob", "team-a", "llama")


class Empty:
    """A live reader whose caches are cold."""

    def get(self, ref):
        raise readers.NotCached(ref)


def test_what_was_fetched_is_answered_from_then_on(trainjob):
    view = overlay.Overlay(Empty())
    with pytest.raises(readers.NotCached) as asked:
        view.get(JOB)
    view.put(asked.value.ref, trainjob())
    assert view.get(JOB) == trainjob()


def test_what_does_not_exist_is_not_asked_for_again():
    view = overlay.Overlay(Empty())
    view.put(JOB, None)
    assert view.get(JOB) is None


def test_one_request_sees_one_version(trainjob):
    reader = memory.InMemoryReader()
    view = overlay.Overlay(reader)
    assert view.get(JOB) is None
    reader.add(trainjob())
    assert view.get(JOB) is None
    assert overlay.Overlay(reader).get(JOB) == trainjob()


def test_all_documents_of_a_kind_are_the_readers(trainjob):
    view = overlay.Overlay(memory.InMemoryReader([trainjob()]))
    assert list(view.every("TrainJob", {})) == [trainjob()]


def test_a_fetched_document_wins_over_an_older_one_in_the_cache(trainjob):
    view = overlay.Overlay(memory.InMemoryReader([trainjob()]))
    view.put(JOB, trainjob(numNodes=2))
    assert view.get(JOB)["spec"]["numNodes"] == 2


def test_the_question_says_what_to_fetch():
    assert str(readers.NotCached(JOB)).startswith("TrainJob team-a/llama is not in the cache")
    assert str(readers.Ref("Namespace", "", "team-a")) == "Namespace team-a"
