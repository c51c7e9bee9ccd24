"""Runs a case as the API server would: mutation, the patch, the mutation again, and the validation of both objects."""

from __future__ import annotations

import base64
import copy
from dataclasses import dataclass, field

import orjson

from tests.fuzz import cases, patches, services

__all__ = ["Story", "run"]


@dataclass
class Story:
    """All that happened to one case.

    Attributes:
        case: the case.
        request: what was read out of the body, None where that is not a review.
        about: bytes of the documents of the cluster.
        mutated: the first exchange.
        again: the same with the patched object; None where nothing was patched.
        validated: the validation of the object as it came.
        admitted: the validation of the patched object; None where nothing was patched.
        broken: why the patch does not apply.
        stored: the object after the patch.
    """

    case: cases.Case
    request: dict | None
    about: int
    mutated: services.Exchange
    again: services.Exchange | None = None
    validated: services.Exchange | None = None
    admitted: services.Exchange | None = None
    broken: str = ""
    stored: dict = field(default_factory=dict)

    @property
    def exchanges(self):
        """All exchanges, in order."""
        every = (self.mutated, self.again, self.validated, self.admitted)
        return [each for each in every if each is not None]


def run(service, case, **how):
    """Run a case; return its story.

    Args:
        service: the service.
        case: the case.
        how: `told` and `forks` of `Service.ask`.
    """
    body = cases.body_of(case.review)
    request = _request(body)
    namespace = request.get("namespace") if request else ""
    namespace = namespace if isinstance(namespace, str) else ""
    cluster = [cases.body_of(each) for each in case.cluster]
    policy, reader = cases.policy_of(case.policy), services.reader_of(_readable(cluster), namespace)

    def ask(phase, body):
        return service.ask(phase, case.kind, body, reader, policy, **how)

    story = Story(case, request, sum(map(len, cluster)), ask("mutate", body))
    if request is None:
        return story
    story.validated = ask("validate", body)
    story.stored = request.get("object")
    operations = patch_of(story.mutated)
    if not operations:
        return story
    try:
        story.stored = patches.applied(story.stored, operations)
    except patches.PatchError as error:
        story.broken = str(error)
        return story
    review = orjson.loads(body)
    review["request"] = {**copy.copy(request), "object": story.stored}
    patched = orjson.dumps(review)
    story.again, story.admitted = ask("mutate", patched), ask("validate", patched)
    return story


def patch_of(exchange):
    """The operations of an answer's patch."""
    response = exchange.response or {}
    if "patch" not in response:
        return []
    return orjson.loads(base64.b64decode(response["patch"]))


def _request(body):
    """The request of a body that is a review, by a reader that is not Muster's."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        return None
    request = review.get("request")
    return request if isinstance(request, dict) and isinstance(request.get("uid"), str) and request["uid"] else None


def _readable(bodies):
    """The documents as the API server's JSON would bring them; those that no JSON can hold are left out."""
    for each in bodies:
        try:
            found = orjson.loads(each)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield found
