"""Engines as pods: made, found again after a restart of the Gateway, replaced, and removed.

Nothing of what is done is remembered: each look compares what the API server says with what is wanted, and does the
next step. A Gateway that dies between two steps is followed by one that looks in the same way. Which of two Gateways
has the pods is decided by an annotation of their JobSet, which each increases by compare-and-swap when it begins; the
engines refuse requests of all but the latest.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.kube.authentication import Credentials
from muster.sessions.metrics import Metrics
from muster.sessions.platforms import manifests
from muster.sessions.platforms.api import Api, ApiError, UnreachableError
from muster.sessions.platforms.manifests import Settings
from muster.sessions.platforms.pods import Engines, seen
from muster.sessions.platforms.queues import Queues, claim_of, is_gated
from muster.sessions.platforms.spills import Profiles

__all__ = ["Pods"]

_LOG = logging.getLogger(__name__)
_LOOK = 10  # seconds between looks where nothing changes
_LEAST = 0.2  # seconds between two of them
_PAUSE = 2.0  # seconds after a look that failed
_LAST = 20.0  # seconds in which the pods can be removed at the end
_ANNOTATION = "/metadata/annotations/" + manifests.TERM.replace("/", "~1")


class Pods:
    """Both engines of a Gateway, as one JobSet.

    Args:
        settings: of the pods.
        arguments: of the engines by role.
        access: to the API server.
        metrics: of the Gateway.
    """

    def __init__(
        self, settings: Settings, arguments: Mapping[str, Sequence[str]], access: Credentials, metrics: Metrics
    ) -> None:
        self._settings, self._arguments, self._access = settings, arguments, access
        self.trainer, self.sampler = Engines("trainer", metrics), Engines("sampler", metrics)
        self._name, self._selector = manifests.name_of(settings), manifests.selector(settings)
        self._profiles = Profiles(settings, arguments)
        self._api: Api | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_told = False
        self._forget()

    async def start(self) -> None:
        """Have the pods come, or take those that are there."""
        await asyncio.to_thread(self._make_folders)
        self._forget()
        self._api = Api(self._access, self._settings.namespace)
        self._task = asyncio.create_task(self._keep(self._api))

    async def close(self) -> None:
        """Remove the pods, unless another Gateway has them."""
        api, self._api = self._api, None
        if self._task is None or api is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._lose("the Gateway ends")
        try:
            async with asyncio.timeout(_LAST):
                await self._remove(api)
        except (ApiError, UnreachableError, TimeoutError) as error:
            told = "delete it, or wait until its pods end by themselves"
            _LOG.warning("JobSet %s could not be deleted: %s; %s", self._name, error, told)
        await api.close()

    def _make_folders(self) -> None:
        for folder in manifests.FOLDERS:  # a kubelet would make them for root
            (self._settings.root / folder).mkdir(parents=True, exist_ok=True)

    def _forget(self) -> None:
        self._uid, self._term, self._token = "", 0, ""

    async def _remove(self, api: Api) -> None:
        while self._term and (found := await api.get("JobSet", self._name)) is not None:
            if not self._has(found) or found["metadata"].get("deletionTimestamp"):
                return
            with suppress(ApiError):  # it has changed since it was read
                await api.delete("JobSet", found)

    async def _keep(self, api: Api) -> None:
        while True:
            try:
                version = await self._look(api)
                await asyncio.sleep(_LEAST)
                if version is not None:
                    await api.changed(self._selector, version, _LOOK)
            except UnreachableError as error:
                _LOG.warning("engines: %s; it is tried again", error)
                await asyncio.sleep(_PAUSE)
            except ApiError as error:
                self._denied(error)
                await asyncio.sleep(_PAUSE)
            except Exception:  # noqa: BLE001  # whoever stops to look has no engines ever again
                _LOG.exception("engines: a look failed; it is tried again")
                await asyncio.sleep(_PAUSE)

    def _denied(self, error: ApiError) -> None:
        """Tell whoever waits what was refused, and have a Gateway that never had engines end."""
        if error.status in {409, 410}:
            return  # something has changed since it was read
        _LOG.warning("engines: the API server refuses: %s", error)
        for engine in (self.trainer, self.sampler):
            if not engine.is_up:
                engine.refuse(f"the {engine.name} cannot be made a pod: {error}")

    async def _look(self, api: Api) -> str | None:
        """Do what is next, and return the version of the pods when nothing is; None is to look again."""
        found = await api.get("JobSet", self._name)
        if found is None:
            await self._lose("the engines are starting")
            self._forget()
            chosen = await self._profiles.chosen(api)
            await api.create(manifests.job_set(chosen, self._arguments, await self._rights(api)))
            return None
        if not manifests.is_ours(self._settings, found):
            raise ApiError(
                403, f"a JobSet {self._name} exists that no Gateway of this name made; pass another --gateway"
            )
        if found["metadata"].get("deletionTimestamp"):
            await self._lose("the engines are starting: those before are ending")
            await asyncio.sleep(_PAUSE)
            return None
        if self._uid and not self._has(found):
            return await self._followed(found)
        if self._is_over(found):
            _LOG.warning("JobSet %s is over, or of other settings, and is made anew", self._name)
            await api.delete("JobSet", found)
            return None
        if not self._uid and not await self._take(api, found):
            return None
        if found["spec"].get("suspend"):
            test = {"op": "test", "path": "/metadata/uid", "value": self._uid}
            await api.patch("JobSet", self._name, [test, {"op": "replace", "path": "/spec/suspend", "value": False}])
        return await self._seen(api, found)

    async def _rights(self, api: Api) -> Mapping[str, Any] | None:
        """Return the RoleBinding of this Gateway; None where it is called otherwise, or may not be read."""
        try:
            return await api.get("RoleBinding", self._name)
        except ApiError as error:
            told = "when the rights of this Gateway are removed before it, its engines stay for ten minutes"
            _LOG.warning("RoleBinding %s cannot be read: %s; %s", self._name, error, told)
            return None

    def _has(self, found: Mapping[str, Any]) -> bool:
        """Whether this is the JobSet that this Gateway has taken, and still has."""
        return found["metadata"]["uid"] == self._uid and _term(found) == self._term

    def _is_over(self, found: Mapping[str, Any]) -> bool:
        if self._profiles.of(found) is None:
            return True
        status = found.get("status") or {}
        ended = any(each["type"] in {"Completed", "Failed"} for each in _true(status.get("conditions") or ()))
        jobs = status.get("replicatedJobsStatus") or ()
        return ended or any(each.get("succeeded") or each.get("failed") for each in jobs)

    async def _followed(self, found: Mapping[str, Any]) -> str | None:
        """Let go of pods that another Gateway has, and take a JobSet that was made anew."""
        await self._lose("another Gateway has the engines")
        if found["metadata"]["uid"] != self._uid:
            self._forget()
        else:
            _LOG.warning("a Gateway of term %s has JobSet %s now", _term(found), self._name)
            await asyncio.sleep(_LOOK)
        return None

    async def _take(self, api: Api, found: Mapping[str, Any]) -> bool:
        """Become the Gateway that has the pods, with what protects them in place; False is to look again."""
        uid, before = str(found["metadata"]["uid"]), _term(found)
        if not (token := await self._tokened(api, found)):
            return False
        await api.apply(manifests.service_account(self._settings, uid))
        await api.apply(manifests.policy(self._settings, uid))
        tests = [{"op": "test", "path": "/metadata/uid", "value": uid}]
        tests.append({"op": "test", "path": _ANNOTATION, "value": str(before)})
        try:
            await api.patch(
                "JobSet", self._name, [*tests, {"op": "replace", "path": _ANNOTATION, "value": str(before + 1)}]
            )
        except ApiError as error:
            if error.status in {404, 409, 422}:
                return False
            raise
        self._uid, self._term, self._token = uid, before + 1, token
        _LOG.info("this Gateway has JobSet %s now, term %s", self._name, self._term)
        return True

    async def _tokened(self, api: Api, found: Mapping[str, Any]) -> str:
        """Return the token of the pods, made when there are none; empty when another Gateway was faster."""
        uid, kept = str(found["metadata"]["uid"]), await api.get("Secret", self._name)
        if kept is None and found["spec"].get("suspend"):
            token = secrets.token_urlsafe(32)
            await api.create(manifests.secret(self._settings, uid, token))
            return token
        if kept is not None and not manifests.is_ours(self._settings, kept):
            raise ApiError(
                403, f"a Secret {self._name} exists that no Gateway of this name made; pass another --gateway"
            )
        owners = {each["uid"] for each in (kept or {"metadata": {}})["metadata"].get("ownerReferences") or ()}
        if kept is None or uid not in owners:
            # Pods that run have a token that nobody knows any more; one of an earlier JobSet goes with that.
            if not found["spec"].get("suspend"):
                await api.delete("JobSet", dict(found))
            await asyncio.sleep(_PAUSE)
            return ""
        return b64decode(kept["data"][manifests.TOKEN]).decode("ascii")

    async def _seen(self, api: Api, found: Mapping[str, Any]) -> str | None:
        listed = await api.pods(self._selector)
        if await self._profiles.leave(api, found, listed["items"]):
            _LOG.info("JobSet %s waits for seats that a profile has elsewhere, and is made anew", self._name)
            await api.delete("JobSet", dict(found))
            return None
        queues = await self._queues(api, listed["items"], self._profiles.of(found))
        for engine in (self.trainer, self.sampler):
            await engine.found(seen(engine.name, listed["items"], queues), self._token, self._term)
        return str(listed["metadata"]["resourceVersion"])

    async def _queues(self, api: Api, pods: Sequence[Mapping[str, Any]], made: Settings | None) -> Queues:
        """Return what is known of the claim of pods that may wait for it; nothing where it may not be read."""
        gated, name = [pod for pod in pods if is_gated(pod)], claim_of(pods)
        full = self._profiles.full
        if name is None or made is None or not (gated or self._settings.lease):
            return Queues(full=full)
        try:
            claim = await api.get("ResourceClaim", name)
            others = await api.pods(f"{manifests.PROFILE}={made.profile}") if gated else {"items": ()}
        except ApiError as error:
            if not self._is_told:
                _LOG.warning("who waits is not told for whom: the API server refuses: %s", error)
            self._is_told = True
            return Queues(full=full)
        return Queues(claim, others["items"], frozenset(str(pod["metadata"]["name"]) for pod in pods), full)

    async def _lose(self, reason: str) -> None:
        for engine in (self.trainer, self.sampler):
            await engine.lose(reason)


def _term(found: Mapping[str, Any]) -> int:
    text = str((found["metadata"].get("annotations") or {}).get(manifests.TERM, ""))
    return int(text) if text.isascii() and text.isdigit() else 0


def _true(conditions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [each for each in conditions if each.get("status") == "True"]
