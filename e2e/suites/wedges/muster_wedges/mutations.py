"""Mutations of a JobSet, each one row of what is known about mutating what Trainer applies.

Every mutation describes the desired object, not a step, so that applying it twice changes nothing more. This file is a
library for the strategy beside it, and also a program: a webhook in Muster's place (`Installation.impostor`), which
makes the mutations without restoring anything. It needs the standard library only.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["ALWAYS", "ROW", "ROWS", "operations"]

ROW = "e2e.muster.dev/row"
"""Annotation of a JobSet: which mutation to make."""

ALWAYS = "e2e.muster.dev/always"
"""Annotation of a JobSet: that the impostor shall make it at UPDATE too."""

Path = tuple[str | int, ...]
Operation = tuple[str, Path, Any]

_POD: Path = ("spec", "replicatedJobs", 0, "template", "spec", "template")
_CONTAINER: Path = (*_POD, "spec", "containers", 0)
_CLAIM = {"name": "gpus", "resourceClaimTemplateName": "two-gpus"}
_GPU = "nvidia.com/gpu"


def operations(jobset: dict[str, Any]) -> list[Operation]:
    """Return what makes a JobSet as its annotation wants it: (`set`, `append` or `remove`, path, value)."""
    annotations = jobset["metadata"].get("annotations") or {}
    wanted = ROWS[annotations.get(ROW, "nothing")](jobset)
    return [each for each in wanted if _found(jobset, each[1]) != each[2]]


def _nothing(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield from ()


def _append_env(jobset: dict[str, Any]) -> Iterator[Operation]:
    if all(each["name"] != "NEW" for each in _env(jobset)):
        yield "append", (*_CONTAINER, "env"), {"name": "NEW", "value": "1"}


def _prepend_env(jobset: dict[str, Any]) -> Iterator[Operation]:
    others = [each for each in _env(jobset) if each["name"] != "NEW"]
    yield "set", (*_CONTAINER, "env"), [{"name": "NEW", "value": "1"}, *others]


def _add_command(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield "set", (*_CONTAINER, "command"), ["sleep"]
    yield "set", (*_CONTAINER, "args"), ["infinity"]


def _add_claims(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield "set", (*_POD, "spec", "resourceClaims"), [_CLAIM]
    yield "set", (*_CONTAINER, "resources", "claims"), [{"name": _CLAIM["name"]}]


def _mark(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield "set", (*_POD, "metadata", "labels", "marked"), "yes"
    yield "set", ("metadata", "annotations", "marked"), "yes"


def _change_env(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield "set", (*_CONTAINER, "env", _index(jobset, "PET_NPROC_PER_NODE"), "value"), "9"


def _delete_env(jobset: dict[str, Any]) -> Iterator[Operation]:
    if any(each["name"] == "PET_NODE_RANK" for each in _env(jobset)):
        yield "remove", (*_CONTAINER, "env", _index(jobset, "PET_NODE_RANK")), None


def _reorder_env(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield "set", (*_CONTAINER, "env"), sorted(_env(jobset), key=lambda each: str(each["name"]), reverse=True)


def _replace_command(jobset: dict[str, Any]) -> Iterator[Operation]:
    yield "set", (*_CONTAINER, "command"), ["sleep", "infinity"]


def _swap_limit_for_claim(jobset: dict[str, Any]) -> Iterator[Operation]:
    if _found(jobset, (*_CONTAINER, "resources", "limits", _GPU)) is not None:
        yield "remove", (*_CONTAINER, "resources", "limits", _GPU), None
    yield from _add_claims(jobset)


def _everything(jobset: dict[str, Any]) -> Iterator[Operation]:
    for make in (_replace_command, _change_env, _swap_limit_for_claim, _mark, _delete_env):
        yield from make(jobset)


ROWS: dict[str, Callable[[dict[str, Any]], Iterator[Operation]]] = {
    "nothing": _nothing,
    "append an env": _append_env,
    "prepend an env": _prepend_env,
    "add command and args": _add_command,
    "add claims": _add_claims,
    "label pods and annotate the JobSet": _mark,
    "change an applied env": _change_env,
    "delete an applied env": _delete_env,
    "reorder the env": _reorder_env,
    "replace the command": _replace_command,
    "swap a limit for a claim": _swap_limit_for_claim,
    "everything at once": _everything,
}


def _env(jobset: dict[str, Any]) -> list[dict[str, Any]]:
    return list(_found(jobset, (*_CONTAINER, "env")) or ())


def _index(jobset: dict[str, Any], name: str) -> int:
    return [each["name"] for each in _env(jobset)].index(name)


def _found(document: Any, path: Path) -> Any:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _patch(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations as a JSON Patch."""
    return [_operation(document, verb, path, value) for verb, path, value in operations(document)]


def _operation(document: dict[str, Any], verb: str, path: Path, value: Any) -> dict[str, Any]:
    """Return one operation of a JSON Patch; members on the way that are missing are made."""
    if verb == "remove":
        return {"op": "remove", "path": _pointer(path)}
    place = (*path, "-") if verb == "append" else path
    there = len(place)
    while there > 1 and _found(document, place[: there - 1]) is None:
        there -= 1
    for member in reversed(place[there:]):
        value = {member: value}
    return {"op": "add", "path": _pointer(place[:there]), "value": value}


def _pointer(path: Path) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


class _Webhook(BaseHTTPRequestHandler):
    """Mutates JobSets at CREATE, at UPDATE only where asked, and allows everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request, response = review["request"], {"uid": review["request"]["uid"], "allowed": True}
        patch = _patch(request["object"]) if self._mutates(request) else []
        if patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""

    def _mutates(self, request: dict[str, Any]) -> bool:
        if not self.path.startswith("/mutate/") or request["kind"]["kind"] != "JobSet":
            return False
        annotations = request["object"]["metadata"].get("annotations") or {}
        return request["operation"] == "CREATE" or annotations.get(ALWAYS) == "true"


def _serve() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ["MUSTER_CERT"], os.environ["MUSTER_KEY"])
    server = ThreadingHTTPServer((os.environ["MUSTER_HOST"], int(os.environ["MUSTER_PORT"])), _Webhook)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    _serve()
