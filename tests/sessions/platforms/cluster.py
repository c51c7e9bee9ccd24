"""As much of a cluster as a Gateway with pods sees: objects over HTTP, and pods that are processes with addresses.

It stands for the API server, JobSet's controller, Kubernetes' own and a kubelet in tests of what a Gateway does next;
what it does was compared by hand with a control plane of Kubernetes 1.36 and JobSet 0.12.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import itertools
import os
import signal
import sys
from pathlib import Path

import orjson
from aiohttp import web

ROOT = Path(__file__).parents[3]
_ADDRESSES = itertools.count(2)
_NETWORK = f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 256}"  # of this process, for other tests run beside it


class Cluster:
    """Objects by (kind, name); a JobSet that is not suspended has a pod for each of its jobs.

    Pods name a claim of the profile that they ask for, as Muster's admission adds it. While the profile is in `full`,
    they have no seat on it and do not begin, and Muster says so beforehand; in `strict`, it refuses them.
    """

    def __init__(self, folder):
        self.folder = folder
        self.objects, self.pods, self.denied = {}, {}, {}
        self.version, self.numbers = 1, itertools.count(1)
        self.full, self.strict = frozenset(), frozenset()
        self.asked, self.tried = [], []
        self.changes = asyncio.Condition()
        self.url = ""
        self._runner = None

    async def __aenter__(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        (self.folder / "token").write_text("of an account")
        return self

    async def __aexit__(self, *_):
        for name in list(self.pods):
            await self.remove(name, again=False)
        await self._runner.cleanup()

    async def _answer(self, request):
        assert request.headers["Authorization"] == "Bearer of an account"
        parts = request.path.strip("/").split("/")
        at = parts.index("namespaces") + 2
        kind, name = parts[at], "/".join(parts[at + 1 :])
        self.asked.append((request.method, kind))
        if told := self.denied.get((request.method, kind)):
            return self._refused(*told)
        if kind == "pods":
            return await (self._watched(request) if "watch" in request.query else self._listed())
        if "dryRun" in request.query:
            return self._tried(orjson.loads(await request.read()))
        return await getattr(self, f"_{request.method.lower()}")(kind, name, await request.read())

    def _refused(self, status, message=""):
        return web.json_response({"kind": "Status", "message": message}, status=status)

    def _document(self, found):
        return web.Response(body=orjson.dumps(found), content_type="application/json")

    def _tried(self, document):
        assert ("jobsets", document["metadata"]["name"]) not in self.objects
        profile = _profile(document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"])
        self.tried.append(profile)
        if told := self._refusal(document):
            return self._refused(422, told)
        answer = self._document(document)
        if profile in self.full:
            answer.headers["Warning"] = f'299 - "annotations: the pods wait for 2 free seats of profile {profile}; x"'
        return answer

    def _refusal(self, document):
        for job in document["spec"]["replicatedJobs"]:
            profile = _profile(job["template"]["spec"]["template"])
            if profile == "unknown":
                return "the platform has no profile of this name"
            if profile in self.full & self.strict:
                return (
                    f"denied the request: the job needs 2 free seats, and no claim of profile {profile} has that many"
                )
        return None

    async def _get(self, kind, name, _):
        found = self.objects.get((kind, name))
        return self._refused(404) if found is None else self._document(found)

    async def _post(self, kind, _, body):
        made = orjson.loads(body)
        if (kind, made["metadata"]["name"]) in self.objects:
            return self._refused(409, "already exists")
        if kind == "jobsets" and (told := self._refusal(made)):
            return self._refused(422, told)
        return await self._kept(kind, made)

    async def _kept(self, kind, made):
        metadata = made["metadata"]
        metadata.setdefault("uid", f"uid-{next(self.numbers)}")
        metadata["resourceVersion"] = str(next(self.numbers))
        for key, value in made.pop("stringData", {}).items():
            made.setdefault("data", {})[key] = base64.b64encode(value.encode()).decode()
        self.objects[kind, metadata["name"]] = made
        await self._reconciled()
        return self._document(made)

    async def _patch(self, kind, name, body):
        asked, found = orjson.loads(body), copy.deepcopy(self.objects.get((kind, name)))
        if isinstance(asked, dict):
            asked["metadata"]["uid"] = (found or asked)["metadata"].get("uid", f"uid-{next(self.numbers)}")
            return await self._kept(kind, asked)
        if found is None:
            return self._refused(404)
        for each in asked:
            *inside, last = [part.replace("~1", "/") for part in each["path"].split("/")[1:]]
            place = found
            for part in inside:
                place = place[part]
            if each["op"] == "test" and place.get(last) != each["value"]:
                return self._refused(422, "the test failed")
            place[last] = each["value"]
        return await self._kept(kind, found)

    async def _delete(self, kind, name, body):
        found, same = self.objects.get((kind, name)), orjson.loads(body)["preconditions"]
        if found is None:
            return self._refused(404)
        if any(found["metadata"][key] != value for key, value in same.items()):
            return self._refused(409, "precondition failed")
        await self.deleted(kind, name)
        return self._document(found)

    async def deleted(self, kind, name):
        """Delete an object with what it owns, and what that owns."""
        gone = [self.objects.pop((kind, name))]
        while gone:
            uid = gone.pop()["metadata"]["uid"]
            for key, each in list(self.objects.items()):
                if any(owner["uid"] == uid for owner in each["metadata"].get("ownerReferences") or ()):
                    gone.append(self.objects.pop(key))
        await self._reconciled()

    async def _listed(self):
        items = [pod.document for pod in self.pods.values()]
        return self._document({"metadata": {"resourceVersion": str(self.version)}, "items": items})

    async def _watched(self, request):
        answer = web.StreamResponse()
        await answer.prepare(request)
        async with self.changes:
            await self.changes.wait_for(lambda: self.version > int(request.query["resourceVersion"]))
        await answer.write(b"{}\n")
        return answer

    async def _told(self):
        async with self.changes:
            self.version += 1
            self.changes.notify_all()

    async def _reconciled(self):
        wanted = {}
        for (kind, name), each in self.objects.items():
            if kind == "jobsets" and not each["spec"]["suspend"]:
                wanted |= {f"{name}-{job['name']}": (each, job) for job in each["spec"]["replicatedJobs"]}
        for name, pod in list(self.pods.items()):
            base = name.rsplit("-", 1)[0]
            if base not in wanted or pod.owner != wanted[base][0]["metadata"]["uid"]:
                await self.remove(name, again=False)
        for base, (jobset, job) in wanted.items():
            if not any(name.startswith(f"{base}-") for name in self.pods):
                await self._make(f"{base}-{next(self.numbers)}", jobset, job)
        await self._told()

    async def _make(self, name, jobset, job):
        template = copy.deepcopy(job["template"]["spec"]["template"])
        if profile := _profile(template):
            template["spec"]["resourceClaims"] = [{"name": "devices", "resourceClaimName": f"muster-{profile}-0"}]
        template["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] = jobset["metadata"]["name"]
        secret = self.objects["secrets", jobset["metadata"]["name"]]
        file = self.folder / f"{name}.token"
        file.write_bytes(base64.b64decode(secret["data"]["token"]))
        self.pods[name] = Pod(name, jobset["metadata"]["uid"], template, file, self)
        if profile in self.full:
            self.pods[name].wait()
        else:
            await self.pods[name].begin()

    async def free(self, profile):
        """Have seats for all: those that wait in a profile have theirs, and whoever comes has one."""
        self.full -= {profile}
        for each in self.pods.values():
            if _profile(each.document) == profile:
                await each.begin()
        await self._told()

    async def remove(self, name, again=True):
        """Remove a pod as an eviction does; its job has another."""
        pod = self.pods.pop(name)
        await pod.end()
        if again:
            await self._reconciled()

    def pod(self, role):
        (found,) = [pod for pod in self.pods.values() if pod.role == role]
        return found


def _profile(pod):
    return pod["metadata"].get("annotations", {}).get("muster.dev/claim-profile")


class Pod:
    """A process at an address of its own, started again where it is."""

    def __init__(self, name, owner, template, token, cluster):
        self.name, self.owner, self.cluster = name, owner, cluster
        self.role = template["metadata"]["labels"]["muster.dev/role"]
        self.address = f"{_NETWORK}.{next(_ADDRESSES)}"
        (container,) = template["spec"]["containers"]
        words = [str(token) if word.startswith("/var/run/") else word for word in container["args"]]
        self._command = [sys.executable, *container["command"][1:], *words, "--host", self.address]
        metadata = {
            **template["metadata"],
            "name": name,
            "uid": f"uid-of-{name}",
            "creationTimestamp": f"2026-01-01T00:00:{cluster.version:05}Z",
        }
        self.document = {"metadata": metadata, "spec": template["spec"], "status": {}}
        self._task = None
        self.process = None

    def wait(self):
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        spec = {**self.document["spec"], "schedulingGates": [{"name": "muster.dev/seat"}]}
        self.document = {**self.document, "spec": spec, "status": {"conditions": [condition]}}

    async def begin(self):
        spec = {key: each for key, each in self.document["spec"].items() if key != "schedulingGates"}
        self.document = {**self.document, "spec": spec, "status": {}}
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        last = {}
        while True:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            self.process = await asyncio.create_subprocess_exec(
                *self._command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
            await self._says(False, {"running": {}}, last)
            if b"port" in await self.process.stdout.readline():
                await self._says(True, {"running": {}}, last)
            _, error = await self.process.communicate()
            message = error.decode()[-2000:]
            last = {"terminated": {"exitCode": self.process.returncode, "message": message}}
            await self._says(False, {"waiting": {"reason": "CrashLoopBackOff"}}, last)
            await asyncio.sleep(0.05)

    async def _says(self, is_ready, state, last):
        ready = {"type": "Ready", "status": "True" if is_ready else "False"}
        containers = [{"state": state, "lastState": last}]
        status = {"podIP": self.address, "conditions": [ready], "containerStatuses": containers}
        self.document = {**self.document, "status": status}
        await self.cluster._told()

    async def end(self):
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
            await self.process.communicate()
