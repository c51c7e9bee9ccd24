"""What a strategy says without end is cut off, and answers count what they leave out."""

from __future__ import annotations

import itertools
import re

import pytest

from muster.strategies import error, warning
from muster.strategies.changes import changes
from muster.strategies.documents import findings
from muster.webhook.admission import answers, plugin_calls
from muster.webhook.admission.policies import Mode
from tests.support import acmes

ODD = [error(f"spec.field{number}", number, "is odd", rule="acme/odd") for number in range(1000)]
LIKELY = [warning(f"spec.field{number}", number, "is likely odd", rule="acme/odd") for number in range(1000)]


def repeated(_job):
    return (ODD[0] for _ in itertools.count())


def test_findings_without_end_are_a_failure_of_the_strategy():
    decision = acmes.decide(acmes.acme(validate=repeated), "validate", plugin_budget=60.0)
    assert decision.verdict == "error"
    assert f"more than {plugin_calls.MOST_RETURNED} findings" in decision.message


def test_no_more_reports_are_kept_than_anybody_could_read():
    recorded = changes.Changes({})
    for _ in range(changes.MOST + 10):
        recorded.report(ODD[0])
    assert len(recorded.findings) == changes.MOST


def test_changes_without_end_are_a_failure_of_the_strategy(monkeypatch):
    monkeypatch.setattr(changes, "MOST", 100)

    def endless(_job, recorded):
        for number in itertools.count():
            recorded.set(("metadata", "labels", f"a{number}"), "b", rule="acme/label", reason="it must have one")

    decision = acmes.decide(acmes.acme(enforce_command=endless), plugin_budget=60.0)
    assert (decision.verdict, "more than 100 changes" in decision.message) == ("error", True)


def numbers(text):
    return [int(each) for each in re.findall(r"(\d+) (?:errors|more)", text)]


@pytest.mark.parametrize("count", [101, 299, 300, 301, 1000])
def test_a_denial_counts_the_errors_that_it_does_not_list(count):
    decision = acmes.decide(acmes.acme(validate=lambda _job: ODD[:count]), "validate", plugin_budget=60.0)
    message = answers.answer(decision)["status"]["message"]
    assert numbers(message) == [count, count - 100]


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.WARN])
@pytest.mark.parametrize("count", [21, 300, 301, 1000])
def test_the_last_warning_counts_those_that_are_not_shown(count, mode):
    decision = acmes.decide(acmes.acme(validate=lambda _job: LIKELY[:count]), "validate", mode=mode, plugin_budget=60.0)
    assert numbers(answers.answer(decision)["warnings"][-1]) == [count - 20]


def test_errors_beyond_the_limit_are_counted_apart_from_warnings():
    kept = findings.limited([*ODD[:350], *LIKELY])
    assert sum(each.stands_for for each in findings.errors(kept)) == 350
