from __future__ import annotations

import os

import pytest

from e2e.cluster import builds
from tests.packaging import apiservers, openapi, renders


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Call thorough what needs helm or kind, whose build takes minutes."""
    for item in items:
        if {"helm", "kind"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="session")
def kind():
    return builds.binaries(["kind"]) / "kind"


@pytest.fixture(scope="session")
def helm(tmp_path_factory):
    """helm without a cluster, and without anything of the home folder."""
    binaries = builds.binaries(["helm"])
    home = tmp_path_factory.mktemp("helm")
    folders = {f"HELM_{name}_HOME": str(home / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    return renders.Helm(binaries / "helm", {"PATH": os.environ["PATH"], "HOME": str(home), **folders})


@pytest.fixture(scope="session")
def kubectl():
    return builds.binaries(["kubernetes"]) / "kubectl"


@pytest.fixture(scope="session")
def descriptions():
    """The OpenAPI files of the pinned Kubernetes."""
    return builds.module_folder("kubernetes", "k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"


@pytest.fixture(scope="session")
def kubernetes(descriptions):
    """What the pinned Kubernetes says about the fields of its kinds."""
    return openapi.Kubernetes(descriptions)


@pytest.fixture
def api(descriptions):
    """An API server that tells in which order helm does things."""
    with apiservers.ApiServer(descriptions) as server:
        yield server
