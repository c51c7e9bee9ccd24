from __future__ import annotations

import asyncio
import os
import signal

import pytest

from muster.sessions.metrics import Metrics
from muster.sessions.platforms.processes import Process


async def test_an_engine_whose_interpreter_is_missing_is_tried_again_and_the_reason_is_told(tmp_path):
    one = Process("trainer", tmp_path / "run", [], Metrics(), python=str(tmp_path / "python"))
    await one.start()
    try:
        async with asyncio.timeout(60):
            while "ended 2 times" not in one.waits_for:  # noqa: ASYNC110  # nothing tells of a start that failed
                await asyncio.sleep(0.01)
    finally:
        await one.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--sampler", "tests.sessions.bigram:Sampler", "--sampler-option", "memroy=0.4"],
            "the sampler cannot start: --sampler-option: memroy: Sampler does not take it: leave it out",
        ),
        (
            ["--sampler", "tests.sessions.bigram:Nobody"],
            (
                "the sampler cannot start: --sampler: tests.sessions.bigram:Nobody: module 'tests.sessions.bigram' "
                "has no attribute 'Nobody': pass MODULE:CLASS of an engine that this Python has"
            ),
        ),
    ],
)
async def test_an_engine_that_cannot_be_made_of_what_it_is_given_tells_why_in_one_sentence(tmp_path, arguments, told):
    one = Process("sampler", tmp_path / "run", ["--base", str(tmp_path), *arguments], Metrics())
    await one.start()
    try:
        async with asyncio.timeout(120):
            await one.refused.wait()
    finally:
        await one.close()
    assert one.refusal == told


async def test_an_engine_that_was_made_before_is_made_again_whatever_it_says(tmp_path):
    engine = ["--trainer", "tests.sessions.mortal:Whim"]
    one = Process("trainer", tmp_path / "run", ["--base", str(tmp_path), *engine], Metrics())
    await one.start()
    try:
        async with asyncio.timeout(120):
            await one.ready()
            (tmp_path / "no").touch()
            os.kill(one.pid, signal.SIGKILL)
            while "ended 2 times" not in one.waits_for:  # noqa: ASYNC110  # nothing tells of a start that failed
                await asyncio.sleep(0.01)
            (tmp_path / "no").unlink()
            await one.ready()
    finally:
        await one.close()
    assert not one.refused.is_set()
