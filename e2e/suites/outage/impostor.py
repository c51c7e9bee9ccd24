"""Answers in Muster's place, as badly as the object under review asks for.

A program for `Installation.impostor`, standard library only. The annotation `e2e.muster.dev/answer` of the object names
the answer; an object without it is allowed unchanged, so that everything else keeps working. One impostor therefore
serves all tests of bad answers.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["ANSWER", "ANSWERS", "LATE"]

ANSWER = "e2e.muster.dev/answer"
LATE = 60.0  # seconds, beyond the webhook configuration's timeoutSeconds
_TARDY = 1.0  # seconds, below timeoutSeconds
_HUGE = 16 * 1024 * 1024


class Answering(BaseHTTPRequestHandler):
    """One request in, one answer out."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer 200 to a kubelet's probes, and to an API server that followed a redirect."""
        self.send(json.dumps(reviewed("redirected")).encode() if self.path == "/elsewhere" else b"ok\n")

    def do_POST(self) -> None:
        """Answer a review."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = json.loads(body)["request"]
        metadata = (request.get("object") or {}).get("metadata") or {}
        wanted = (metadata.get("annotations") or {}).get(ANSWER, "")
        ANSWERS[wanted](self, request["uid"])

    def send(
        self, body: bytes, status: int = 200, *, length: int | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send an answer, which may promise another length than it has."""
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        """Log nothing."""


def reviewed(uid: str, **members: Any) -> dict[str, Any]:
    """Return a review that allows."""
    response = {"uid": uid, "allowed": True, **members}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def _allow(request: Answering, uid: str, **members: Any) -> None:
    request.send(json.dumps(reviewed(uid, **members)).encode())


def _after(seconds: float) -> Callable[[Answering, str], None]:
    def answer(request: Answering, uid: str) -> None:
        time.sleep(seconds)
        _allow(request, uid)

    return answer


def _patch(text: str) -> Callable[[Answering, str], None]:
    return lambda request, uid: _allow(
        request, uid, patchType="JSONPatch", patch=base64.b64encode(text.encode()).decode()
    )


def _truncated(request: Answering, uid: str) -> None:
    body = json.dumps(reviewed(uid)).encode()
    request.send(body[: len(body) // 2], length=len(body))
    request.close_connection = True


def _reset(request: Answering, uid: str) -> None:
    """End the connection with RST, no byte of an answer sent."""
    request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.close_connection = True


ANSWERS: dict[str, Callable[[Answering, str], None]] = {
    "": _allow,
    "late": _after(LATE),
    "tardy": _after(_TARDY),
    "html": lambda request, _: request.send(b"<html>It works!</html>"),
    "empty": lambda request, _: request.send(b""),
    "another-kind": lambda request, _: request.send(b'{"apiVersion": "v1", "kind": "Status"}'),
    "wrong-uid": lambda request, _: _allow(request, "00000000-0000-0000-0000-000000000000"),
    "patch-that-is-none": _patch("add spec.trainer, please"),
    "patch-that-does-not-fit": _patch('[{"op": "remove", "path": "/spec/there/is/none"}]'),
    "error-500": lambda request, _: request.send(b"internal error\n", 500),
    "error-429": lambda request, _: request.send(b"busy\n", 429, headers={"Retry-After": "1"}),
    "redirect": lambda request, _: request.send(b"", 302, headers={"Location": "/elsewhere"}),
    "truncated": _truncated,
    "reset": _reset,
    "huge": lambda request, _: request.send(b" " * _HUGE),
}


def main() -> None:
    """Serve at MUSTER_PORT with MUSTER_CERT and MUSTER_KEY until killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.environ["MUSTER_CERT"], os.environ["MUSTER_KEY"])
    server = ThreadingHTTPServer((os.environ.get("MUSTER_HOST", ""), int(os.environ["MUSTER_PORT"])), Answering)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


if __name__ == "__main__":
    main()
