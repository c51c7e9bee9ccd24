"""Whatever is sent, the answer is a review or a 4xx, and soon."""

from __future__ import annotations

import asyncio
import gzip

import orjson
import pytest

from muster.front.connections import Limits
from muster.webhook.cluster import readers
from tests.server.conftest import TRAINJOB, review
from tests.support import waits

JSON = {"Content-Type": "application/json"}


def without(*path):
    body = review()
    node = body
    for part in path[:-1]:
        node = node[part]
    del node[path[-1]]
    return orjson.dumps(body)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[]", 400),
        (b"null", 400),
        (b'{"kind": "Pod"}', 400),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', 400),
        (b"[" * 100_000, 400),
        (b'{"a":' * 100_000, 400),
        (without("request"), 400),
        (without("request", "uid"), 400),
        (gzip.compress(orjson.dumps(review())), 400),
    ],
    ids=[
        "empty",
        "cut",
        "bytes",
        "list",
        "null",
        "other",
        "no-request",
        "deep-lists",
        "deep-objects",
        "r",
        "uid",
        "gzip",
    ],
)
async def test_what_is_no_review_gets_a_plain_400(serve, body, status):
    webhook = await serve()
    assert (await webhook.post("/mutate/trainjobs", body))[0] == status


@pytest.mark.parametrize("member", ["operation", "kind", "object"])
async def test_a_review_that_lacks_a_member_is_refused_by_name(serve, member):
    webhook = await serve()
    status, body = await webhook.post("/mutate/trainjobs", without("request", member))
    response = orjson.loads(body)["response"]
    assert (status, response["allowed"], response["uid"]) == (200, False, "u1")
    assert f"request.{member}" in response["status"]["message"]


async def test_another_version_is_refused_with_the_one_that_is_served(serve):
    webhook = await serve()
    _, body = await webhook.post("/mutate/trainjobs", review() | {"apiVersion": "admission.k8s.io/v1beta1"})
    assert "admission.k8s.io/v1" in orjson.loads(body)["response"]["status"]["message"]


async def test_an_update_without_its_old_object_is_refused(serve):
    webhook = await serve()
    response = await webhook.admit(operation="UPDATE", old=None)
    assert "request.oldObject" in response["status"]["message"]


async def test_another_content_type_is_refused(serve):
    webhook = await serve()
    status, _ = await webhook.post("/mutate/trainjobs", review(), headers={"Content-Type": "text/yaml"})
    assert status == 415


async def test_only_post_is_served_on_admission_paths(serve):
    webhook = await serve()
    async with webhook.http.get(webhook.url + "/mutate/trainjobs") as answer:
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")


async def test_an_unknown_path_is_not_found(serve):
    webhook = await serve()
    assert (await webhook.post("/mutate/pods", review()))[0] == 404


async def test_an_object_of_three_mebibytes_is_admitted(serve):
    webhook = await serve()
    metadata = TRAINJOB["metadata"] | {"annotations": {"notes": "x" * 3 * 1024 * 1024}}
    assert (await webhook.admit(document=TRAINJOB | {"metadata": metadata}))["allowed"]


async def test_a_body_over_the_limit_is_refused_and_the_next_one_is_served(serve):
    webhook = await serve(body_limit=100_000)
    assert (await webhook.post("/mutate/trainjobs", b" " * 200_000))[0] == 413
    assert (await webhook.admit())["allowed"]


async def test_a_body_that_never_ends_is_given_up(serve):
    webhook = await serve(limits=(200, 0.1))

    async def slowly():
        yield b"{"
        await asyncio.Event().wait()

    async with webhook.http.post(webhook.url + "/mutate/trainjobs", data=slowly(), headers=JSON) as answer:
        assert answer.status == 408


class Empty:
    """A cache that knows nothing."""

    whole = True

    def get(self, ref):
        raise readers.NotCached(ref)


async def test_more_admissions_at_once_than_allowed_are_turned_away(serve):
    turned_away = asyncio.Event()

    async def fetch(ref):
        await turned_away.wait()

    webhook = await serve(Empty(), fetch, limits=(1, 60))
    waiting = asyncio.create_task(webhook.post("/mutate/trainjobs", review()))
    await waits.until(lambda: b"muster_admission_in_flight 1.0" in webhook.metrics.render())
    async with webhook.http.post(f"{webhook.url}/mutate/trainjobs", json=review()) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
    turned_away.set()
    assert (await waiting)[0] == 200
    assert b"muster_admission_in_flight 0.0" in webhook.metrics.render()


async def test_an_author_of_many_admissions_gives_way_to_another_and_is_turned_away_first(serve):
    free = asyncio.Event()

    async def fetch(ref):
        await free.wait()

    webhook = await serve(Empty(), fetch, limits=(3, 60))

    async def sent(user, **more):
        body = review(namespace=user, userInfo={"username": user}, **more)
        return (await webhook.post("/mutate/trainjobs", body))[0]

    first = []
    for count in range(1, 4):
        first.append(asyncio.create_task(sent("ann")))
        await waits.until(lambda count=count: b"in_flight %.1f" % count in webhook.metrics.render())
    others = [asyncio.create_task(sent("bob"))]
    assert await asyncio.wait_for(first[2], waits.LIMIT) == 429
    assert await sent("ann") == 429
    assert await sent("bob") == 429, "of three places, two of another author are one more than this one has"
    free.set()
    assert await asyncio.gather(*first[:2], *others) == [200, 200, 200]
    assert b"muster_admission_in_flight 0.0" in webhook.metrics.render()


@pytest.mark.parametrize("users", [["ann"] * 3, ["ann", "cat", "dan"]], ids=["one user", "users of one namespace"])
@pytest.mark.parametrize("length", [100, 60_000], ids=["small", "large"])
async def test_an_author_of_most_bytes_gives_way_to_a_body_that_arrives(serve, length, users):
    free = asyncio.Event()

    async def fetch(ref):
        await free.wait()

    room = 3 * 60_000
    webhook = await serve(Empty(), fetch, body_limit=100_000, connection_limits=Limits(bodies=room))

    async def sent(namespace, user, size):
        body = orjson.dumps(review(namespace=namespace, userInfo={"username": user}))
        return (await webhook.post("/mutate/trainjobs", body.ljust(size)))[0]

    first = []
    for count, user in enumerate(users, 1):
        first.append(asyncio.create_task(sent("team-a", user, 59_990)))
        await waits.until(lambda count=count: b"in_flight %.1f" % count in webhook.metrics.render())
    other = asyncio.create_task(sent("team-b", "bob", length))
    await asyncio.wait(first, timeout=waits.LIMIT, return_when=asyncio.FIRST_COMPLETED)
    dropped = [task.result() for task in first if task.done()]
    assert dropped == [429]
    free.set()
    assert sorted(await asyncio.gather(*first, other)) == [200, 200, 200, 429]
    assert other.result() == 200
    assert webhook.listener.bodies.held == 0


async def test_a_compressed_body_is_not_unpacked(serve):
    webhook = await serve()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    status, said = await webhook.post("/mutate/trainjobs", gzip.compress(orjson.dumps(review())), headers=headers)
    assert status == 400
    assert b"JSON" in said


async def test_who_sends_slowly_takes_nobodys_turn(serve):
    webhook = await serve(limits=(1, 60))
    answered, begun = asyncio.Event(), asyncio.Event()

    async def slowly():
        yield b"{"
        begun.set()
        await answered.wait()
        yield b"}"

    async def first():
        async with webhook.http.post(webhook.url + "/mutate/trainjobs", data=slowly(), headers=JSON) as answer:
            return answer.status

    waiting = asyncio.create_task(first())
    await begun.wait()
    assert (await webhook.admit())["allowed"]
    answered.set()
    assert await waiting == 400
