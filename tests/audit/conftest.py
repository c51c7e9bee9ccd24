from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from muster.audit import chain, record_schema


def _record(**fields):
    """One decision as the pipeline describes it; `fields` replace its own."""
    moment = datetime.datetime(2026, 3, 1, 8, 30, 0, 123456, tzinfo=datetime.UTC)
    return {
        "schema": record_schema.SCHEMA,
        "time": record_schema.timestamp(moment),
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "user": {"username": "alice", "groups": ["team-a", "system:authenticated"]},
        "operation": "CREATE",
        "phase": "mutate",
        "object": {"kind": "TrainJob", "namespace": "team-a", "name": "sft"},
        "owner": None,
        "runtime": {"kind": "ClusterTrainingRuntime", "name": "trl-distributed", "source": "snapshot"},
        "framework": "trl",
        "strategy": {"framework": "trl", "version": "1.0.0", "origin": "in-tree"},
        "mode": "enforce",
        "dryRun": False,
        "decision": "patched",
        "changes": [],
        "findings": [],
        "latencyMicroseconds": 310,
        **fields,
    }


def _change(field="spec.trainer", path="/spec/trainer", **sides):
    return {"op": "add", "path": path, "field": field, "rule": "trl/launch", "reason": "all ranks must meet", **sides}


def _finding(field, value, message="is not what it should be"):
    return {"severity": "warning", "field": field, "value": value, "message": message, "rule": "trl/env"}


def _sealed(count):
    link = chain.Chain()
    return [link.seal(_record(uid=f"uid-{number}")) for number in range(1, count + 1)]


class Memory:
    """A sink in memory, which fails as long as it is told an error."""

    is_kept = False

    def __init__(self, name="memory"):
        self.name = name
        self.lines = []
        self.error = None
        self.attempts = 0
        self.closed = False

    def write(self, line):
        self.attempts += 1
        if self.error:
            raise self.error
        self.lines.append(line)

    def damage(self):
        return ""

    def last_lines(self):
        return reversed(list(self.lines))

    def close(self):
        self.closed = True


@pytest.fixture(scope="session")
def make_record():
    return _record


@pytest.fixture(scope="session")
def make_change():
    return _change


@pytest.fixture(scope="session")
def make_finding():
    return _finding


@pytest.fixture(scope="session")
def sealed():
    return _sealed


@pytest.fixture(scope="session")
def new_sink():
    return Memory


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "audit.log"


@pytest.fixture
def denied(make_record, make_finding):
    """A record of a denied job; keywords are members of it."""

    def make(message="must be 1 or more", **fields):
        finding = {**make_finding("spec.trainer.numNodes", 0, message), "severity": "error"}
        return make_record(**{"decision": "denied", "phase": "validate", "findings": [finding], **fields})

    return make
