"""One author floods a real `muster serve`; no job of another author is refused meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections import Counter

import orjson
import pytest

from tests.fuzz.wire import targets
from tests.fuzz.wire.attacks import post
from tests.server.conftest import TRAINJOB, review
from tests.support import jobs, waits

ROOM = 3_000_000
"""Bytes of an object with annotations, about what an API server takes."""
LOOP = 30_000
"""Bytes of an object whose review is not large."""


def job(variables, *, fields=(), padding=0):
    made = copy.deepcopy(TRAINJOB)
    made["spec"]["trainer"]["env"] = [
        {"name": f"VARIABLE_{number:05}", "value": "x" * 8} for number in range(variables)
    ]
    memory = json.dumps({"strategy": "trl", "version": "1", "fields": dict.fromkeys(fields, "-")})
    made["metadata"]["annotations"] = {"muster.dev/applied": memory} if fields else {}
    made["metadata"]["managedFields"] = [{"manager": "x" * padding}]
    return made


def update(stored, account=None):
    """A dry run of an update, which changes the last variable."""
    sent = copy.deepcopy(stored)
    sent["spec"]["trainer"]["env"][-1]["value"] = "y"
    return _review(sent, "mallory", account=account, operation="UPDATE", old=stored, dryRun=True)


def costly():
    """A JobSet that is small enough to be evaluated in the loop and takes longest there, by its many trainings."""
    made = jobs.make_jobset(container={"command": ["trl", "sft"]}, nodes=2)
    pod = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    first, pod["containers"] = pod["containers"][0], []
    while len(orjson.dumps(made)) < LOOP:
        pod["containers"].append(first | {"name": f"c{len(pod['containers'])}"})
    return _review(made, "mallory", path="/validate/jobsets")


def _review(document, user, account=None, path="/mutate/trainjobs", **more):
    wanted = review(document, namespace=f"team-{user}", userInfo={"username": account or user}, **more)
    return post(path, orjson.dumps(wanted))


MISSING = [f"spec.trainer.env[GONE_{number}]" for number in range(256)]
FLOODS = {
    "six clients with a forged memory": [update(job(4900, fields=MISSING))] * 6,
    "more clients than there are places": [update(job(4900, fields=MISSING))] * 70,
    "as many users of one namespace": [update(job(4900, fields=MISSING), f"account-{number}") for number in range(70)],
    "more bytes than there is memory": [update(job(10, padding=ROOM))] * 30,
    "small reviews that take long": [costly()] * 60,
}
_BEGUN = 6
HONEST = _review(job(900), "ann")


class Client:
    """Sends one request after the other; whenever a connection is closed, on a new one."""

    def __init__(self, target, sent):
        self._target, self._sent = target, sent
        self._ends = None
        self.answers = Counter()

    async def ask(self):
        """Return the body of the answer, which is counted by its status."""
        try:
            if self._ends is None:
                self._ends = await asyncio.open_connection(
                    "127.0.0.1", self._target.port, ssl=self._target.context, server_hostname="localhost"
                )
            reader, writer = self._ends
            writer.write(self._sent)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
        except (OSError, asyncio.IncompleteReadError):
            head, body = b"HTTP/1.1 000 closed", b""
        self.answers[int(head[9:12])] += 1
        if not head.startswith(b"HTTP/1.1 200"):
            self.close()
        return body

    def close(self):
        if self._ends is not None:
            self._ends[1].transport.abort()
        self._ends = None

    async def flood(self):
        while True:
            await self.ask()


@contextlib.asynccontextmanager
async def flooding(target, sent):
    """Have a client for each request send it for as long as the block runs; it begins once some were answered."""
    clients = [Client(target, each) for each in sent]
    tasks = [asyncio.create_task(each.flood()) for each in clients]
    try:
        await waits.until(lambda: sum(each.answers.total() for each in clients) >= _BEGUN)
        yield clients
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in clients:
            each.close()


async def flooded(folder, kind, jobs):
    """Send jobs of another author during a flood; return their answers, and those that the flood had meanwhile."""
    async with targets.webhook(folder) as target:
        honest = Client(target, HONEST)
        async with flooding(target, FLOODS[kind]) as clients:
            before = sum((each.answers for each in clients), Counter())
            allowed = []
            while len(allowed) < jobs and honest.answers.total() == len(allowed):
                body = await honest.ask()
                if honest.answers[200] > len(allowed):
                    allowed.append(json.loads(body)["response"]["allowed"])
            after = sum((each.answers for each in clients), Counter())
        honest.close()
        return honest.answers, allowed, after - before


@pytest.mark.parametrize("jobs", [10, pytest.param(60, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", FLOODS)
async def test_no_job_is_refused_for_what_another_author_sends_at_the_same_time(tmp_path, kind, jobs):
    answers, allowed, meanwhile = await flooded(tmp_path, kind, jobs)
    assert (dict(answers), allowed) == ({200: jobs}, [True] * jobs)
    assert meanwhile.total(), "nothing else was answered, so that this was no flood"
