"""What holds for every attack, and for the program after all of them; each yields what contradicts it."""

from __future__ import annotations

import json
import re
from collections import Counter

from tests.fuzz import planting

__all__ = ["after", "of_one"]

_MOST = 1000
"""Bytes of a refusal, which is a sentence."""
_SERVED = (200, 503)
_REFUSALS = (*range(400, 500), 501, 505)


def of_one(one, outcome, *, pages=False):
    """Yield what is wrong about the answers to one attack."""
    if outcome.stalled:
        yield "neither an answer nor an end came within a minute"
    whole = [each for each in outcome.answers if not 0 < each.status < 200]
    if one.ends == "reads" and not whole and not (outcome.ended or outcome.refused):
        yield "nothing came back, and the connection stayed open"
    if len(whole) > max(1, one.requests):
        yield f"{len(whole)} answers to {one.requests} requests"
    if one.tls == "" and b"HTTP/" in outcome.raw and not pages:
        yield f"an answer without TLS: {outcome.raw[:40]!r}"
    if one.further.get("smuggled") and any(each.status == 404 for each in whole):
        yield "a request within the body of another one was answered"
    if one.secret and planting.leaks(one.secret, outcome.raw) and not (pages and one.further.get("echoes")):
        yield "the answer repeats a secret"
    for each in whole:
        yield from (_page if pages else _answer)(each)
    yield from _reviewed(one, whole)


def _answer(answer):
    if re.search(rb"python|aiohttp", answer.head, re.IGNORECASE):
        yield f"an answer tells what it was made with: {answer.head[:300]!r}"
    if answer.status in _SERVED:
        return
    if answer.status not in _REFUSALS:
        yield f"HTTP {answer.status}: {(answer.body or answer.head)[:80]!r}"
    elif answer.body and (len(answer.body) > _MOST or answer.body.count(b"\n") != 1 or not answer.body.endswith(b"\n")):
        yield f"HTTP {answer.status} is not told in one sentence: {answer.body[:120]!r}"


def _page(answer):
    said = answer.head.lower()
    if answer.status not in (*_SERVED, *_REFUSALS):
        yield f"HTTP {answer.status}: {answer.body[:80]!r}"
    if b"content-security-policy" not in said and b"content-type: text/plain" not in said:
        yield f"HTTP {answer.status} without the headers of a page: {answer.body[:80]!r}"
    if re.search(rb"python|aiohttp", answer.head, re.IGNORECASE):
        yield f"an answer tells what it was made with: {answer.head[:300]!r}"
    if b"Traceback" in answer.body:
        yield "an answer has a traceback"


def _reviewed(one, whole):
    """A review whose uid can be read is answered with it, in its turn."""
    if not one.reviews or one.ends != "reads":
        return
    told = []
    for each in whole:
        if each.status == 200 and b"application/json" in each.head:
            response = json.loads(each.body)["response"]
            told.append(response["uid"])
            said = json.dumps({key: value for key, value in response.items() if key not in ("patch", "uid")})
            if len(said) > 65_536:
                yield f"an answer of {len(said)} bytes"
        else:
            told.append(f"HTTP {each.status}")
    if tuple(told) != one.reviews:
        yield f"answered were {told}, asked {list(one.reviews)}"


def after(attacks, target, lines, *, pages=False):
    """Yield what is wrong about what the program left behind.

    Args:
        attacks: all of them.
        target: the program.
        lines: of its audit log, as far as they came of the attacks.
        pages: whether it serves pages.
    """
    secrets = {one.secret: one for one in attacks if one.secret}
    for name, written in (("its log", target.logged()), ("the audit log", lines)):
        yield from _leaks(secrets, name, written)
    for line in target.logged():
        told = (
            json.loads(line)
            if line.startswith(b"{")
            else {"level": "error", "message": line.decode("utf-8", "replace")}
        )
        if told["level"] in ("error", "critical", "warning"):
            yield f"its log: {told['message']}: {str(told.get('exception', told.get('error', '')))[-600:]}"
    if not pages:
        yield from _unrecorded(attacks, lines)


def _leaks(secrets, name, written):
    for line in written:
        for secret, one in secrets.items() if b"hf_" in line else ():
            if planting.leaks(secret, line):
                yield f"{name} has the secret of {one.name!r}: {line[:200]!r}"


def _unrecorded(attacks, lines):
    known = Counter(json.loads(line)["uid"] for line in lines)
    for one in attacks:
        for uid in one.recorded if one.ends == "reads" else ():
            if known[uid] != 1:
                yield f"{known[uid]} records of {one.name!r}"
