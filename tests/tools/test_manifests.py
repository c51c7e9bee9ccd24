"""`make manifests`: which documents of a Go module are checked, and what differs from what was judged."""

from __future__ import annotations

import pytest

from tools import manifests
from tools.manifests import Finding

JOB = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: fit}
spec:
  runtimeRef: {name: torch-distributed}
  trainer: {command: [torchrun, train.py], numNode: 2}
"""
FOUND = Finding("m@v1/a.yaml", "TrainJob/fit", "core/unknown-field", "error", "spec.trainer.numNode")


@pytest.fixture
def module(tmp_path):
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.yaml").write_text(JOB)
    (tmp_path / "chart.yaml").write_text("kind: JobSet\nmetadata: {name: '{{ .Values.name }}'}\n")
    (tmp_path / "other.yaml").write_text("kind: Service\n")
    (tmp_path / "crd.yaml").write_text("kind: CustomResourceDefinition\nspec:\n  names:\n    kind: JobSet\n")
    (tmp_path / "README.md").write_text(
        f"# Jobs\n```yaml\n{JOB}```\n```yaml\na: [\n```\n  ```yml\n  kind: JobSet\n  ```\n"
    )
    return tmp_path


def test_files_and_blocks_of_pages_with_a_job_are_manifests(module):
    assert dict(manifests.manifests(module)) == {
        "jobs/a.yaml": JOB,
        "README.md#1": JOB,
        "README.md#3": "kind: JobSet\n",
    }


def test_findings_are_told_apart_by_place_and_rule(module, monkeypatch):
    monkeypatch.setattr(manifests, "folder", lambda _: module)
    (module / "README.md").unlink()
    seen = manifests.look(["m@v1"])

    assert list(seen.findings) == [FOUND._replace(file="m@v1/jobs/a.yaml")]
    assert (seen.manifests, seen.documents) == (1, 1)


def test_a_finding_that_nobody_has_judged_differs():
    (line,) = manifests.differences({FOUND: "is not a known field"}, {})
    assert line.startswith("not judged: m@v1/a.yaml TrainJob/fit error: spec.trainer.numNode: is not a known field")
    (line,) = manifests.differences({FOUND: ""}, {FOUND: ("unjudged", "")})
    assert line.startswith("not judged")


def test_a_judgement_whose_finding_is_gone_differs():
    (line,) = manifests.differences({}, {FOUND: ("true", "no such field")})
    assert line.startswith("gone: m@v1/a.yaml")


def test_what_was_judged_does_not_differ():
    assert list(manifests.differences({FOUND: ""}, {FOUND: ("false", "why")})) == []


def test_figures_count_by_verdict():
    seen = manifests.Seen(3, 4, {FOUND: ""})
    assert manifests.figures(seen, {FOUND: ("false", "why")}) == (
        "3 manifests, 4 documents, 1 findings: 0 true, 1 false, 0 unhelpful"
    )


def test_each_judgement_has_a_verdict_and_a_reason_and_is_of_a_module():
    for finding, (verdict, reason) in manifests.judged(manifests.JUDGED.read_text()).items():
        assert finding.file.startswith(tuple(f"{module}/" for module in manifests.MODULES))
        assert verdict in manifests.VERDICTS
        assert reason
