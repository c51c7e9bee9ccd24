"""Who may read the pages: callers are judged by the cluster, once in a while, and no token is kept or shown."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging

import aiohttp
import orjson
import pytest

from muster.certs import material_sources
from muster.certs.contexts import ServingContext
from muster.kube import transports
from muster.webhook.cluster import callers
from muster.webhook.pages import gates
from muster.webhook.pages.log_places import Shelf
from muster.webhook.pages.page_server import HEALTH, PageServer

RIGHT = gates.reading("muster-system")
USERS = {"good": "ada", "weak": "bob"}


class Answer:
    """One answer of the API server."""

    def __init__(self, status, body):
        self.status = status
        self.headers = {}
        self._data = orjson.dumps(body)

    async def chunks(self):
        yield self._data


class Cluster:
    """An API server in memory that answers reviews; `asked` has the path and the spec of each.

    Attributes:
        status: the HTTP status of its answers.
        error: what is raised in place of an answer.
        open: answers wait until it is set.
    """

    def __init__(self):
        self.asked = []
        self.status = 201
        self.error = None
        self.open = asyncio.Event()
        self.open.set()
        self.arrived = asyncio.Event()
        self.users = dict(USERS)

    @contextlib.asynccontextmanager
    async def send(self, method, path, query, patience, body=None, content_type="application/json"):
        assert (method, query, content_type, patience.connect) == ("POST", {}, "application/json", 5.0)
        self.arrived.set()
        self.asked.append((path.rpartition("/")[2], body["spec"]))
        await self.open.wait()
        if self.error:
            raise self.error
        yield Answer(self.status, {**body, "status": self._status(body)})

    def _status(self, body):
        spec = body["spec"]
        if body["kind"] == "SubjectAccessReview":
            return {"allowed": spec["user"] == "ada"}
        name = self.users.get(spec["token"])
        return {"authenticated": True, "user": {"username": name, "groups": ["g"]}} if name else {"error": "no"}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def gate(cluster, clock):
    return gates.Gate(callers.Callers(cluster), RIGHT, clock=lambda: clock[0])


def bearer(token):
    return f"Bearer {token}"


async def test_whoever_may_read_the_log_is_let_in_and_nobody_else(gate):
    found = {each: await gate.judge(bearer(each)) for each in ("good", "weak", "forged")}
    assert found == {"good": "allowed", "weak": "forbidden", "forged": "unknown"}


async def test_the_cluster_is_asked_who_it_is_and_then_whether_they_may(gate, cluster):
    await gate.judge(bearer("good"))
    (first, token), (second, spec) = cluster.asked
    assert (first, token) == ("tokenreviews", {"token": "good"})
    assert (second, spec["user"], spec["groups"]) == ("subjectaccessreviews", "ada", ["g"])
    assert spec["resourceAttributes"] == {
        "verb": "get",
        "group": "muster.dev",
        "resource": "auditlogs",
        "namespace": "muster-system",
    }


@pytest.mark.parametrize("token", ["good", "weak", "forged"])
async def test_a_verdict_is_kept_for_seconds_and_not_longer(gate, cluster, clock, token):
    first = await gate.judge(bearer(token))
    asked = len(cluster.asked)
    assert await gate.judge(bearer(token)) == first
    assert len(cluster.asked) == asked
    clock[0] = 11.0
    cluster.users = {}
    assert await gate.judge(bearer(token)) == "unknown"


async def test_a_question_that_was_not_answered_is_asked_again(gate, cluster):
    cluster.error = transports.UnreachableError("no answer")
    assert await gate.judge(bearer("good")) == "unanswered"
    cluster.error, cluster.status = None, 500
    assert await gate.judge(bearer("good")) == "unanswered"
    cluster.status = 201
    assert await gate.judge(bearer("good")) == "allowed"


async def test_requests_that_come_together_are_one_question(gate, cluster):
    cluster.open.clear()
    tasks = [asyncio.create_task(gate.judge(bearer("good"))) for _ in range(20)]
    await cluster.arrived.wait()
    cluster.open.set()
    assert set(await asyncio.gather(*tasks)) == {"allowed"}
    assert [what for what, _ in cluster.asked] == ["tokenreviews", "subjectaccessreviews"]


async def test_a_flood_of_tokens_asks_a_few_at_a_time_and_takes_bounded_memory(gate, cluster):
    cluster.open.clear()
    tasks = [asyncio.create_task(gate.judge(bearer(f"t{each}"))) for each in range(100)]
    verdicts = [task.result() for task in (await asyncio.wait(tasks, return_when="FIRST_COMPLETED"))[0]]
    assert set(verdicts) == {"unanswered"}
    assert len(cluster.asked) <= 8
    cluster.open.set()
    assert [await task for task in tasks].count("unknown") == 64
    for each in range(600):
        await gate.judge(bearer(f"u{each}"))
    assert len(gate._kept) <= 512
    assert not gate._under_way


async def test_a_caller_who_leaves_takes_no_verdict_from_those_who_wait(gate, cluster):
    cluster.open.clear()
    first, second = (asyncio.create_task(gate.judge(bearer("good"))) for _ in range(2))
    await cluster.arrived.wait()
    first.cancel()
    cluster.open.set()
    assert await second == "allowed"


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc.def-_~+/=", "abc.def-_~+/="),
        ("bearer abc", "abc"),
        (f"Basic {base64.b64encode(b'any:abc').decode()}", "abc"),
        (f"Basic {base64.b64encode(b':abc').decode()}", "abc"),
        ("Basic !", None),
        (f"Basic {base64.b64encode(bytes([255, 58, 65])).decode()}", None),
        ("Basic", None),
        ("Bearer", None),
        ("Bearer a b", None),
        ("Bearer a\u00e9", None),
        ("Digest abc", None),
        ("abc", None),
        ("", None),
        (f"Bearer {'a' * 9000}", None),
    ],
)
async def test_a_token_is_taken_from_the_header_or_there_is_none(gate, cluster, header, token):
    assert gates.token_of(header) == token
    await gate.judge(header)
    assert [spec["token"] for what, spec in cluster.asked if what == "tokenreviews"] == ([token] if token else [])


@pytest.mark.parametrize("user", [None, "x", [], {}, {"username": ""}, {"username": None}])
async def test_an_answer_without_a_user_lets_nobody_in(user):
    class Odd(Cluster):
        def _status(self, _body):
            return {"authenticated": True, "user": user, "allowed": True}

    assert await gates.Gate(callers.Callers(Odd()), RIGHT).judge(bearer("good")) in {"unknown", "unanswered"}


async def test_no_token_is_logged_or_kept(gate, cluster, caplog):
    caplog.set_level(logging.DEBUG)
    for each in ("good", "weak", "forged"):
        await gate.judge(bearer(each))
    cluster.error = transports.UnreachableError("no answer")
    await gate.judge(bearer("goodness"))
    assert all(token not in str(vars(each)) for each in caplog.records for token in ("good", "weak", "forged"))
    assert b"good" not in b"".join(gate._kept)


# Over HTTP and TLS


@pytest.fixture
async def guarded(gate, real_log):
    """Ask a site with a gate over TLS; status, headers and text."""
    material = material_sources.SelfSignedSource(["muster-audit-page.muster-system.svc", "127.0.0.1"]).current()
    context = ServingContext(material)
    server = PageServer(Shelf([real_log]), gate=gate, tls=context.ssl_context)
    port = await server.open(0)
    async with aiohttp.ClientSession() as http:

        async def ask(path="/", **headers):
            url = f"https://127.0.0.1:{port}{path}"
            async with http.get(url, headers=headers, ssl=False) as answer:
                return answer.status, answer.headers, await answer.text()

        yield ask
    await server.close()


async def test_without_a_token_nothing_of_the_log_is_said_and_a_browser_asks_for_one(guarded):
    for path in ("/", "/style.css", "/nothing", "/json/x"):
        status, headers, text = await guarded(path)
        assert status == 401
        schemes = [each.partition(" ")[0] for each in headers.getall("WWW-Authenticate")]
        assert schemes == ["Bearer", "Basic"]
        assert "kubectl create token" in text
        assert headers["Cache-Control"] == "no-store"


async def test_with_a_token_pages_are_as_without_a_gate_under_any_name_of_the_service(guarded):
    names = {"Host": "muster-audit-page.muster-system.svc"}
    status, headers, text = await guarded("/", Authorization=bearer("good"), **names)
    assert (status, "trl-sft-two-nodes" in text) == (200, True)
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    status, _, text = await guarded("/", Authorization=f"Basic {base64.b64encode(b'me:good').decode()}")
    assert (status, "trl-sft-two-nodes" in text) == (200, True)


async def test_a_refusal_says_which_right_is_missing(guarded):
    status, _, text = await guarded("/", Authorization=bearer("weak"))
    assert (status, "get on auditlogs.muster.dev in namespace muster-system" in text) == (403, True)


async def test_while_the_api_server_does_not_answer_nobody_is_let_in(guarded, cluster):
    cluster.error = transports.UnreachableError("no answer")
    status, headers, text = await guarded("/", Authorization=bearer("good"))
    assert (status, headers["Retry-After"], "try again" in text) == (503, "5", True)


async def test_a_probe_needs_no_token_and_sees_nothing(guarded, cluster):
    status, _, text = await guarded(HEALTH)
    assert (status, text, cluster.asked) == (200, "ok\n", [])
