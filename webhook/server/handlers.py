"""Handlers: one HTTP request in, one AdmissionReview out, whatever the request is.

A readable AdmissionReview is always answered with one (HTTP 200), so that the user sees a message and not a failed
webhook call. Anything else gets a 4xx. Size and time of a request are limited.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import time
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from webhook.admission import accounts, answers, decisions, reviews
from webhook.admission.policies import Policy
from webhook.audit import records
from webhook.metrics import Metrics
from webhook.server.resolvers import Resolver

__all__ = ["ADMISSION_PATHS", "Admission", "Recorder"]

_log = logging.getLogger(__name__)

ADMISSION_PATHS: dict[str, tuple[reviews.Phase, str]] = {
    "/mutate/trainjobs": ("mutate", "TrainJob"),
    "/mutate/jobsets": ("mutate", "JobSet"),
    "/validate/trainjobs": ("validate", "TrainJob"),
    "/validate/jobsets": ("validate", "JobSet"),
}
_RESOURCES = {"TrainJob": "trainjobs", "JobSet": "jobsets"}


class Recorder(Protocol):
    """Takes audit records; never blocks."""

    def submit(self, record: records.Record) -> bool:
        """Return False when the record cannot be kept and `onFailure: deny` is set."""


class Admission:
    """Answers the four admission paths.

    Args:
        policy: returns the policy in force now.
        resolver: makes decisions.
        recorder: takes audit records.
        metrics: counts.
        limits: (admissions at the same time, seconds for one request).
    """

    def __init__(
        self,
        policy: Callable[[], Policy],
        resolver: Resolver,
        recorder: Recorder,
        metrics: Metrics,
        limits: tuple[int, float] = (200, 4.0),
    ) -> None:
        self._policy = policy
        self._resolver = resolver
        self._recorder = recorder
        self._metrics = metrics
        self._in_flight_limit, self._timeout = limits
        self._in_flight = 0

    async def handle(self, request: web.BaseRequest, phase: reviews.Phase, kind: str) -> web.Response:
        """Answer one admission request within its limits."""
        if request.method != "POST":
            return self._refused("method", 405, "only POST is served here", {"Allow": "POST"})
        if request.content_type != "application/json":
            return self._refused("content-type", 415, "Content-Type must be application/json")
        if self._in_flight >= self._in_flight_limit:
            return self._refused(
                "busy", 429, "there are too many admissions at the same time; try again", {"Retry-After": "1"}
            )
        self._in_flight += 1
        self._metrics.in_flight(self._in_flight)
        try:
            async with asyncio.timeout(self._timeout):
                return await self._admit(request, phase, kind)
        except TimeoutError:
            return self._refused("timeout", 408, f"there was no answer within {self._timeout:g} s")
        except web.HTTPRequestEntityTooLarge as error:
            return self._refused("too-large", 413, error.text or "the body is too large")
        finally:
            self._in_flight -= 1
            self._metrics.in_flight(self._in_flight)

    async def _admit(self, request: web.BaseRequest, phase: reviews.Phase, kind: str) -> web.Response:
        body = await request.read()
        started = time.perf_counter()
        try:
            review = reviews.parse(body, phase)
        except reviews.ReviewError as error:
            return self._unreadable(error)
        if review.kind != kind:
            message = f"request.kind.kind: {review.kind} is not served on this path, which is for {kind}"
            return self._unreadable(reviews.ReviewError(message, review.uid))
        decision = await self._decide(review)
        return _reviewed(self._finish(decision, started))

    async def _decide(self, review: reviews.Request) -> decisions.Decision:
        policy = self._policy()
        try:
            decision = await self._resolver.decide(review, policy)
        except Exception as error:  # noqa: BLE001  # a bug in Muster must end in the failure mode, not in a dropped connection
            _log.exception("an admission failed", extra={"uid": review.uid, "kind": review.kind})
            cause = f"Muster failed with {type(error).__name__}; its log has uid {review.uid}"
            decision = decisions.failed(review, policy, cause)
        if decision.verdict == "error":
            name = decision.strategy.strategy.framework if decision.strategy else "none"
            self._metrics.plugin_failed(name)
        return decision

    def _finish(self, decision: decisions.Decision, started: float) -> reviews.Response:
        response = answers.answer(decision)
        seconds = time.perf_counter() - started
        review = decision.request
        if review.operation not in ("CREATE", "UPDATE"):
            return response  # the webhook configuration matches more than it should: nothing was decided
        kept = self._recorder.submit(accounts.record(decision, datetime.datetime.now(datetime.UTC), seconds))
        labels = (_RESOURCES[review.kind], review.operation, review.phase, decision.verdict, decision.mode.value)
        self._metrics.observe(labels, seconds)
        if not kept and review.operation == "CREATE":
            message = "the audit log cannot record this decision now, and the platform requires that it does; try again"
            return reviews.deny(review.uid, message, code=503, reason="ServiceUnavailable")
        return response

    def _unreadable(self, error: reviews.ReviewError) -> web.Response:
        self._metrics.refused("unreadable")
        if not error.uid:
            return web.Response(status=400, text=f"{error}\n")
        return _reviewed(reviews.deny(error.uid, str(error), code=400, reason="BadRequest"))

    def _refused(self, reason: str, status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
        self._metrics.refused(reason)
        return web.Response(status=status, text=f"{text}\n", headers=headers)


def _reviewed(response: reviews.Response) -> web.Response:
    return web.Response(body=reviews.dumps(response), content_type="application/json")
