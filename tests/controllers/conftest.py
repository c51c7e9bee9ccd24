"""A cluster in memory and the controllers at work in it."""

from __future__ import annotations

import asyncio
import collections
import random

import orjson
import pytest

from muster.strategies.platform.seats import format_seats
from muster.webhook.cluster import reflector
from muster.webhook.controllers import controller_service
from tests.controllers.apiservers import ApiServer
from tests.controllers.documents import DEDICATED, SHARED, namespace
from tests.support import waits


class Cluster:
    """An API server, and controllers that a test starts and stops."""

    def __init__(self):
        self.server = ApiServer()
        self.profiles = {"sampler": SHARED, "trainer": DEDICATED}
        self.controllers = []
        self.server.put(namespace())
        self.server.put(namespace("muster-system"))

    def start(self, *, terms=None, grace=0.2, ended_pods=None, resync=0.3, namespaces=()):
        connection = self.server.connection()
        pace = reflector.Pace(rng=random.Random(1))  # noqa: S311 - the same in every run
        options = controller_service.ControllerOptions(
            terms, grace=grace, resync=resync, look=0.02, ended_pods=ended_pods, pace=pace, namespaces=namespaces
        )
        made = controller_service.Controllers(connection, lambda: self.profiles, options)
        made.connection = connection
        made.start()
        self.controllers.append(made)
        return made

    async def stop(self):
        await asyncio.gather(*(each.stop() for each in self.controllers))

    def seats(self, claim, space="team-a"):
        """Names of the pods that have one; None when there is no such claim."""
        document = self.server.get("ResourceClaim", claim, space)
        if document is None:
            return None
        held = orjson.loads(document["metadata"]["annotations"]["muster.dev/seats"])
        return sorted(seat["pod"] for seat in held.values())

    def take(self, claim, held, space="team-a"):
        """Write seats as another controller would."""
        document = self.server.get("ResourceClaim", claim, space)
        annotations = {**document["metadata"]["annotations"], "muster.dev/seats": format_seats(held)}
        self.server.put({**document, "metadata": {**document["metadata"], "annotations": annotations}})

    def open(self, space="team-a"):
        """Names of live pods without a gate."""
        pods = [each for each in self.server.all("Pod") if each["metadata"]["namespace"] == space]
        live = [each for each in pods if each["status"]["phase"] not in {"Succeeded", "Failed"}]
        return sorted(each["metadata"]["name"] for each in live if not each["spec"].get("schedulingGates"))

    def open_by_claim(self, space="team-a"):
        pods = [self.server.get("Pod", name, space) for name in self.open(space)]
        return collections.Counter(each["spec"]["resourceClaims"][0]["resourceClaimName"] for each in pods)

    def said(self, pod):
        """Events about an object: (reason, message)."""
        about = [each for each in self.server.all("Event") if each["involvedObject"]["name"] == pod]
        return [(each["reason"], each["message"]) for each in about]

    def end(self, pod, phase="Succeeded", space="team-a"):
        found = self.server.get("Pod", pod, space)
        self.server.put({**found, "status": {"phase": phase}})

    async def until(self, condition):
        await waits.until(condition)

    async def quiet(self, seconds=0.15):
        """Let everything settle."""
        writes = -1
        while writes != len(self.server.log):
            writes = len(self.server.log)
            await asyncio.sleep(seconds)


@pytest.fixture
async def cluster(caplog):
    """A cluster whose controllers may be refused and cut off, but never fail by a defect."""
    made = Cluster()
    yield made
    await made.stop()
    assert [record for record in caplog.get_records("call") if "defect" in record.getMessage()] == []
