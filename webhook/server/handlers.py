"""Handlers: one HTTP request in, one AdmissionReview out, whatever the request is.

A readable AdmissionReview is always answered with one (HTTP 200), so that the user sees a message and not a failed
webhook call, and so is one of which only the uid can be read. Anything else gets a 4xx. Size and time of a request are
limited, and a request counts as under way from when its body has arrived: who sends slowly takes nobody's turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Protocol

from aiohttp import web
from msgspec import structs

from muster.audit import record_schema, scanner
from muster.front.request_bodies import BodyDroppedError, CountedRequest
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.metrics import Metrics
from muster.webhook.server import endings, salvage
from muster.webhook.server.endings import Ending
from muster.webhook.server.resolvers import Asked, Resolver
from muster.webhook.server.turns import BusyError, Place, Places

__all__ = ["ADMISSION_PATHS", "APART", "Admission", "Recorder"]

_log = logging.getLogger(__name__)

ADMISSION_PATHS: dict[str, tuple[reviews.Phase, str]] = {
    "/mutate/trainjobs": ("mutate", "TrainJob"),
    "/mutate/jobsets": ("mutate", "JobSet"),
    "/validate/trainjobs": ("validate", "TrainJob"),
    "/validate/jobsets": ("validate", "JobSet"),
    "/validate/optimizationjobs": ("validate", "OptimizationJob"),
}
APART = 32 * 1024
"""Bytes of a review above which it is evaluated in a process of its own; most real ones have half of that."""
_RESOURCES = {kind: f"{kind.lower()}s" for _, kind in ADMISSION_PATHS.values()}


_BUSY = "there are too many admissions at the same time; try again"
_MOST_TOLD = 1000  # characters of an error


class Recorder(Protocol):
    """Takes audit records; never blocks."""

    def submit(self, record: record_schema.Record) -> bool:
        """Return False when the record cannot be kept and `onFailure: deny` is set."""


class Admission:
    """Answers the admission paths.

    Args:
        policy: returns the policy in force now.
        resolver: makes decisions.
        recorder: takes audit records.
        metrics: counts.
        limits: (admissions at the same time, and a quarter as many large ones beside them; seconds for one request).
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        resolver: Resolver,
        recorder: Recorder,
        metrics: Metrics,
        limits: tuple[int, float],
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._recorder = recorder
        self._metrics = metrics
        most, self._timeout = limits
        self._small, self._large = Places(most), Places(max(1, most // 4))
        metrics.in_flight(lambda: self._small.taken + self._large.taken)

    async def handle(self, request: web.BaseRequest, phase: reviews.Phase, kind: str) -> web.Response:
        """Answer one admission request within its limits."""
        if request.method != "POST":
            return self._refused("method", 405, "only POST is served here", {"Allow": "POST"})
        if not _is_json(request.headers.get("Content-Type", "")):
            return self._refused("content-type", 415, "Content-Type must be application/json")
        deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(deadline):
                body = await request.read()
        except (TimeoutError, BodyDroppedError, web.HTTPRequestEntityTooLarge, web.RequestPayloadError, OSError) as why:
            return self._unread(why)
        counted = request if isinstance(request, CountedRequest) else None
        return await self.admit(body, phase, kind, deadline, counted)

    async def admit(
        self,
        body: bytes,
        phase: reviews.Phase,
        kind: str,
        deadline: float | None = None,
        request: CountedRequest | None = None,
    ) -> web.Response:
        """Answer a review that has arrived.

        Args:
            body: the whole body.
            phase: from the path.
            kind: from the path.
            deadline: time of the running loop after which the answer is that of the failure mode; None for none.
            request: is told whose its body is, so that it gives way where its author has most bytes.
        """
        started, large = time.perf_counter(), len(body) > APART
        try:
            review = _parse(body, phase)
        except reviews.ReviewError as error:
            return self._unreadable(error, salvage.find(body, phase), started)
        if review.kind != kind:
            message = f"request.kind.kind: {review.kind} is not served on this path, which is for {kind}"
            return self._unreadable(reviews.ReviewError(message, review.uid), review, started)
        author = review.namespace, review.username
        asked = Asked(review, self._policy(), started, author)
        try:
            with Place(self._large if large else self._small, author) as place:
                if request is not None:
                    request.claim_body(author, place.give_up)
                ending = await self._resolver.resolve(asked, deadline, large=large)
        except BusyError:
            return self._refused("busy", 429, _BUSY, {"Retry-After": "1"})
        return _reviewed(self._take(review, ending))

    def _take(self, review: reviews.Request, ending: Ending) -> bytes:
        """Record and count; return the body of the answer."""
        record, body = ending.record, ending.body.encode()
        if record is None:
            return body
        kept = self._submit(record)
        try:
            self._count(review, ending, record["latencyMicroseconds"] / 1e6)
        except Exception:  # noqa: BLE001  # the answer does not depend on it
            _log.exception("a decision was not counted", extra={"uid": review.uid})
        if not kept and review.operation == "CREATE":
            message = "the audit log cannot record this decision now, and the platform requires that it does; try again"
            return reviews.dumps(reviews.deny(review.uid, message, code=503, reason="ServiceUnavailable"))
        return body

    def _submit(self, record: record_schema.Record) -> bool:
        try:
            return self._recorder.submit(record)
        except Exception:  # noqa: BLE001  # as a record that is lost
            _log.exception("a record was not taken", extra={"uid": record.get("uid")})
            return False

    def _count(self, review: reviews.Request, ending: Ending, seconds: float) -> None:
        labels = (_RESOURCES[review.kind], review.operation, review.phase, ending.verdict, ending.mode)
        self._metrics.observe(labels, seconds)
        if ending.verdict == "error":
            self._metrics.plugin_failed(ending.framework)

    def _unreadable(self, error: reviews.ReviewError, request: reviews.Request, started: float) -> web.Response:
        """Refuse what is not a review of ours: by a review, if its uid is known, and with a record of who sent it.

        One whose object alone cannot be read is let in where the failure mode lets in.
        """
        self._metrics.refused("unreadable")
        said, policy = scanner.text(error, _MOST_TOLD), self._policy()
        uid = error.uid or request.uid
        if not uid:
            return web.Response(status=400, text=f"{said}\n")
        request = structs.replace(request, uid=uid)
        ending = endings.refuse(request, said, started)
        if not error.uid and request.operation in ("CREATE", "UPDATE"):
            decision = decisions.failed(request, policy, said, self._resolver.known(request))
            if decision.allowed:
                ending = endings.end_surely(decision, policy, started)
        if ending.record is not None:
            self._submit(ending.record)
        return _reviewed(ending.body.encode())

    def _unread(self, why: Exception) -> web.Response:
        """Refuse a request whose body is not read to its end, and with it the connection."""
        if isinstance(why, TimeoutError):
            response = self._refused("timeout", 408, f"the body did not arrive within {self._timeout:g} s")
        elif isinstance(why, BodyDroppedError):
            response = self._refused("busy", 429, "there are too many bodies at the same time; try again")
        elif isinstance(why, web.HTTPRequestEntityTooLarge):
            response = self._refused("too-large", 413, why.text or "the body is too large")
        else:
            response = self._refused("unreadable", 400, "the connection ended before the body")
        response.force_close()
        return response

    def _refused(self, reason: str, status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
        self._metrics.refused(reason)
        return web.Response(status=status, text=f"{text}\n", headers=headers)


def _is_json(content_type: str) -> bool:
    """Whether a body is JSON; parameters are left alone, since the standard library takes quadratic time for them."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def _parse(body: bytes, phase: reviews.Phase) -> reviews.Request:
    if salvage.is_dense(body):
        raise reviews.ReviewError(f"the body holds more than {salvage.MOST_VALUES:,} values; make the object smaller")
    try:
        return reviews.parse(body, phase)
    except reviews.ReviewError:
        raise
    except Exception as error:
        _log.exception("a review could not be read")
        raise reviews.ReviewError(f"the body cannot be read: {type(error).__name__}") from error


def _reviewed(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
