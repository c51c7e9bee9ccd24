from __future__ import annotations

import itertools
import json
import types

import pytest

from e2e.cluster import places
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import drivers


@pytest.fixture
def published(monkeypatch):
    """What the API server answers, one after the other; the last for ever. Time does not pass but flies.

    The module's name for the clock is replaced, not the clock itself, which threads of the process read meanwhile.
    """
    answers = [[]]
    moments = itertools.count()

    def run(command, timeout):
        devices = answers.pop(0) if len(answers) > 1 else answers[0]
        return json.dumps({"items": [{"spec": {"devices": [{}] * count}} for count in devices]})

    monkeypatch.setattr(drivers.commands, "run", run)
    clock = types.SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(moments))
    monkeypatch.setattr(drivers, "time", clock)
    return answers


def test_the_node_waits_until_all_slices_of_its_driver_are_there(published, tmp_path):
    published[:] = [[], [3], [3, drivers.DEVICES - 3]]

    drivers.wait(places.Places(tmp_path), tmp_path / "kubectl")

    assert published == [[3, drivers.DEVICES - 3]]


def test_a_driver_that_publishes_nothing_is_named_with_its_log(published, tmp_path):
    with pytest.raises(ClusterError, match=r"has not published 8 devices; see .*dra-driver\.log"):
        drivers.wait(places.Places(tmp_path), tmp_path / "kubectl")


def test_the_device_class_selects_what_the_driver_publishes():
    document = drivers.device_class()

    assert document["metadata"]["name"] == drivers.DRIVER
    assert document["spec"]["selectors"] == [{"cel": {"expression": f"device.driver == '{drivers.DRIVER}'"}}]
