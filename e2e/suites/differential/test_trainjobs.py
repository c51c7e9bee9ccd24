"""For each example: what `muster` says offline of a TrainJob is what the cluster stores, and so for its JobSet."""

from __future__ import annotations

import pytest

from e2e.suites.differential import examples
from e2e.suites.differential.comparisons import applied, differences, explained, recorded

each_job = pytest.mark.parametrize("story", examples.of_kind("TrainJob"), indirect=True)
each_job_and_mistake = pytest.mark.parametrize("story", examples.of_kind("TrainJob", with_mistakes=True), indirect=True)


@each_job
def test_a_trainjob_is_stored_as_render_says(story):
    rendered = story.before.render(story.example.job)
    rendered["metadata"]["name"] = story.name
    assert differences(rendered, story.stored) == []
    assert applied(rendered) == applied(story.stored)


@each_job
def test_its_jobset_is_stored_as_render_says(story):
    rendered = story.after.render(story.untouched)
    assert differences(rendered, story.jobset) == []
    assert applied(rendered) == applied(story.jobset)


@each_job
def test_review_answers_for_its_jobset_as_render_does(story):
    assert story.after.review(story.untouched) == story.after.patch(story.untouched)


@each_job
def test_explain_says_what_the_audit_log_says(story):
    assert explained(story.foretold[0]) == recorded(story.record("TrainJob", "mutate"))
    assert explained(story.seen) == recorded(story.record("JobSet", "mutate"))


@each_job
def test_explain_foretells_the_jobset(story):
    _, jobset = story.foretold
    assert jobset["predicted"]
    assert explained(jobset) == explained(story.seen)
    if not jobset["notes"]:  # they name what a plugin of Trainer adds that the prediction leaves out
        assert jobset["launch"] == story.seen["launch"]


@each_job_and_mistake
def test_kubectl_shows_what_check_finds(story):
    found = story.before.check(story.example.job)
    errors = [each for each in found if each["severity"] == "error"]
    shown = [line for line in story.outcome.err.splitlines() if "(muster " in line]
    # Validating webhooks are asked at the same time, and of two that refuse, the API server tells one.
    if not (errors and "validator.trainjob.trainer.kubeflow.org" in story.outcome.err):
        assert len(shown) == len(errors)
        for line, each in zip(shown, errors, strict=True):
            assert f"{each['field']}: " in line
            assert line.endswith(f"{each['message']} (muster {each['rule']})")
    warnings = [each["field"] for each in found if each["severity"] == "warning"]
    assert [warning.partition(": ")[0] for warning in story.outcome.warnings] == warnings
