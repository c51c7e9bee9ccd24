"""A job whose evaluation fails is answered as the service would, whatever the failure says."""

from __future__ import annotations

from unittest.mock import Mock

import orjson
import pytest

from muster.webhook.admission import decisions, reviews
from muster.webhook.cli import cases
from tests.support import admissions, jobs


class LeavingError(Exception):
    def __str__(self):
        raise SystemExit(1)


@pytest.mark.parametrize(("label", "allowed"), [("warn", True), ("off", True), ("enforce", False), (None, False)])
def test_a_failure_whose_text_fails_is_answered_by_the_mode_of_the_namespace(label, allowed, monkeypatch):
    monkeypatch.setattr(decisions, "evaluate", Mock(side_effect=LeavingError()))
    request = reviews.parse(orjson.dumps(admissions.make_review(jobs.make_trainjob())), "mutate")
    reader = admissions.make_reader(jobs.make_runtime(), jobs.make_namespace(label))
    decision = cases.evaluate(request, reader, admissions.POLICY)
    assert decision.allowed is allowed
    assert decision.message.startswith("Muster failed with LeavingError")
