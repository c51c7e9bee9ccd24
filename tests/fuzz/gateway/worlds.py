"""A Gateway that is attacked, with a tenant who attacks and one who only works, and what is asked of it afterwards."""

from __future__ import annotations

import asyncio
import collections
import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import httpx

from tests.fuzz.gateway import contents, flows, heads, judging
from tests.fuzz.gateway.requests import Request, rendered
from tests.fuzz.gateway.wire import Sent, exchanged
from tests.sessions.gateways import Gateway
from tests.sessions.hand import Hand, datum

__all__ = ["ATTACKS", "World", "drawn"]

ATTACKS = (*heads.ATTACKS, *contents.ATTACKS, *flows.ATTACKS)
_SPARE = 20
_DESCRIPTORS = 40  # that may be open beside those of the start: engines, readers, connections that are being closed
_MEMORY = 400 << 20  # bytes beside those of the start


def drawn(seed, number):
    """Return an attack, and the generator that draws it."""
    rng = random.Random(f"{seed}/{number}")
    return rng.choice(ATTACKS), rng


class World:
    """The Gateway and its two tenants.

    Attributes:
        key, token, link: of who attacks.
        mine, theirs: what he and the other one have.
        secret: is in requests, and belongs into no log.
        statuses: how often each was answered.
    """

    def __init__(self, folder):
        self.folder = folder
        self.gateway = _Attacked(folder)
        self.key, self._victim = self.gateway.key, self.gateway.run("keys", "create", "victim").strip()
        self.secret, self._theirs = "PLANTED-ad5f6c1e", "THEIRS-0b6c9f42"
        self.statuses: collections.Counter[int] = collections.Counter()
        self.accepted: set[str] = set()

    def __enter__(self):
        self.gateway.start()
        hands = Hand(self.gateway), Hand(self.gateway, self._victim)
        for each in hands:
            each.base = "bigram"
        self.mine, self.theirs = self._has(hands[0], "mine"), self._has(hands[1], self._theirs)
        self.mine["waiting"] = self._waiting(hands[0])
        self.theirs["odd_key"] = "tml-" + "0" * 43
        mine, theirs = hands
        self._spare = [mine.post("create_session", {})["session_id"] for _ in range(_SPARE)]
        self.token = mine.post("auth/token", {})["jwt"]
        self._secrets = [self._victim, theirs.post("auth/token", {})["jwt"], self._theirs, str(self.folder)]
        url = mine.http.get(f"/api/v1/sessions/{mine.session}/trace_export").json()["url"]
        self.link = url.partition("token=")[2]
        for each in hands:
            each.http.close()
        self._pid = self.gateway.process.pid
        self._before = self._memory(), self._descriptors()
        self._kept = self._rows()
        return self

    def __exit__(self, *_):
        self.gateway.end()

    def _has(self, hand, secret):
        hand.create()
        asked = {"model_id": hand.model, "seq_id": 1, "path": "p", "user_metadata": {"x": secret}}
        path = hand.result(hand.post("save_weights", asked)["request_id"])["path"]
        session = {"session_id": hand.session, "base_model": hand.base}
        one, other = (
            hand.post("create_sampling_session", {**session, "sampling_session_seq_id": 2**40 + each})[
                "sampling_session_id"
            ]
            for each in range(2)
        )
        mine = {"session": hand.session, "model": hand.model, "sampler": one, "idle": other, "path": path}
        return {**mine, "base": hand.base}

    def _waiting(self, hand):
        """Return a pass before which another is missing."""
        second = {"session_id": hand.session, "base_model": hand.base, "model_seq_id": 1, "lora_config": {"rank": 4}}
        hand.model = hand.post("create_model", second)["model_id"]
        return hand.step(2, [datum([1, 2, 3])])

    def fresh(self, seq):
        """Return a session that may be ended."""
        return self._spare[seq % _SPARE]

    async def attack(self, seed, number):
        """Run a case, and return its faults."""
        attack, rng = drawn(seed, number)
        sent = attack(rng, self, 2 + 10 * number)
        port = self.gateway.scraped if attack is flows.metrics else self.gateway.port
        probes = asyncio.Lock()
        probed = []

        async def between():
            async with probes:
                if not probed:
                    probed.append(await self._probe())

        try:
            stories = await asyncio.gather(*(exchanged(port, each, between) for each in sent))
        except TimeoutError:
            return [f"{attack.__name__}: no answer"]
        found = [
            fault
            for each, (answers, closed) in zip(sent, stories, strict=True)
            for fault in judging.faults(each, answers, closed, self._secrets)
        ]
        for answer in (each for answers, _ in stories for each in answers):
            self.statuses[answer.status] += 1
            self._note(answer)
        found += [each for each in probed if each]
        return [f"{attack.__name__}: {each}" for each in found]

    async def _probe(self):
        """Ask for something as the other tenant while connections of who attacks are open."""
        body = b'{"session_id": "%s"}' % self.theirs["session"].encode()
        one = Sent(
            [rendered(Request("POST", "/api/v1/session_heartbeat", body), self._victim, [("Connection", "close")])]
        )
        try:
            answers, _ = await exchanged(self.gateway.port, one, _nothing)
        except (TimeoutError, ConnectionError) as error:
            return f"the other tenant is not answered: {type(error).__name__}"
        return "" if [each.status for each in answers] == [200] else f"the other tenant is answered {answers}"

    def _note(self, answer):
        if answer.status == 200 and b'"request_id"' in answer.body and b"try_again" not in answer.body:
            found = answer.json()
            if isinstance(found, dict) and "request_id" in found:
                self.accepted.add(found["request_id"])

    def state(self):
        """Return what is wrong with the process, its log and what it tells of itself."""
        found = []
        memory, descriptors = self._memory(), self._descriptors()
        if memory > self._before[0] + _MEMORY:
            found.append(f"memory has grown from {self._before[0] >> 20} to {memory >> 20} MiB")
        if descriptors > self._before[1] + _DESCRIPTORS:
            found.append(f"descriptors have grown from {self._before[1]} to {descriptors}")
        log = (self.folder / "gateway-one.log").read_text(errors="replace")
        found += [
            f"the log has {word!r}: …{log[max(0, log.index(word) - 300) : log.index(word) + 1500]}"
            for word in ("Traceback", "ERROR")
            if word in log
        ]
        told = {"log": log, "audit": self.gateway.audit.read_text(errors="replace")}
        private = [self.key, self.token, self.link, self.secret, *self._secrets[:3]]
        found += [
            f"the {name} has a secret: {secret[:20]}"
            for name, text in told.items()
            for secret in private
            if secret in text
        ]
        return found

    def settled(self):
        """Return what is wrong with the journal when nothing waits any more."""
        deadline = time.monotonic() + 240
        for name in ("model", "waiting"):
            model = self.mine[name].removesuffix(":2")
            asked = {"model_id": model, "seq_id": 2**50, "adam_params": {"learning_rate": 0.1}}
            answer = httpx.post(
                f"{self.gateway.url}/api/v1/optim_step", json=asked, headers={"X-API-Key": self.key}, timeout=60
            )
            self.accepted.add(answer.json()["request_id"])  # after which no number is waited for
        while waits := self._ask(
            "SELECT id FROM requests WHERE state = 'waiting' AND target NOT LIKE ?", (f"{self.theirs['session']}%",)
        ):
            if time.monotonic() > deadline:
                return [f"{len(waits)} requests wait for ever, such as {waits[0]}"]
            time.sleep(0.1)
        ids = {row[0] for row in self._ask("SELECT id FROM requests")}
        lost = self.accepted - ids
        found = [f"{len(lost)} accepted requests are not in the journal, such as {min(lost)}"] if lost else []
        if self._ask("PRAGMA integrity_check") != [("ok",)]:
            found.append("the journal is broken")
        rows = self._rows()
        found += [
            f"what the other tenant has is {now}, and was {before}"
            for before, now in zip(self._kept, rows, strict=True)
            if before != now
        ]
        return found

    def _rows(self):
        session = self.theirs["session"]
        tables = {
            "sessions": ("id, tenant, created, ended, status, about", "tenant = 'victim'"),
            "models": ("id, session, done, unloaded", "session = ?"),
            "samplers": ("id, session, path, folder, answered, clones", "session = ?"),
            "checkpoints": ("path, tenant, folder, size, public, expires", "tenant = 'victim'"),
            "requests": ("id, kind, digest", "tenant = 'victim'"),
        }
        return [
            self._ask(f"SELECT {names} FROM {table} WHERE {of} ORDER BY 1", (session,) * of.count("?"))  # noqa: S608  # ours
            for table, (names, of) in tables.items()
        ]

    def _ask(self, query, values=()):
        with closing(sqlite3.connect(f"file:{self.gateway.file}?mode=ro", uri=True, timeout=30)) as journal:
            return journal.execute(query, values).fetchall()

    def _memory(self):
        return int(Path(f"/proc/{self._pid}/statm").read_text().split()[1]) * 4096

    def _descriptors(self):
        return len(list(Path(f"/proc/{self._pid}/fd").iterdir()))


class _Attacked(Gateway):
    """A Gateway with an audit log and a port of metrics."""

    def __init__(self, folder):
        self.audit = folder / "audit.log"
        self.ENGINES = (*Gateway.ENGINES, "--audit", str(self.audit), "--metrics", "0", "--name", "bigram")
        super().__init__(folder)
        self.file = folder / "journal.sqlite"

    def start(self):
        super().start()
        self.scraped = int(self.process.stdout.readline().split("/metrics")[0].rpartition(":")[2])


async def _nothing():
    return None
