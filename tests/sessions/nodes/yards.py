"""A node: the agent, an API server that knows of claims, and engines in control groups as a kubelet makes them."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import suppress

from aiohttp import web

from muster.kube.authentication import of_account
from muster.sessions.devices.clocks import Times
from muster.sessions.devices.memory import Budget
from muster.sessions.nodes.agent import Node
from muster.sessions.nodes.claims import Place
from muster.sessions.platforms.api import Api
from tests.sessions.devices.houses import LIMIT, ROOT, SIZE, Process

ENGINE = ROOT / "tests/sessions/devices/programs/engine.py"
INSIDE = ROOT / "tests/sessions/nodes/programs/inside.py"


class Server:
    """As much of an API server as an agent sees: claims of team-a that are listed and patched."""

    def __init__(self):
        self.claims, self.patched = {}, asyncio.Condition()
        self.is_away, self.asked_in_vain = False, asyncio.Event()
        self.url = ""
        self._runner = None

    async def start(self):
        app = web.Application()
        where = "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims"
        app.add_routes([web.get(where, self._list), web.patch(where + "/{name}", self._patch)])
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"

    async def close(self):
        await self._runner.cleanup()

    def claim(self, name, *devices):
        """Make a claim of devices, or return it."""
        if name not in self.claims:
            results = [{"driver": "gpu.example.com", "pool": "n1", "device": each} for each in devices]
            status = {"allocation": {"devices": {"results": results}}, "reservedFor": []}
            metadata = {"namespace": "team-a", "name": name, "uid": f"uid-{name}", "annotations": {}}
            self.claims[name] = {"metadata": metadata, "status": status}
        return self.claims[name]

    def lease(self, name):
        """What is told on a claim; None for nothing."""
        text = self.claims[name]["metadata"]["annotations"].get("muster.dev/lease")
        return None if text is None else json.loads(text)

    async def until(self, name, is_so):
        """Wait until what is told is so, and return it."""
        async with asyncio.timeout(60), self.patched:
            await self.patched.wait_for(lambda: (told := self.lease(name)) is not None and is_so(told))
        return self.lease(name)

    async def silent(self, name):
        """Wait until nothing is told."""
        async with asyncio.timeout(60), self.patched:
            await self.patched.wait_for(lambda: self.lease(name) is None)

    async def _list(self, request):
        assert request.query["labelSelector"] == "muster.dev/profile"
        if self.is_away:
            self.asked_in_vain.set()
            return web.json_response({"message": "away"}, status=503)
        return web.json_response({"items": list(self.claims.values()), "metadata": {}})

    async def _patch(self, request):
        assert request.content_type == "application/merge-patch+json"
        asked = await request.json()
        found = self.claims.get(request.match_info["name"])
        if found is None:
            return web.json_response({"message": "not found"}, status=404)
        if asked["metadata"]["uid"] != found["metadata"]["uid"]:
            return web.json_response({"message": "uid"}, status=409)
        async with self.patched:
            found["metadata"]["annotations"] |= asked["metadata"]["annotations"]
            self.patched.notify_all()
        return web.json_response(found)


class Yard:
    """A node whose devices are budgets, and pods on it."""

    def __init__(self, folder, turn=0.3):
        self.folder, self.name = folder, uuid.uuid4().hex[:8]
        self._times = Times(turn, 0.05, 60, 60)  # a busy machine may end no engine: these tests wait on events
        self.socket = folder / "lease.sock"
        self.server, self.node = Server(), None
        self.processes = []
        self.groups = Budget(f"muster-test-{self.name}", 1).parent / f"muster-test-{self.name}"

    async def __aenter__(self):
        await self.server.start()
        (self.folder / "token").write_text("of an account")
        await self.begin()
        return self

    async def begin(self):
        """Start an agent."""
        apis = {"team-a": Api(of_account(self.server.url, self.folder), "team-a")}
        self.node = Node(apis, self._budget, self.socket, self._times, tell=0.05)
        await self.node.start()

    async def _budget(self, place: Place):
        return Budget(f"muster-device-{self.name}-{place.device}", LIMIT << 20)

    def pod(self, name, claim=None):
        """Make the control group of a pod that has a claim; returns it."""
        uid = str(uuid.uuid4())
        group = self.groups / f"pod{uid}"
        group.mkdir(parents=True)
        if claim is not None:
            users = self.server.claims[claim]["status"]["reservedFor"]
            users.append({"resource": "pods", "name": name, "uid": uid})
        return group

    def begun(self, group, session):
        """Start an engine in a pod."""
        command = (str(ENGINE), str(self.socket), session, str(SIZE))
        made = Process(*((str(INSIDE), str(group), *command) if group else command), log=self.folder / "log")
        self.processes.append(made)
        return made

    async def engine(self, group, session):
        """Start an engine in a pod, and wait until it has joined."""
        made = self.begun(group, session)
        await told(made, "joined")
        return made

    def log(self):
        return (self.folder / "log").read_text()

    async def __aexit__(self, *_):
        for each in self.processes:
            await asyncio.to_thread(each.end)
        await self.node.close()
        await self.server.close()
        for device in self.groups.parent.glob(f"muster-device-{self.name}-*"):
            Budget(device.name, LIMIT << 20).remove()
        for each in self.groups.glob("pod*"):
            with suppress(OSError):
                each.rmdir()
        with suppress(OSError):
            self.groups.rmdir()


async def told(engine, text):
    """Wait for a line of an engine."""
    await asyncio.to_thread(engine.told, text)
