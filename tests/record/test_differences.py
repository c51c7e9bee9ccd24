"""The record of answers: differences are told by kind, and a checkout answers by its command line alone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.record import answers, differences

ROOT = Path(__file__).parents[2]
RIGHT = {"verdict": "explain ends with 0", "ends": ["right"], "changes": ["add /spec/trainer {}"], "findings": []}


def _record(folder, name, **jobs):
    path = folder / name
    path.write_text("".join(json.dumps({"name": job, **answer}) + "\n" for job, answer in jobs.items()))
    return path


def test_equal_records_have_no_kind_of_difference(tmp_path):
    before, after = (_record(tmp_path, name, a=RIGHT, b=RIGHT) for name in ("old", "new"))
    assert differences.compare(before, after) == {}


def test_two_jobs_that_differ_alike_are_one_kind(tmp_path):
    first, second = ("warning core/launch spec.trainer.args[1]", "warning core/launch spec.trainer.command")
    before = _record(tmp_path, "old", a=RIGHT | {"findings": [first]}, b=RIGHT | {"findings": [second]})
    after = _record(tmp_path, "new", a=RIGHT, b=RIGHT)
    assert differences.compare(before, after) == {"findings gone: warning core/launch": ["a", "b"]}


def test_numbers_of_entries_do_not_make_kinds(tmp_path):
    before = _record(tmp_path, "old", a=RIGHT, b=RIGHT)
    changed = ("add /spec/env/3/value 1", "add /spec/env/12/value 2")
    after = _record(
        tmp_path, "new", **{job: RIGHT | {"changes": [each]} for job, each in zip("ab", changed, strict=True)}
    )
    assert differences.compare(before, after)["changes new: add /spec/env/*/value"] == ["a", "b"]


def test_another_end_and_a_missing_input_are_told(tmp_path):
    before = _record(tmp_path, "old", a=RIGHT, b=RIGHT)
    after = _record(tmp_path, "new", a=RIGHT | {"ends": ["open"]})
    found = differences.compare(before, after)
    assert found == {"ends: ['right'] -> ['open']": ["a"], "only in one record": ["b"]}
    assert next(differences.lines(found)).strip().startswith("1  ends")


def test_a_file_is_answered_with_all_that_its_author_gets():
    found = answers.answer(ROOT / "manifests/examples/01-trl-sft-two-nodes.yaml")
    assert found["verdict"] == "explain ends with 0"
    assert found["ends"] == ["right", "right"]
    assert any(each.startswith("replace /spec/trainer/command") for each in found["changes"])
    assert '"torchrun"' in found["predicted"]


def test_a_review_is_answered_in_both_phases(tmp_path):
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "a", "namespace": "b"},
    }
    job["spec"] = {
        "runtimeRef": {"name": "trl-distributed"},
        "trainer": {"command": ["trl", "sft"], "args": ["--learning_rte=1"]},
    }
    kind = {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": "TrainJob"}
    request = {"uid": "1", "kind": kind, "operation": "CREATE", "name": "a", "namespace": "b", "object": job}
    review = tmp_path / "000001.TrainJob.json"
    review.write_text(json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))
    found = answers.answer(review)
    assert "mutate 0 True" in found["verdict"]
    assert "validate 0 False 422" in found["verdict"] or "validate 0 False 403" in found["verdict"]


def test_an_input_that_breaks_the_command_is_an_answer_too(tmp_path):
    broken = tmp_path / "1.json"
    broken.write_text("{")
    assert "2" in answers.answer(broken)["verdict"]
