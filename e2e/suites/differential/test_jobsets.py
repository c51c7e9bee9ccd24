"""For each JobSet without Trainer: what `muster` says offline of it is what the cluster stores."""

from __future__ import annotations

import pytest

from e2e.suites.differential import examples
from e2e.suites.differential.comparisons import applied, differences, explained, recorded

pytestmark = pytest.mark.parametrize("story", examples.of_kind("JobSet"), indirect=True)


def test_a_jobset_is_stored_as_render_says(story):
    rendered = story.before.render(story.example.job)
    assert differences(rendered, story.stored) == []
    assert applied(rendered) == applied(story.stored)


def test_review_answers_for_a_jobset_as_render_does(story):
    assert story.before.review(story.example.job) == story.before.patch(story.example.job)


def test_explain_says_of_a_jobset_what_the_audit_log_says(story):
    (told,) = story.before.explain(story.example.job)
    assert explained(told) == recorded(story.record("JobSet", "mutate"))
