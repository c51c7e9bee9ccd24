"""Caches: what a change of an object tells the controllers."""

from __future__ import annotations

from muster.kube import payloads
from muster.webhook.cluster import kinds, reflector
from muster.webhook.controllers import caches, desired
from tests.controllers.documents import SHARED


def claim(name, version):
    document = desired.made("team-a", name, SHARED)
    document["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": version}
    return document


def followed(told):
    def view(document):
        return document["metadata"]["name"], document["metadata"]["resourceVersion"]

    def changed(before, after):
        told.append((before, after))

    source = caches.Source(None, reflector.Pace(), caches.ROOM, payloads.Turn())
    return caches.Mirror(kinds.CLAIM, view, changed, source)


def listed(store, *claims):
    listing = store.listing()
    listing.take(claims)
    listing.end()


def test_every_change_is_told_with_the_view_before_and_after_it():
    told = []
    mirror = followed(told)
    store = mirror
    for change, version in ((store.put, "1"), (store.put, "2"), (store.drop, "2"), (store.drop, "2")):
        change(claim("one", version))
    assert told == [(None, ("one", "1")), (("one", "1"), ("one", "2")), (("one", "2"), None), (None, None)]
    assert list(mirror.all()) == []


def test_a_new_list_tells_what_came_what_changed_and_what_is_gone():
    told = []
    mirror = followed(told)
    store = mirror
    listed(store, claim("one", "1"), claim("two", "1"))
    told.clear()
    listed(store, claim("two", "2"), claim("three", "1"))
    assert told == [(("two", "1"), ("two", "2")), (None, ("three", "1")), (("one", "1"), None)]
    assert mirror.look("team-a", "one") is None
    assert sorted(mirror.in_namespace("team-a")) == [("three", "1"), ("two", "2")]
