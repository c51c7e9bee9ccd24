"""Logs of all replicas on one volume: new ones are shown, links last, and nothing outside is shown."""

from __future__ import annotations

import os

import pytest

from muster.audit import chain
from muster.webhook.pages import log_places
from muster.webhook.pages.log_places import PatternShelf


@pytest.fixture
def volume(tmp_path, make_record):
    """Write the log of a pod: one record, whose user is the pod's name."""

    def write(pod, when=0):
        path = tmp_path / pod / "audit.log"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(chain.Chain().seal(make_record(user={"username": pod})))
        os.utime(path, (when, when))
        return path

    write.pattern = f"{tmp_path}/*/audit.log"
    return write


async def test_the_log_of_a_new_pod_is_shown_and_links_to_others_last(site, volume):
    volume("b")
    client = await site(shelf=PatternShelf([volume.pattern]))
    (link,) = await client.records()
    volume("a")
    assert len(await client.records()) == 2
    assert ">b<" in await client.get(user="b")
    assert "Asked by" in await client.get(link)


async def test_before_the_first_log_the_page_says_that_there_is_nothing(site, volume):
    client = await site(shelf=PatternShelf([volume.pattern]))
    assert "the logs are empty" in await client.get()


def test_a_log_keeps_its_number_and_that_of_one_that_is_gone_is_given_again(volume):
    gone, stays = volume("a"), volume("b")
    shelf = PatternShelf([volume.pattern])
    assert shelf.paths == (gone, stays)
    gone.unlink()
    new = volume("c")
    shelf.refresh()
    assert shelf.paths == (new, stays)


def test_of_many_logs_those_that_were_written_last_are_shown(volume, monkeypatch):
    monkeypatch.setattr(log_places, "LOGS", 3)
    paths = [volume(f"p{each}", when=each) for each in range(6)]
    assert set(PatternShelf([volume.pattern]).paths) == set(paths[3:])


def test_a_record_is_found_by_its_file_wherever_its_log_is_now(volume):
    volume("b")
    first = PatternShelf([volume.pattern])
    place = next(first.upwards(0)).place
    volume("a")
    other = PatternShelf([volume.pattern])
    assert other.at(place).path.parent.name == "b"


async def test_a_link_on_the_volume_shows_nothing_of_the_pod(site, volume, tmp_path):
    secret = tmp_path / "token"
    secret.write_text("secret of the pod\n")
    log = volume("a")
    log.with_name("audit.log.1").symlink_to(secret)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "audit.log").symlink_to(secret)
    client = await site(shelf=PatternShelf([volume.pattern]))
    assert len(await client.records()) == 1
    for path in [*await client.records(), *await client.records(decision="unreadable")]:
        assert "secret of the pod" not in await client.get(path)


def test_a_name_is_a_pattern_unless_a_file_has_it(tmp_path):
    odd = tmp_path / "audit[1].log"
    assert log_places.is_pattern(str(odd))
    odd.touch()
    assert not log_places.is_pattern(str(odd))
    assert not log_places.is_pattern("audit.log")
