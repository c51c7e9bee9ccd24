from __future__ import annotations

import json

import pytest

from e2e.cluster import places
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import drivers


@pytest.fixture
def published(monkeypatch):
    """What the API server answers, one after the other; the last for ever. Time does not pass but flies."""
    answers = [[]]
    moments = iter(range(1000))

    def run(command, timeout):
        devices = answers.pop(0) if len(answers) > 1 else answers[0]
        return json.dumps({"items": [{"spec": {"devices": [{}] * count}} for count in devices]})

    monkeypatch.setattr(drivers.commands, "run", run)
    monkeypatch.setattr(drivers.time, "sleep", lambda _: None)
    monkeypatch.setattr(drivers.time, "monotonic", lambda: next(moments))
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
