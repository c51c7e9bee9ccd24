"""The loop that keeps a listener in step with its source."""

from __future__ import annotations

import asyncio
import logging
import os
import threading

import pytest

from muster.certs import contexts, errors, followers, material_sources, probes
from tests.support import waits


class ScriptedSource:
    """Gives each step of a script: material, or an error to raise."""

    def __init__(self, *steps):
        self._steps = list(steps)
        self.threads = []

    def current(self):
        self.threads.append(threading.current_thread())
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture
def following(new_material):
    def make(*steps, **options):
        serving = contexts.ServingContext(new_material())
        return serving, followers.Follower(serving, ScriptedSource(*steps), **options)

    return make


def _broken(problem="is broken"):
    return errors.MaterialError("tls.crt", problem, "mend it")


async def test_new_material_is_served(following, new_material):
    new = new_material()
    serving, follower = following(new)
    await follower.look()
    await follower.look()
    assert serving.material == new
    assert (follower.reloads, follower.failures, follower.error) == (1, 0, None)


async def test_the_same_material_is_not_loaded_again(following):
    serving, follower = following(None)
    follower._source = ScriptedSource(serving.material)
    await follower.look()
    assert follower.reloads == 0


async def test_a_failing_source_leaves_the_last_good_material(following):
    serving, follower = following(_broken())
    good = serving.material
    await follower.look()
    assert serving.material is good
    assert (follower.failures, follower.error.problem) == (1, "is broken")


async def test_a_failure_is_forgotten_after_a_good_look(following, new_material):
    _, follower = following(_broken(), new_material())
    await follower.look()
    await follower.look()
    assert (follower.failures, follower.error, follower.reloads) == (1, None, 1)


async def test_a_lasting_failure_is_logged_once_and_a_new_one_again(following, caplog):
    _, follower = following(_broken(), _broken(), _broken("is still broken"))
    for _ in range(5):
        await follower.look()
    assert [record.problem for record in caplog.records] == ["is broken", "is still broken"]
    assert {record.message for record in caplog.records} == {"certificate not renewed, serving the last good one"}
    assert follower.failures == 5


async def test_a_failure_that_comes_back_after_a_good_look_is_logged_again(following, new_material, caplog):
    _, follower = following(_broken(), new_material(), _broken())
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            await follower.look()
    assert len(caplog.records) == 2


async def test_a_defect_in_a_source_does_not_end_the_loop(following, new_material, caplog):
    _, follower = following(ZeroDivisionError("oops"), new_material())
    await follower.look()
    await follower.look()
    assert follower.reloads == 1
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


async def test_a_reload_that_fails_is_tried_again(following, new_material, monkeypatch):
    new = new_material()
    serving, follower = following(new)
    with monkeypatch.context() as patch:
        patch.setattr(probes, "served", lambda *_: "something else")
        await follower.look()
    assert follower.failures == 1
    await follower.look()
    assert serving.material == new


async def test_the_source_is_asked_outside_the_event_loop(following, new_material):
    _, follower = following(new_material())
    await follower.look()
    assert follower._source.threads[0] is not threading.current_thread()


async def test_the_loop_runs_until_it_is_cancelled(following, new_material):
    new = new_material()
    serving, follower = following(_broken(), new, interval=0.001)
    task = asyncio.create_task(follower.run())
    await waits.until(lambda: serving.material == new)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_replaced_files_reach_the_listener(listening, mounted, mount, forge):
    source = material_sources.FileSource(mounted, ("muster.muster-system.svc",))
    first = source.current()
    serving = contexts.ServingContext(first)
    follower = followers.Follower(serving, source)
    async with listening(serving.ssl_context) as port:
        renewed = forge()
        mount(renewed)
        await follower.look()
        shown = await probes.dial("127.0.0.1", port, first.authority_pem, "muster.muster-system.svc")
    assert shown == renewed.fingerprint != first.fingerprint


async def test_a_half_replaced_pair_is_taken_once_it_is_whole(mounted, service, new_material, clock):
    source = material_sources.FileSource(mounted, service, clock=clock)
    serving = contexts.ServingContext(source.current())
    follower = followers.Follower(serving, source)
    new = new_material()
    mounted.certificate.write_bytes(new.chain_pem)
    await follower.look()
    assert "is not the key of the certificate" in follower.error.problem
    mounted.key.write_bytes(new.key_pem)
    await follower.look()
    assert (serving.material, follower.error) == (new, None)


def test_unchanged_files_give_the_very_same_material(mounted, service, clock):
    source = material_sources.FileSource(mounted, service, clock=clock)
    assert source.current() is source.current()


def test_a_rewrite_with_the_same_times_and_size_is_noticed(mounted, service, new_material, clock):
    source = material_sources.FileSource(mounted, service, clock=clock)
    before = mounted.certificate.stat()
    first = source.current()
    other = next(m for m in iter(new_material, None) if len(m.chain_pem) == before.st_size and m != first)
    mounted.certificate.write_bytes(other.chain_pem)
    mounted.key.write_bytes(other.key_pem)
    os.utime(mounted.certificate, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert source.current().fingerprint == other.fingerprint
