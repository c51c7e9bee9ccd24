"""Which claim profile the engines of a Gateway ask for, where its operator allows several: the first that has seats.

Muster's word decides. A JobSet that is created with `dryRun=All` is admitted as any other and not stored, and the
answer says whether its pods would wait (rule `claims/full`). So no seat is counted here, and a Muster that says nothing
leaves all in the first profile. Where one profile is allowed, nothing is asked.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from muster.sessions.platforms import manifests
from muster.sessions.platforms.api import Api, ApiError
from muster.sessions.platforms.manifests import Settings
from muster.sessions.platforms.queues import claim_of, have_seats, is_gated

__all__ = ["Profiles", "is_full", "unstored"]

_LOG = logging.getLogger(__name__)
_FULL = re.compile(r"(?:the pods wait for|the job needs) [0-9]+ free seats?\b")
_SEATED = "/metadata/annotations/" + manifests.SEATED.replace("/", "~1")

Document = Mapping[str, Any]


def is_full(told: str) -> bool:
    """Whether a warning or a refusal of Muster says that the claims of a profile have too few free seats."""
    return _FULL.search(told) is not None


def unstored(settings: Settings, document: Document) -> dict[str, Any]:
    """Return a JobSet as it is asked about: by a name that no object has, and without what the API server adds."""
    kept = {key: document[key] for key in ("apiVersion", "kind", "spec")}
    metadata = {key: document["metadata"][key] for key in ("namespace", "labels", "annotations")}
    return {**kept, "metadata": {**metadata, "name": f"probe-{settings.gateway}"}}


@dataclass(frozen=True, slots=True)
class _Answer:
    """What Muster says of a JobSet.

    Attributes:
        waits: whether its pods would wait for seats.
        refusal: why it would be refused; empty where it would not.
    """

    waits: bool
    refusal: str = ""

    @property
    def has_seats(self) -> bool:
        return not (self.waits or self.refusal)

    @property
    def is_full(self) -> bool:
        return self.waits or is_full(self.refusal)


class Profiles:
    """The profiles of a Gateway, in the order in which they are tried.

    Args:
        settings: of its pods.
        arguments: of its engines by role.

    Attributes:
        full: those of which Muster has just said that they have too few free seats, while the engines wait for some.
    """

    def __init__(self, settings: Settings, arguments: Mapping[str, Sequence[str]]) -> None:
        self._settings, self._arguments = settings, arguments
        every = [dataclasses.replace(settings, profile=each, spill=()) for each in settings.profiles] or [settings]
        self._made = {manifests.digest(each, arguments): each for each in every}
        self._told: set[str] = set()
        self.full: tuple[str, ...] = ()

    def of(self, found: Document) -> Settings | None:
        """Return the settings, of one profile, that a JobSet was made of; None for others."""
        return self._made.get(_annotations(found).get(manifests.DIGEST, ""))

    async def chosen(self, api: Api) -> Settings:
        """Return the settings for a new JobSet: of the first profile with seats, else of the first that lets wait.

        Raises:
            UnreachableError: the API server does not answer.
        """
        every = list(self._made.values())
        if len(every) == 1:
            return every[0]
        answers = await self._answers(api)
        best = (each for each, answer in answers if answer.has_seats)
        waiting = (each for each, answer in answers if answer.waits)
        return next(best, next(waiting, every[0]))

    async def leave(self, api: Api, found: Document, pods: Sequence[Document]) -> bool:
        """Whether engines that wait on a full claim would have seats at once if they were made anew.

        Those that have had a seat stay with their profile, which is noted on their JobSet.

        Args:
            api: of the namespace.
            found: their JobSet.
            pods: their pods.

        Raises:
            UnreachableError: the API server does not answer.
        """
        self.full = ()
        if len(self._made) == 1 or manifests.SEATED in _annotations(found):
            return False
        if not pods or not all(map(is_gated, pods)):
            await self._stay(api, found, pods)
            return False
        if not (await self._asked(api, found)).is_full:  # its own claim has seats, and the controllers give them
            return False
        answers = await self._answers(api)
        if answers[-1][1].has_seats:
            return not await _are_seated(api, pods)
        self.full = tuple(str(each.profile) for each, answer in answers if answer.is_full)
        return False

    async def _stay(self, api: Api, found: Document, pods: Sequence[Document]) -> None:
        if any(not is_gated(pod) and not pod["metadata"].get("deletionTimestamp") for pod in pods):
            note = {"op": "add", "path": _SEATED, "value": "true"}
            test = {"op": "test", "path": "/metadata/uid", "value": found["metadata"]["uid"]}
            with suppress(ApiError):  # it is another now, or the next look tries again
                await api.patch("JobSet", found["metadata"]["name"], [test, note])

    async def _answers(self, api: Api) -> list[tuple[Settings, _Answer]]:
        """Return what Muster says of each profile, up to the first that has seats."""
        answers: list[tuple[Settings, _Answer]] = []
        for each in self._made.values():
            answer = await self._asked(api, manifests.job_set(each, self._arguments))
            if answer.refusal and not answer.is_full and answer.refusal not in self._told:
                self._told.add(answer.refusal)
                _LOG.warning("profile %s is passed over: %s", each.profile, answer.refusal)
            answers.append((each, answer))
            if answer.has_seats:
                break
        return answers

    async def _asked(self, api: Api, document: Document) -> _Answer:
        try:
            told = await api.tried(unstored(self._settings, document))
        except ApiError as error:
            return _Answer(waits=False, refusal=str(error) or f"HTTP {error.status}")
        return _Answer(waits=any(map(is_full, told)))


async def _are_seated(api: Api, pods: Sequence[Document]) -> bool:
    """Whether they have got seats since they were listed, which may be what their claim is full of.

    They count as seated where the claim may not be read.
    """
    try:
        claim = await api.get("ResourceClaim", claim_of(pods) or "")
    except ApiError:
        return True
    return claim is not None and have_seats(claim, pods)


def _annotations(found: Document) -> Mapping[str, str]:
    return found["metadata"].get("annotations") or {}
