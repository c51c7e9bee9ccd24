"""What holds for every case; each function is one sentence, and yields what contradicts it."""

from __future__ import annotations

import json
import re

import orjson

from muster.audit import record_schema
from tests.fuzz import planting, trials

__all__ = ["COUNTED", "INVARIANTS", "faults", "page_faults"]

_DECIDED = ("CREATE", "UPDATE")


def every_review_gets_an_answer_with_its_uid(story):
    """Every review gets an answer with its uid."""
    for each in story.exchanges:
        if each.raised:
            yield f"{each.phase}: the handler raised {each.raised}"
        elif story.request is not None:
            response = each.response
            if each.status != 200 or response is None or response.get("uid") != story.request["uid"]:
                yield f"{each.phase}: HTTP {each.status} {each.answer[:120]!r}"
        elif each.status not in (200, 400):
            yield f"{each.phase}: HTTP {each.status} for what is not a review"


def no_review_ends_in_an_exception(story):
    """No review ends in an exception of Muster's own."""
    for each in story.exchanges:
        for line in each.logged:
            said = json.loads(line)
            if said["level"] in ("error", "critical"):
                yield f"{each.phase}: log: {said['message']}: {_last(said.get('exception', said.get('error', '')))}"
        message = str(((each.response or {}).get("status") or {}).get("message", ""))
        warned = " ".join(str(line) for line in (each.response or {}).get("warnings") or ())
        for text in (message, warned):
            found = re.search(r"(?:\w+Error|Exception)\b.{0,100}", text)
            if found and ("let this pass without" in text or "Tell your platform team" in text):
                yield f"{each.phase}: {found.group()}"


def _last(trace):
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    places = [line for line in lines if line.startswith('File "') and ("/strategies/" in line or "/webhook/" in line)]
    place = (
        re.sub(r'^File ".*?((?:strategies|webhook)/.*?)", line \d+, in (.*)$', r"\1:\2", places[-1]) if places else ""
    )
    return f"{place} {lines[-1][:160] if lines else ''}"


def every_decision_leaves_one_record_of_the_published_shape(story):
    """Every decision leaves one record of the published shape, and what is not decided leaves none.

    What cannot be read leaves one where Muster finds out who sent it.
    """
    for each in story.exchanges:
        wanted = _records(story, each)
        if len(each.lines) not in wanted or len(each.submitted) != len(each.lines):
            yield f"{each.phase}: {len(each.lines)} lines of {len(each.submitted)} records, not {wanted}"
            continue
        for line in each.lines:
            wrong = record_schema.misfit(orjson.loads(line))
            if wrong:
                yield f"{each.phase}: {wrong}"


def _records(story, exchange):
    """The numbers of records that are right."""
    if exchange.status != 200:
        return (0,)
    code = ((exchange.response or {}).get("status") or {}).get("code")
    if story.request is None or code == 400:
        return (0, 1)
    return (1,) if story.request.get("operation") in _DECIDED else (0,)


def every_patch_applies(story):
    """Every patch applies."""
    if story.broken:
        yield story.broken


def a_second_pass_changes_nothing(story):
    """A second pass over the patched object changes nothing."""
    if story.again is not None and (left := trials.patch_of(story.again)):
        yield f"{left[0]['op']} {left[0]['path'][-80:]} and {len(left) - 1} more"


def mutation_never_makes_validation_refuse(story):
    """What validation lets pass as it came, it lets pass as it was changed."""
    if story.admitted is None or story.validated is None:
        return
    before, after = story.validated.response or {}, story.admitted.response or {}
    if before.get("allowed") and not after.get("allowed"):
        yield str((after.get("status") or {}).get("message"))[:300]


def updates_and_gentle_modes_refuse_nothing(story):
    """A mutation refuses nothing but what cannot be decided at CREATE; other modes than `enforce` change nothing."""
    if story.request is None:
        return
    operation, gentle = story.request.get("operation"), story.case.mode in ("warn", "audit", "off")
    foreign = story.request.get("namespace") != "team-a"
    for each in story.exchanges:
        response = each.response or {}
        status = response.get("status") or {}
        if not response or status.get("code") == 400 or foreign:
            continue
        if gentle and not response.get("allowed"):
            yield f"{each.phase}: mode {story.case.mode} refused: {str(status.get('message'))[:160]}"
        if gentle and operation == "CREATE" and response.get("patch"):
            yield f"{each.phase}: mode {story.case.mode} changed the object"
        if operation == "UPDATE" and each.phase == "mutate" and not response.get("allowed"):
            yield f"an update is refused: {str(status.get('message'))[:160]}"
        if operation == "UPDATE" and story.case.kind == "JobSet" and not response.get("allowed"):
            yield f"{each.phase}: an update of a JobSet is refused: {str(status.get('message'))[:160]}"


def nothing_that_was_read_is_changed_in_place(story):
    """Neither the object, nor the old one, nor a document of the cluster is changed in place."""
    for each in story.exchanges:
        if each.spoilt:
            yield f"{each.phase}: {', '.join(each.spoilt)}"


def no_planted_secret_is_told(story):
    """No planted secret stands in an annotation of an answer, in the logs, or in an Event or a report."""
    for secret, way in story.case.planted.items():
        for each in story.exchanges:
            for place, text in _outputs(each, secret):
                if planting.leaks(secret, text):
                    yield f"{place} of {each.phase}, planted {way}"


def page_faults(planted, page):
    """Yield each secret, as (case, what), that a page of metrics holds; `planted` are cases by secret."""
    for secret, case in planted.items():
        if planting.leaks(secret, page):
            yield case, ("no_planted_secret_is_told", f"metrics, planted {case.planted[secret]}")


def _outputs(exchange, secret):
    """Yield what was told, part by part where the whole holds the secret; what goes to the author of a job may."""
    if planting.leaks(secret, exchange.answer):
        yield from _parts(exchange)
    for line in exchange.lines:
        if planting.leaks(secret, line):
            for member, value in orjson.loads(line).items():
                yield f"record.{member}", orjson.dumps(value)
    for line in exchange.logged:
        yield "log", line.encode()
    for text in exchange.told:
        yield orjson.loads(text).get("kind", "patch of an Event"), text


def _parts(exchange):
    response = exchange.response
    if response is None:
        yield "answer", exchange.answer
        return
    for member, value in response.items():
        if member == "auditAnnotations":
            yield f"answer.{member}", orjson.dumps(value)


def answers_and_records_are_not_much_larger_than_what_was_sent(story):
    """An answer without its patch is at most 64 KiB and the size of the body; a record 256 KiB and four times it."""
    for each in story.exchanges:
        size = len(each.body)
        response = each.response or {}
        said = len(each.answer) - len(response.get("patch", ""))
        if said > 65_536 + size:
            yield f"{each.phase}: an answer of {said} bytes"
        for line in each.lines:
            if len(line) > 262_144 + 4 * size:
                yield f"{each.phase}: a record of {len(line)} bytes"


def a_decision_takes_no_longer_than_its_size_is_worth(story):
    """A decision takes at most 60 ms of processor time, 2 µs for each byte that it reads, and 6 ms for each training.

    A JobSet of 13 kB can have 21 replicated jobs of which each trains by itself; more than 32 are not looked at.
    """
    for each in story.exchanges:
        allowed = 0.06 + 2e-6 * (len(each.body) + story.about) + 6e-3 * min(each.body.count(b'"template"') // 2, 32)
        if each.seconds > allowed:
            yield f"{each.phase}: {each.seconds / allowed:.1f} times what is allowed, {each.seconds:.2f} s"


INVARIANTS = (
    every_review_gets_an_answer_with_its_uid,
    no_review_ends_in_an_exception,
    every_decision_leaves_one_record_of_the_published_shape,
    every_patch_applies,
    a_second_pass_changes_nothing,
    mutation_never_makes_validation_refuse,
    updates_and_gentle_modes_refuse_nothing,
    nothing_that_was_read_is_changed_in_place,
    no_planted_secret_is_told,
    answers_and_records_are_not_much_larger_than_what_was_sent,
    a_decision_takes_no_longer_than_its_size_is_worth,
)


COUNTED = tuple(each for each in INVARIANTS if each is not a_decision_takes_no_longer_than_its_size_is_worth)
"""Those that say the same on every machine, however slow it is."""


def faults(story, invariants=INVARIANTS):
    """All that contradicts, as (invariant, what)."""
    return [(each.__name__, fault) for each in invariants for fault in each(story)]
