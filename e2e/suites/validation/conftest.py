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
def framework(space, elsewhere, installation):
    """A job without nodes, of a framework of its own that the configuration sets to `warn`."""
    name = f"e2e-{secrets.token_hex(3)}"
    job = documents.trainjob("wrong", "runtime", trainer={"numNodes": 0}, suspend=True)
    for each in (space, elsewhere):
        each.apply(documents.training_runtime("runtime", name)).expect()
    with installation.reloaded({"frameworks": {name: {"mode": "warn"}}}):
        waits.until("the configuration to be read", lambda: elsewhere.apply(job, dry_run=True).ok, 180)
        yield job
