"""What the tests of migrations share: the documents that one becomes, with its notes, and how `muster` shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from muster.webhook.cli import migrations
from tests.cli.conftest import muster  # noqa: F401  # a fixture


@dataclass
class Found:
    """What one document became."""

    documents: list[dict[str, Any]]
    notes: list[migrations.Note]

    @property
    def job(self):
        return self.documents[-1]["spec"]

    @property
    def trainer(self):
        return self.job["trainer"]

    @property
    def runtime(self):
        assert len(self.documents) == 2, "the job has a shipped runtime"
        return self.documents[0]["spec"]

    @property
    def is_shipped(self):
        return self.job["runtimeRef"] == {"name": "torch-distributed"} and len(self.documents) == 1

    def replicated(self, number=0):
        return self.runtime["template"]["spec"]["replicatedJobs"][number]["template"]["spec"]

    def pod(self, number=0):
        return self.replicated(number)["template"]["spec"]

    @property
    def patch(self):
        (patch,) = self.job["runtimePatches"]
        (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
        assert job["name"] == "node"
        return job["template"]["spec"]["template"]

    @property
    def env(self):
        entries = self.trainer.get("env") or []
        return {each["name"]: each.get("value", "(rank)" if "valueFrom" in each else "") for each in entries}

    @property
    def lost(self):
        return {each.member: each.text for each in self.notes if each.fate == "lost"}

    @property
    def changed(self):
        return {each.member: each.text for each in self.notes if each.fate == "changed"}


@pytest.fixture
def migrated():
    """Migrate one document, beside others."""

    def run(document, *others):
        numbers, referred = migrations.numbers([document, *others])
        found = migrations.migrate(document, numbers, referred)
        assert found is not None, "the document stays as it is"
        return Found(found.documents, found.notes)

    return run


@pytest.fixture
def refusal(migrated):
    """Return why a document is not migrated."""

    def run(document):
        with pytest.raises(migrations.Unmigrated) as told:
            migrated(document)
        return str(told.value)

    return run
