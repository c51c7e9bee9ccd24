"""Fixtures of the mode tests: a second namespace, and a framework that the configuration speaks of."""

from __future__ import annotations

import secrets

import pytest

from e2e.suites.support import documents, spaces, waits
from e2e.suites.support.spaces import Space


@pytest.fixture
def elsewhere(kubectl, request):
    """Another namespace, without a mode."""
    made = Space(spaces.named(f"else-{request.node.name}"), kubectl).make()
    yield made
    made.remove()


@pytest.fixture
def framework(kubectl, elsewhere, installation):
    """A job without nodes, of a cluster's runtime for a framework that the configuration sets to `warn`."""
    name, kind = f"e2e-{secrets.token_hex(3)}", "ClusterTrainingRuntime"
    job = documents.trainjob("wrong", name, kind=kind, trainer={"numNodes": 0}, suspend=True)
    kubectl.apply(documents.training_runtime(name, name) | {"kind": kind}).expect()
    try:
        with installation.reloaded({"frameworks": {name: {"mode": "warn"}}}):
            waits.until("the configuration to be read", lambda: elsewhere.apply(job, dry_run=True).ok, 180)
            yield job
    finally:
        kubectl.delete(kind, name)


@pytest.fixture
def a_runtime_of_a_namespace(space, framework):
    """A job like `framework`, whose runtime an author wrote."""
    runtime = documents.training_runtime("own", framework["spec"]["runtimeRef"]["name"])
    space.apply(runtime).expect()
    return documents.trainjob("own", "own", trainer={"numNodes": 0}, suspend=True)
