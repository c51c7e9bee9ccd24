"""Command lines with more unknown flags than anybody reads."""

from __future__ import annotations

import orjson
import pytest

from muster.webhook.admission import decisions, reviews
from tests.support import admissions, jobs


@pytest.mark.parametrize(
    ("framework", "command"), [("trl", ["trl", "sft"]), ("vllm", ["vllm", "serve", "m"])], ids=["trl", "vllm"]
)
def test_a_hundred_unknown_flags_are_told_one_by_one_and_the_others_are_counted(framework, command):
    jobset = jobs.make_jobset("x", framework=framework, container={"command": command, "args": ["--zzz=1"] * 250})
    request = reviews.parse(orjson.dumps(admissions.make_review(jobset)), "validate")
    decision = decisions.evaluate(request, admissions.make_reader(), admissions.POLICY)
    unknown = [each for each in decision.findings if each.rule == f"{framework}/unknown-flag"]
    assert len(unknown) == 101
    assert sum(each.stands_for for each in unknown) == 250
    assert "is the first of 150 more words that are not flags" in unknown[-1].message
