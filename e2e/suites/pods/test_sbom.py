"""The bill of materials of the image that serves in the cluster, read from the running pod."""

from __future__ import annotations

import json

import pytest

from e2e.cluster.places import REPOSITORY
from e2e.suites.support.kubectls import Kubectl

_PROGRAM = REPOSITORY / "images" / "sbom.py"


def test_the_pod_of_muster_says_what_its_image_holds(kubectl: Kubectl) -> None:
    if kubectl.get("deployment", "muster", "muster-system") is None:
        pytest.skip("Muster is not a Deployment in this cluster")
    inside = ("exec", "-i", "-n", "muster-system", "deploy/muster", "--", "python3", "-")
    bill = json.loads(kubectl.run(*inside, stdin=_PROGRAM.read_text()).expect().out)

    assert bill["metadata"]["component"]["name"] == "muster-admission"
    listed = {each["purl"].partition("?")[0] for each in bill["components"]}
    pins = (line.partition("#")[0].strip() for line in (REPOSITORY / "requirements/run.txt").read_text().splitlines())
    for name, _, version in (pin.partition("==") for pin in pins if pin and not pin.startswith("setuptools==")):
        assert f"pkg:pypi/{name.replace('_', '-').lower()}@{version}" in listed
    assert any(each.startswith("pkg:deb/debian/libc6@") for each in listed)
    assert not any(each.startswith("pkg:pypi/pytest@") for each in listed)
