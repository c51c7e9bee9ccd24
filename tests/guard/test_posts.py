"""Rank 0 posts what is measured to Trainer's status server, and never harms the training by it."""

import http.server
import json
import os
import queue
import ssl
import threading
from datetime import UTC, datetime

import pytest

from muster.certs import authorities, leaves, pems
from muster_guard import endings, posts, trainings

URL = "KUBEFLOW_TRAINER_SERVER_URL"
OWN = {"muster.dev/world-size": "2"}


class Server(http.server.ThreadingHTTPServer):
    """Takes posts as Trainer's server does, and answers with the codes that it was given, then with 200."""

    daemon_threads = True

    def __init__(self, context):
        self.got, self.codes, self.gate = queue.Queue(), queue.Queue(), threading.Event()
        self.gate.set()
        super().__init__(("127.0.0.1", 0), Handler)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.gate.wait(30)
        code = 200 if self.server.codes.empty() else self.server.codes.get()
        self.server.got.put((self.path, self.headers["Authorization"], body["trainerStatus"]))
        self.send_response(code)
        self.send_header("Location", "https://127.0.0.1:1/elsewhere")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """The server, and a pod that Trainer told of it."""
    now = datetime.now(UTC)
    authority = authorities.create(now)
    leaf = leaves.issue(authority, ("localhost",), now)
    (tmp_path / "ca.crt").write_bytes(authorities.bundle_pem(authority))
    (tmp_path / "tls.crt").write_bytes(pems.certificate_pem(leaf.certificate))
    (tmp_path / "tls.key").write_bytes(pems.key_pem(leaf.key))
    (tmp_path / "token").write_text("first\n")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    made = Server(context)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv(URL, f"https://localhost:{made.server_port}/apis/status")
    monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", str(tmp_path / "token"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    yield made
    made.gate.set()
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def said(monkeypatch):
    """What the guard said."""
    lines = []
    monkeypatch.setattr(endings, "say", lines.append)
    return lines


def poster(metrics=OWN, delays=(0.0, 0.0)):
    return posts.Poster(lambda: dict(metrics), delays)


def named(status):
    return {each["name"]: each["value"] for each in status["metrics"]}


def test_a_change_is_posted_with_the_token_to_the_address_that_trainer_gave(server):
    poster().changed()

    path, authorization, status = server.got.get(timeout=30)
    assert (path, authorization) == ("/apis/status", "Bearer first")
    assert named(status) == OWN
    assert datetime.fromisoformat(status["lastUpdatedTime"]) <= datetime.now(UTC)
    assert set(status) == {"metrics", "lastUpdatedTime"}


def test_the_token_is_read_anew_for_each_post(server, tmp_path):
    made = poster()
    made.changed()
    server.got.get(timeout=30)
    (tmp_path / "token").write_text("second\n")
    made.changed()

    assert server.got.get(timeout=30)[1] == "Bearer second"


def test_the_thread_of_the_training_does_not_wait_for_an_answer(server):
    server.gate.clear()

    poster().changed()  # returns; the answer comes only now

    assert server.got.empty()
    server.gate.set()
    assert server.got.get(timeout=30)


@pytest.mark.parametrize("code", [500, 503, 429])
def test_what_may_pass_is_tried_again(server, said, code):
    server.codes.put(code)
    poster().changed()

    assert [server.got.get(timeout=30)[2]["metrics"] for _ in range(2)] == [
        [{"name": "muster.dev/world-size", "value": "2"}]
    ] * 2
    assert said == []


@pytest.mark.parametrize("code", [403, 404, 422, 302])
def test_what_will_not_pass_is_told_once_and_not_tried_again(server, said, code):
    for _ in range(2):
        server.codes.put(code)
    made = poster()
    made.finish()
    made.finish()

    assert [server.got.get(timeout=30) for _ in range(2)]
    assert server.got.empty()
    assert len(said) == 1
    assert f"({code}" in said[0]
    assert "The training is not affected." in said[0]


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        (URL, "http://127.0.0.1:1/", "it must be an https URL"),
        (URL, "https://127.0.0.1:1/", "refused"),
        (URL, "https://localhost:port/", "port"),
        ("KUBEFLOW_TRAINER_SERVER_TOKEN", "/no/such/token", "/no/such/token"),
        ("KUBEFLOW_TRAINER_SERVER_CA_CERT", "", "certificate verify failed"),
    ],
)
def test_a_server_that_cannot_be_reached_is_told_once(server, said, monkeypatch, name, value, why):
    monkeypatch.setenv(name, value)
    made = poster()
    made.finish()
    made.finish()

    assert len(said) == 1
    assert why in said[0]
    assert server.got.empty()


def test_it_gives_up_after_its_attempts(server, said):
    for _ in range(9):
        server.codes.put(500)
    made = poster()
    made.changed()
    for _ in range(3):
        server.got.get(timeout=30)
    with made._state:
        made._state.wait_for(lambda: made._done == 1, 30)

    assert server.got.empty()
    assert len(said) == 1


def test_at_the_end_of_the_process_it_is_tried_once_more_and_told(server, said):
    for _ in range(9):
        server.codes.put(500)
    made = poster(delays=(600.0, 600.0))
    made.changed()
    server.got.get(timeout=30)
    made.finish()

    assert server.got.qsize() == 1
    assert len(said) == 1


def test_the_end_of_the_process_posts_what_is_new_and_nothing_twice(server):
    known = dict(OWN)
    made = posts.Poster(lambda: dict(known))
    made.changed()
    server.got.get(timeout=30)
    known["muster.dev/verdict"] = "devices-idle"
    made.finish()
    made.finish()

    assert named(server.got.get(timeout=30)[2]) == known
    assert server.got.empty()


def callback(answer=True):
    calls = []

    def post(_self, **kwargs):
        calls.append(kwargs)
        return answer

    return post, calls


def test_where_the_callback_posts_its_metrics_stay_and_those_of_the_guard_come_behind(server):
    made = poster({**OWN, "loss": "ours"})
    post, calls = callback()
    result = made.join(post)(None, progress_percent=5, metrics={"loss": 0.5}, force=True)
    made.changed()
    made.finish()

    assert result is True
    assert calls == [{"progress_percent": 5, "metrics": {"loss": 0.5, **OWN}, "force": True}]
    assert server.got.empty(), "the callback's post says all"


def test_where_the_callback_will_post_no_more_its_newest_progress_stays(server):
    made = poster()
    post, _ = callback(answer=False)  # too soon after the one before
    made.join(post)(None, progress_percent=5, estimated_time_remaining=60, metrics={"loss": 0.5})
    made.finish()

    status = server.got.get(timeout=30)[2]
    assert (status["progressPercentage"], status["estimatedRemainingSeconds"]) == (5, 60)
    assert named(status) == {"loss": "0.5", **OWN}


def test_trainers_limit_of_metrics_leaves_out_those_of_the_guard():
    made = poster()
    post, calls = callback()
    theirs = {f"m{number}": number for number in range(256)}
    made.join(post)(None, metrics=theirs)

    assert calls[0]["metrics"] == theirs


def test_before_anything_is_measured_the_callback_posts_as_it_would(server):
    post, calls = callback()
    poster({}).join(post)(None, progress_percent=0, metrics=None)

    assert calls == [{"progress_percent": 0, "metrics": None}]


def test_a_fault_of_the_guard_does_not_reach_the_callback():
    def fail():
        raise RuntimeError("ours")

    post, calls = callback()
    posts.Poster(fail).join(post)(None, metrics={"loss": 1})

    assert calls == [{"metrics": {"loss": 1}}]


def test_a_fork_of_the_training_posts_nothing(server):
    made = poster()
    made.changed()
    server.got.get(timeout=30)
    pid = os.fork()
    if pid == 0:
        made.changed()
        made.finish()
        os._exit(made._asked - 1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize(
    ("rank", "known"),
    [(0, {"muster.dev/world-size", "muster.dev/expected-world-size", "muster.dev/verdict"}), (1, set())],
)
def test_a_training_that_the_guard_lets_not_begin_is_posted_by_rank_0(monkeypatch, rank, known):
    monkeypatch.setenv("MUSTER_EXPECTED_WORLD_SIZE", "4")
    monkeypatch.setattr(trainings, "place", lambda: (2, rank))

    assert set(posts._known()) == known
