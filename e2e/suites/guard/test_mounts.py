"""Where `guard.mount` is `image`, the guard comes as an image volume, and no container copies it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.suites.guard import jobs, platforms
from e2e.suites.support import doctors
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.training import runs

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module", autouse=True)
def mounted(platform: None, kubectl: Kubectl) -> Iterator[None]:
    """Has Muster mount its own image in the pods of trainings."""
    with platforms.configured(kubectl, {"guard": {"mount": "image"}}):
        yield


def test_a_job_is_measured_by_a_guard_of_an_image_volume(space: Space) -> None:
    name = runs.start(space, jobs.program(), jobs.runtime(), jobs.trainjob("hand", "together", "5"))

    ranks = runs.ended(space, name)

    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]
    assert jobs.metrics(space, name)["muster.dev/world-size"] == "2"
    (pod, _) = space.kubectl.all("pods", space.name)
    assert any(each.get("image", {}).get("reference") == platforms.IMAGE for each in pod["spec"]["volumes"])
    assert "initContainers" not in pod["spec"]


def test_the_doctor_mounts_the_image_on_each_node(kubectl: Kubectl, real: list[str]) -> None:
    examined = doctors.examine(kubectl, "--guard")

    (said,) = examined.said("ok", check="guard")
    assert "the guard (image) starts on" in said
    assert all(name in said for name in real)
