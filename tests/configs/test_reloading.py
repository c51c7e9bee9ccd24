"""A changed file takes effect between two requests; a broken one does not."""

from __future__ import annotations

import asyncio
import logging

import pytest

from muster.strategies.frameworks import builtin
from muster.webhook import configs
from muster.webhook.admission.policies import Mode
from muster.webhook.metrics import Metrics
from muster.webhook.server.reloads import Reloader
from tests.support import waits

REGISTRY = builtin.load(plugins=False)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "muster.yaml"
    path.write_text("mode: warn")
    return path


@pytest.fixture
def reloader(path):
    return Reloader(path, configs.load(path), REGISTRY, Metrics())


def test_an_unchanged_file_changes_nothing(reloader):
    before = reloader.policy()
    assert not reloader.look()
    assert reloader.policy() is before


def test_a_changed_file_is_taken(path, reloader):
    path.write_text("mode: audit")
    assert reloader.look()
    assert reloader.policy().mode is Mode.AUDIT


def test_a_broken_file_keeps_the_last_good_one_and_is_said_once(path, reloader, caplog):
    path.write_text("mode: nonsense")
    with caplog.at_level(logging.ERROR):
        assert not reloader.look()
        assert not reloader.look()
    assert reloader.policy().mode is Mode.WARN
    assert [record.message for record in caplog.records] == [
        "the changed configuration is refused, the last good one stays"
    ]


def test_a_mended_file_is_taken_after_a_broken_one(path, reloader):
    path.write_text("mode: nonsense")
    reloader.look()
    path.write_text("mode: off")
    assert reloader.look()
    assert reloader.policy().mode is Mode.OFF


def test_a_vanished_file_keeps_the_last_good_one(path, reloader):
    path.unlink()
    assert not reloader.look()
    assert reloader.policy().mode is Mode.WARN


def test_a_misspelt_framework_is_pointed_out(path, reloader, caplog):
    path.write_text("frameworks: {trll: {mode: audit}}")
    with caplog.at_level(logging.WARNING):
        reloader.look()
    assert [record.framework for record in caplog.records] == ["trll"]


async def test_the_file_is_followed(path, reloader):
    task = asyncio.create_task(reloader.run(interval=0.01))
    path.write_text("mode: audit")
    await waits.until(lambda: reloader.policy().mode is Mode.AUDIT)
    task.cancel()
