"""An API server for helm and kubectl: discovery, the descriptions of the pinned Kubernetes, and objects in memory.

It knows nothing of what objects mean, and no watch tells anything: helm and kubectl look before they watch. What it is
for is the order of what they do to a cluster, with the real programs.
"""

from __future__ import annotations

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

from tests.packaging import protobufs

__all__ = ["ApiServer"]

_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"
_PLURALS = {  # (version, kind, whether it is in a namespace)
    "namespaces": ("v1", "Namespace", False),
    "secrets": ("v1", "Secret", True),
    "configmaps": ("v1", "ConfigMap", True),
    "services": ("v1", "Service", True),
    "serviceaccounts": ("v1", "ServiceAccount", True),
    "resourcequotas": ("v1", "ResourceQuota", True),
    "deployments": ("apps/v1", "Deployment", True),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget", True),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy", True),
    "roles": (_RBAC, "Role", True),
    "rolebindings": (_RBAC, "RoleBinding", True),
    "clusterroles": (_RBAC, "ClusterRole", False),
    "clusterrolebindings": (_RBAC, "ClusterRoleBinding", False),
    "mutatingwebhookconfigurations": (_ADMISSION, "MutatingWebhookConfiguration", False),
    "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
    "validatingwebhookconfigurations": (_ADMISSION, "ValidatingWebhookConfiguration", False),
    "validatingadmissionpolicies": (_ADMISSION, "ValidatingAdmissionPolicy", False),
    "validatingadmissionpolicybindings": (_ADMISSION, "ValidatingAdmissionPolicyBinding", False),
}


class ApiServer:
    """Serves on a port of 127.0.0.1 while it is entered.

    Args:
        folder: OpenAPI files of Kubernetes.

    Attributes:
        objects: by path.
        done: (method, path) of every write that was carried out, in order.
        seen: called with method, path and body of every write.
    """

    def __init__(self, folder):
        self.objects = {}
        self.done = []
        self.seen = lambda _method, _path, _body: None
        self._kinds = _kinds()
        self._folder = folder
        self._ends = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        kube_system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        self.objects["/api/v1/namespaces/kube-system"] = kube_system
        return self

    def __exit__(self, *_):
        self._ends.set()
        self._server.shutdown()
        self._server.server_close()

    def kubeconfig(self, path):
        """Write a configuration for this server, and return its path."""
        cluster = {"server": f"http://127.0.0.1:{self._server.server_port}"}
        named = {"clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": {}}]}
        context = {"name": "a", "context": {"cluster": "a", "user": "a"}}
        path.write_text(yaml.safe_dump({**named, "contexts": [context], "current-context": "a"}))
        return path

    def names(self, plural):
        """The names of the objects of a kind."""
        return {path.rpartition("/")[2] for path in self.objects if path.split("/")[-2] == plural}

    def answer(self, method, path, query, body):
        """Return status and body."""
        if method == "GET" and (found := self._described(path)) is not None:
            return 200, found
        with self._lock:
            status, found = self._stored(method, path, query, body)
            if method != "GET" and status < 300:
                self.seen(method, path, body)
                self.done.append((method, path if method != "POST" else f"{path}/{body['metadata']['name']}"))
        return status, found

    def wait(self):
        """Return when the server ends."""
        self._ends.wait(60)

    def _described(self, path):
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(self._kinds)}
        if path == "/openapi/v3":
            paths = {_prefix(each)[1:]: {"serverRelativeURL": f"/openapi/v3{_prefix(each)}"} for each in self._kinds}
            return {"paths": paths}
        if path.startswith("/openapi/v3/"):
            file = self._folder / f"{path.removeprefix('/openapi/v3/').replace('/', '__')}_openapi.json"
            return json.loads(file.read_text()) if file.exists() else None
        resources = {_prefix(version): each for version, each in self._kinds.items()}
        return {"kind": "APIResourceList", "resources": resources[path]} if path in resources else None

    def _stored(self, method, path, query, body):
        present = self.objects.get(path)
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return 409, _status(409, "AlreadyExists")
        elif method == "GET" and present is None and (listed := _PLURALS.get(path.split("/")[-1])):
            found = [each for key, each in sorted(self.objects.items()) if _selected(key, each, path, query)]
            head = {"apiVersion": listed[0], "kind": f"{listed[1]}List", "metadata": {"resourceVersion": "1"}}
            return 200, {**head, "items": found}
        elif present is None and method != "PATCH":
            return 404, _status(404, "NotFound")
        if method in {"POST", "PUT", "PATCH"}:
            self.objects[path] = body if method != "PATCH" or present is None else {**present, **body}
        elif method == "DELETE":
            return 200, self.objects.pop(path)
        return 200, self.objects[path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _do(self):
        path, _, query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(query))
        if path == "/openapi/v2":  # kubectl wants it in protobuf, and passes over what it does not describe
            self._say(200, b"")
            return
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        body = None if self.command == "DELETE" else _decoded(sent)
        if "sendInitialEvents" in query:  # a list by way of a watch; clients then ask for a list
            self._say(422, json.dumps(_status(422, "Invalid")).encode())
            return
        if query.get("watch") in {"true", "1"}:
            self._say(200, b"")
            self.api.wait()
            return
        status, found = self.api.answer(self.command, path, query, body)
        self._say(status, json.dumps(found).encode())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815  # http.server's names

    def _say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if body:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Keep quiet."""


def _decoded(sent):
    return protobufs.secret(sent) if sent.startswith(protobufs.MAGIC) else yaml.safe_load(sent)


def _kinds():
    """The kinds that the chart and the base render, and CRDs, as discovery lists them, by group and version."""
    out = {}
    for plural, (version, kind, namespaced) in _PLURALS.items():
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        each = {"name": plural, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs}
        out.setdefault(version, []).append(each)
    return out


def _groups(kinds):
    versions = [version for version in kinds if "/" in version]
    return [
        {
            "name": version.partition("/")[0],
            "versions": [{"groupVersion": version, "version": version.partition("/")[2]}],
            "preferredVersion": {"groupVersion": version, "version": version.partition("/")[2]},
        }
        for version in versions
    ]


def _prefix(version):
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _selected(key, document, path, query):
    if not key.startswith(f"{path}/"):
        return False
    labels = document["metadata"].get("labels", {})
    wanted = [each.partition("=") for each in query.get("labelSelector", "").split(",") if each]
    named = query.get("fieldSelector", "").removeprefix("metadata.name=")
    return all(labels.get(name) == value for name, _, value in wanted) and named in ("", document["metadata"]["name"])


def _status(code, reason):
    said = {"status": "Failure", "code": code, "reason": reason, "message": reason}
    return {"kind": "Status", "apiVersion": "v1", **said}
