"""Faults that are planted into Muster, each of which the fuzzer finds within so many cases."""

from __future__ import annotations

import logging
import types

import pytest
from msgspec import structs

from muster.audit import known
from muster.strategies.changes.changes import Changes
from muster.strategies.documents import findings
from muster.webhook import logs
from muster.webhook.admission import (
    accounts,
    admission_context,
    admission_outcomes,
    answers,
    decisions,
    enforcements,
    reviews,
    validations,
)
from muster.webhook.admission.policies import Mode
from muster.webhook.notices import denials
from muster.webhook.server import handlers
from tests.fuzz import batches, invariants, mutations, services

_MOST = 3000  # which jobs are drawn first changes with each file of the corpus
_log = logging.getLogger(__name__)


def an_answer_lacks_the_uid(plant):
    """An answer that lets pass has no uid."""
    allow = reviews.allow
    plant(reviews, "allow", lambda uid, **more: allow(uid if more else "", **more))


def what_has_many_errors_is_not_answered(plant):
    """The handler raises where more than two errors are told."""
    take = handlers.Admission._take

    def taking(self, review, ending):
        found = (ending.record or {}).get("findings", ())
        if sum(each["severity"] == "error" for each in found) > 2:
            raise LookupError("planted")
        return take(self, review, ending)

    plant(handlers.Admission, "_take", taking)


def an_update_of_nodes_raises(plant):
    """An exception in the check of an update is answered by the failure mode."""
    check = decisions.check_update

    def raising(kind, old, new):
        for each in check(kind, old, new):
            raise KeyError(each.field)
        return ()

    plant(decisions, "check_update", raising)


def an_error_comes_without_its_rule(plant):
    """A record of a job with an error has a finding without its rule."""
    finding = accounts._finding

    def bare(each):
        told = finding(each)
        return told if each.severity is not findings.Severity.ERROR else {**told, "rule": None}

    plant(accounts, "_finding", bare)


def an_update_leaves_no_record(plant):
    """The record of a changed update is lost."""
    submit = handlers.Admission._submit

    def losing(self, record):
        return (record["operation"] == "UPDATE" and record["decision"] == "patched") or submit(self, record)

    plant(handlers.Admission, "_submit", losing)


def an_entry_is_added_behind_the_end(plant):
    """The index of an entry that is added to a list of several is one too high."""

    def patch(self):
        return [_shifted(each.operation) for each in self]

    plant(Changes, "patch", patch)


def _shifted(operation):
    place, _, last = operation["path"].rpartition("/")
    if operation["op"] == "add" and last.isdigit() and int(last) > 2:
        return {**operation, "path": f"{place}/{int(last) + 1}"}
    return operation


def an_entry_is_added_each_time(plant):
    """Each pass over a job with several replicated jobs appends an entry."""
    enforce = enforcements.roles.enforce

    def again(job, changes):
        enforce(job, changes)
        if len((job.document.get("spec") or {}).get("replicatedJobs") or ()) > 2:
            changes.append(("metadata", "finalizers"), "example.org/planted", rule="core/applied", reason="planted")

    plant(enforcements.roles, "enforce", again)


def what_was_written_is_refused(plant):
    """Validation refuses a command that mutation wrote."""
    check = validations.check_job

    def refusing(job):
        yield from check(job)
        notes = (job.document.get("metadata") or {}).get("annotations") or {}
        if "command" in str(notes.get("muster.dev/applied")):
            yield findings.error("spec", None, "planted", rule="core/shape")

    plant(validations, "check_job", refusing)


def mode_warn_refuses(plant):
    """Errors deny in mode `warn` as well."""
    judged = admission_outcomes.judged

    def denying(case, found):
        decision = judged(case, found)
        if case.mode is Mode.WARN and findings.errors(found):
            return structs.replace(decision, verdict="denied", allowed=False)
        return decision

    plant(admission_outcomes, "judged", denying)


def the_object_is_completed_in_place(plant):
    """An evaluation writes into the object of a job that asks for a claim."""
    find = admission_context.supply_lookup.find

    def writing(request, *rest):
        found = find(request, *rest)
        if found.asked:
            request.document.setdefault("status", {})
        return found

    plant(admission_context.supply_lookup, "find", writing)


def a_shared_runtime_is_completed_in_place(plant):
    """An evaluation writes into the runtime that the cluster has."""
    find = admission_context.governors.find

    def writing(*given):
        found = find(*given)
        if found.runtime is not None and isinstance(found.runtime.document.get("spec"), dict):
            found.runtime.document["spec"].setdefault("planted", {})
        return found

    plant(admission_context.governors, "find", writing)


def changes_are_recorded_as_they_are(plant):
    """Records have the values of jobs."""
    plant(known, "record", lambda record: record)


def a_job_is_logged(plant):
    """The process's log quotes a job that is denied, and its lines have tokens."""
    judged = admission_outcomes.judged

    def telling(case, found):
        decision = judged(case, found)
        if not decision.allowed:
            _log.info("denied", extra={"job": case.request.document})
        return decision

    plant(admission_outcomes, "judged", telling)
    plant(logs, "scanner", types.SimpleNamespace(text=str))


def events_are_told_as_they_are(plant):
    """Events quote values as they are."""
    plant(denials, "_message", lambda record: str(record["findings"]))
    plant(services._Recorder, "take", lambda self, _record: self.shown.append(self.kept[-1]))


def each_error_repeats_all_others(plant):
    """An answer quotes all errors in each."""
    plant(answers, "_MAX_LINE", 2**20)
    plant(answers, "_fitting", lambda found: found)
    line = answers._line
    plant(answers, "_line", lambda finding: line(finding) * 64)


def each_value_is_compared_with_each_other(plant):
    """A check is quadratic in the number of values."""
    check = decisions.decoding.check

    def slow(document, kind):
        every = [key for _, key in mutations.places(document)]
        assert sum(one == other for one in every for other in every) >= 0
        return check(document, kind)

    plant(decisions.decoding, "check", slow)


# The invariant that each breaks, and a piece of what is said about it.
FAULTS = {
    an_answer_lacks_the_uid: (invariants.every_review_gets_an_answer_with_its_uid, "HTTP 200"),
    what_has_many_errors_is_not_answered: (invariants.every_review_gets_an_answer_with_its_uid, "raised LookupError"),
    an_update_of_nodes_raises: (invariants.no_review_ends_in_an_exception, "KeyError"),
    an_error_comes_without_its_rule: (invariants.every_decision_leaves_one_record_of_the_published_shape, "rule"),
    an_update_leaves_no_record: (invariants.every_decision_leaves_one_record_of_the_published_shape, "0 lines"),
    an_entry_is_added_behind_the_end: (invariants.every_patch_applies, "there is no item"),
    an_entry_is_added_each_time: (invariants.a_second_pass_changes_nothing, "/metadata/finalizers"),
    what_was_written_is_refused: (invariants.mutation_never_makes_validation_refuse, "planted"),
    mode_warn_refuses: (invariants.updates_and_gentle_modes_refuse_nothing, "mode warn refused"),
    the_object_is_completed_in_place: (invariants.nothing_that_was_read_is_changed_in_place, "object"),
    a_shared_runtime_is_completed_in_place: (invariants.nothing_that_was_read_is_changed_in_place, "cluster"),
    changes_are_recorded_as_they_are: (invariants.no_planted_secret_is_told, "record."),
    a_job_is_logged: (invariants.no_planted_secret_is_told, "log of"),
    events_are_told_as_they_are: (invariants.no_planted_secret_is_told, "Event of"),
    each_error_repeats_all_others: (
        invariants.answers_and_records_are_not_much_larger_than_what_was_sent,
        "an answer of",
    ),
    each_value_is_compared_with_each_other: (
        invariants.a_decision_takes_no_longer_than_its_size_is_worth,
        "times what is allowed",
    ),
}


def found_at(invariant, said):
    """The number of the first case that breaks an invariant in this way, None for none of the first ones."""
    with services.Service(patience=600.0, forks=False) as service:
        for number in range(_MOST):
            _, _, faults = batches.one(service, "planted faults", number)
            if any(name == invariant.__name__ and said in fault for name, fault in faults):
                return number
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault, monkeypatch):
    fault(monkeypatch.setattr)

    assert found_at(*FAULTS[fault]) is not None


def test_each_invariant_has_a_fault_that_breaks_it():
    assert {invariant for invariant, _ in FAULTS.values()} == set(invariants.INVARIANTS)
