"""The real client through a wire that loses answers: what it sends again is the same request."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import tinker
from tinker import types

from tests.sessions.hand import datum
from tests.sessions.test_order import EXAMPLES, PROBE

LOSES = ("forward_backward", "optim_step", "create_model", "save_weights", "asample")


class Lossy(ThreadingHTTPServer):
    """Hands requests on, and answers 502 to the first two of each that changes something, after it was done."""

    daemon_threads = True

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port, self.lost, self._seen, self._lock = port, Counter(), Counter(), threading.Lock()

    def loses(self, path, body):
        """Tell whether the answer to a request is lost."""
        route = path.rpartition("/")[2]
        with self._lock:
            self._seen[route, body] += 1
            lost = route in LOSES and self._seen[route, body] <= 2
            self.lost[route] += lost
        return lost


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        status, content = answer.status, answer.read()
        connection.close()
        if self.server.loses(self.path, body):
            status, content = 502, b"{}"
        self.send_response(status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST  # noqa: N815  # as http.server names it

    def log_message(self, *_):
        pass


@pytest.fixture
def wire(shared):
    server = Lossy(shared.port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def trained(service, base):
    """Return what a model thinks after two steps, and what is sampled from it."""
    client = service.create_lora_training_client(base, rank=4, seed=3).result()
    for _ in range(2):
        passed = [client.forward_backward([datum(each)], "cross_entropy") for each in EXAMPLES]
        stepped = client.optim_step(types.AdamParams(learning_rate=0.1)).result()
        assert all(each.result().metrics["loss:sum"] > 0 for each in passed)
    sampler = client.save_weights_and_get_sampling_client().result()
    params = types.SamplingParams(max_tokens=6, seed=1)
    (sequence,) = sampler.sample(types.ModelInput.from_ints([1, 2]), 1, params).result().sequences
    (output,) = client.forward([datum(PROBE)], "cross_entropy").result().loss_fn_outputs
    return stepped.metrics["steps:sum"], list(output["logprobs"].data), list(sequence.tokens)


def test_two_lost_answers_to_each_request_give_one_gradient_each(shared, wire):
    with tinker.ServiceClient(base_url=shared.url, api_key=shared.key) as service:
        expected = trained(service, str(shared.base))
    url = f"http://127.0.0.1:{wire.server_address[1]}"
    with tinker.ServiceClient(base_url=url, api_key=shared.key) as service:
        assert trained(service, str(shared.base)) == expected
    assert expected[0] == 2
    assert wire.lost["forward_backward"] >= 2 * (2 * len(EXAMPLES) + 1)
    assert min(wire.lost[each] for each in ("create_model", "optim_step", "asample")) >= 2
