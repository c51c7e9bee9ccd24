"""`baseless.py URL`: stands before a sampler and answers for its adapters from the base; prints its own port.

Everything else is passed on, so that nothing but the log probabilities tells.
"""

import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

URL = sys.argv[1]


class Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.passed(None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/v1/completions":
            asked = json.loads(body)
            if asked["model"].startswith("run-"):
                asked["model"] = "policy"
            body = json.dumps(asked).encode()
        self.passed(body)

    def passed(self, body: bytes | None) -> None:
        kind = {"content-type": "application/json"} if body else {}
        request = urllib.request.Request(f"{URL}{self.path}", body, kind, method=self.command)  # noqa: S310  # our own
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310  # as above
                self.answered(answer.status, answer.read())
        except urllib.error.HTTPError as fault:
            self.answered(fault.code, fault.read())

    def answered(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Passing)
print(server.server_address[1], flush=True)
server.serve_forever()
