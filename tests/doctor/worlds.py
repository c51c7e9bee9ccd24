"""A healthy installation as an API server shows it, over real HTTP; a test spoils one thing of it."""

from __future__ import annotations

import asyncio
import base64
import copy
import functools
import json
import threading
from datetime import UTC, datetime

from aiohttp import web

from muster.certs import authorities, pems
from muster.strategies.documents import names
from muster.webhook.doctor import expected_state

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster"
VALIDATING = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/muster"
OWN = "/api/v1/namespaces/muster-system"
CONFIGMAP = f"{OWN}/configmaps/muster"
DEPLOYMENT = "/apis/apps/v1/namespaces/muster-system/deployments/muster"
DEPLOYMENTS = "/apis/apps/v1/deployments"
SERVICE = f"{OWN}/services/muster"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/muster-system/endpointslices"
BUDGETS = "/apis/policy/v1/namespaces/muster-system/poddisruptionbudgets"
PODS = f"{OWN}/pods"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"
RUNTIMES = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes"
REPLICAS = ("muster-a", "muster-b")
LABELS = {"app.kubernetes.io/name": "muster"}
METRICS = """\
# TYPE muster_certificate_expiry_seconds gauge
muster_certificate_expiry_seconds{certificate="leaf"} 2.9e+07
# TYPE muster_cluster_cache_age_seconds gauge
muster_cluster_cache_age_seconds{kind="TrainJob"} 12.0
"""
DENIED = (
    'admission webhook "create.trainjobs.muster.dev" denied the request: '
    "metadata.annotations[muster.dev/rendezvous]: Invalid value: 'muster-doctor'"
)


class RefusedError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


@functools.cache
def base():
    return expected_state.read(expected_state.places())


@functools.cache
def bundle():
    return encoded(authorities.create(datetime.now(UTC)))


def encoded(authority):
    return base64.b64encode(pems.certificate_pem(authority.certificate)).decode()


def proxied(pod, what):
    return f"{PODS}/https:{pod}:8443/proxy/{what}"


class World:
    """What the API server answers.

    Attributes:
        objects: documents by path; lists are there with all their items.
        texts: status and text by path, of proxied pods.
        forbidden: what whoever asks may not do, `get pods/proxy`.
        revoked: what Muster's ServiceAccount may not do, `list nodes`.
        judge: returns what becomes of a job, or raises RefusedError.
        stalled: paths that are never answered.
        started: returns the status of a pod that is created, or raises RefusedError.
        seen: method, path and query of every request.
    """

    def __init__(self):
        self.objects, self.texts = _objects(), {}
        for pod in REPLICAS:
            self.texts[proxied(pod, "readyz")] = (200, "ok\n")
            self.texts[proxied(pod, "metrics")] = (200, METRICS)
        self.forbidden, self.revoked, self.stalled = set(), set(), set()
        self.judge = admitted
        self.started = lambda _pod: {"phase": "Succeeded"}
        self.seen = []
        self.asked = []

    @property
    def entries(self):
        """Of the mutating configuration, by name."""
        return {each["name"]: each for each in self.objects[MUTATING]["webhooks"]}

    def every_entry(self):
        return [entry for path in (MUTATING, VALIDATING) for entry in self.objects[path]["webhooks"]]

    def configure(self, text):
        self.objects[CONFIGMAP]["data"]["muster.yaml"] = text

    async def answer(self, request):
        self.seen.append((request.method, request.path, dict(request.query)))
        if request.path in self.stalled:
            await asyncio.sleep(60)
        try:
            return self._answer(request.method, request.path, await request.read())
        except RefusedError as error:
            body = {"kind": "Status", "status": "Failure", "message": str(error), "code": error.status}
            return web.json_response(body, status=error.status)

    def _answer(self, method, path, body):
        if path in self.texts:
            status, text = self.texts[path]
            return web.Response(status=status, text=text)
        if method == "POST":
            return web.json_response(self._created(path, json.loads(body)), status=201)
        if path in self.objects:
            return web.json_response(self.objects.pop(path) if method == "DELETE" else self.objects[path])
        raise RefusedError(404, f"{path} not found")

    def _created(self, path, document):
        if path.endswith("accessreviews"):
            attributes = document["spec"]["resourceAttributes"]
            subresource = attributes.get("subresource")
            asked = f"{attributes['verb']} {attributes['resource']}{f'/{subresource}' if subresource else ''}"
            mine = document["kind"] == "SelfSubjectAccessReview"
            self.asked.append((document["kind"], asked, document["spec"]))
            return {**document, "status": {"allowed": asked not in (self.forbidden if mine else self.revoked)}}
        if path.endswith("/pods"):
            made = {**document, "status": self.started(document)}
            return self.objects.setdefault(f"{path}/{document['metadata']['name']}", made)
        return self.judge(document)


def admitted(job):
    """As Muster does: the wrong job is refused, the right one gets its annotation."""
    if names.RENDEZVOUS_ANNOTATION in job["metadata"].get("annotations", {}):
        raise RefusedError(403, DENIED)
    return {**job, "metadata": {**job["metadata"], "annotations": {names.APPLIED_ANNOTATION: "{}"}}}


class Server:
    """Serves a world on loopback, in a thread of its own, for tests that call the command."""

    def __init__(self, world):
        self._world = world
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.url = ""

    def __enter__(self):
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._world.answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        installation = web.TCPSite(self._runner, "127.0.0.1", 0)
        await installation.start()
        self.url = f"http://127.0.0.1:{installation._server.sockets[0].getsockname()[1]}"
        self._ready.set()


def _objects():
    live = copy.deepcopy({kind: list(entries.values()) for kind, entries in base().entries.items()})
    for entries in live.values():
        for entry in entries:
            entry["clientConfig"]["caBundle"] = bundle()
    mutating, validating = (live[kind] for kind in expected_state.KINDS)
    return {
        "/version": {"gitVersion": "v1.36.3"},
        "/apis/trainer.kubeflow.org/v1alpha1": {"resources": [{"name": "trainjobs"}]},
        "/apis/jobset.x-k8s.io/v1alpha2": {"resources": [{"name": "jobsets"}]},
        MUTATING: {"webhooks": mutating},
        VALIDATING: {"webhooks": validating},
        CONFIGMAP: {"data": {"muster.yaml": "mode: enforce\n"}},
        DEPLOYMENT: deployment("muster", "registry.example/muster-webhook:0.1.0"),
        DEPLOYMENTS: {
            "items": [
                deployment("trainer", "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.3.0"),
                deployment("jobset", "registry.k8s.io/jobset/jobset:v0.12.0"),
            ]
        },
        SERVICE: {"spec": {"ports": [{"port": 443}], "selector": LABELS}},
        SLICES: {"items": [{"endpoints": [{"conditions": {"ready": True}} for _ in REPLICAS]}]},
        BUDGETS: {
            "items": [
                {
                    "metadata": {"name": "muster"},
                    "spec": {"selector": {"matchLabels": LABELS}},
                    "status": {"currentHealthy": 2, "expectedPods": 2, "disruptionsAllowed": 1},
                }
            ]
        },
        PODS: {"items": [pod(name) for name in REPLICAS]},
        NAMESPACES: {"items": [namespace(name) for name in ("default", "kube-system", "muster-system", "team-a")]},
        f"{NAMESPACES}/default": namespace("default"),
        NODES: {"items": [node(name) for name in ("gpu-1", "gpu-2")]},
        RUNTIMES: {"items": [runtime("torch-distributed", "torch"), runtime("trl-distributed", "trl")]},
    }


def deployment(name, image, replicas=2):
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": {"containers": [{"image": image}]}},
        },
        "status": {"readyReplicas": replicas, "updatedReplicas": replicas},
    }


def pod(name):
    ports = [{"name": "webhook", "containerPort": 8443}]
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "muster", "ports": ports}]}}


def node(name, ready="True", **spec):
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def namespace(name, **labels):
    return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}


def runtime(name, framework):
    return {"metadata": {"name": name, "labels": {names.FRAMEWORK_LABEL: framework}}}
