"""Runs of many attacks against one program, several at a time, while good clients are answered."""

from __future__ import annotations

import asyncio
import json
import random as chances
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.wire import clients, framings, handshakes, heads, pages, reviews, rules, targets
from tests.fuzz.wire.attacks import Attack, head, post, secret_of
from tests.support import waits

__all__ = ["KINDS", "Report", "draw", "main", "run"]

_AT_ONCE = 24
_ROOMS = {
    "webhook": (heads, framings, reviews, reviews, handshakes),
    "pages": (heads, framings, pages, pages),
}
KINDS = tuple(_ROOMS)
_EACH = 1000  # attacks on one process
_SECONDS, _EACH_BYTE, _EACH_REQUEST = 0.1, 2e-6, 2e-3
"""Seconds of processor time that an attack may take: two good requests with their handshakes take a tenth of it."""
_MOST_MEMORY = 512
"""MiB, which a pod of the service may have."""


@dataclass
class Report:
    """What a run found.

    Attributes:
        attacks: how many were made, by name.
        answers: how many there were, by status.
        probes: how many good requests were answered meanwhile.
        memory: the most that the program took, in MiB, before and after.
        faults: (name, what), each way once.
    """

    attacks: Counter = field(default_factory=Counter)
    answers: Counter = field(default_factory=Counter)
    probes: int = 0
    memory: tuple = (0, 0)
    faults: dict = field(default_factory=dict)

    def told(self):
        answers = ", ".join(f"{count} of {status}" for status, count in sorted(self.answers.items(), key=str))
        return (
            f"{sum(self.attacks.values())} attacks, answers: {answers}; {self.probes} good requests were answered"
            f" meanwhile; {self.memory[0]} to {self.memory[1]} MiB; {len(self.faults)} faults"
        )

    def note(self, one, number, fault):
        name = one.name if one else "afterwards"
        key = name, re.sub(r"\d+|b'.*'", "N", fault)[:120]
        self.faults.setdefault(key, f"{number} {name}: {fault}")


def draw(kind, seed, number):
    """The attack of a number."""
    random = chances.Random(f"{kind}/{seed}/{number}")
    secret = secret_of(random)
    rooms = _ROOMS[kind]
    room = rooms[number % len(rooms)]

    def review():
        uid = reviews.uid_of(random)
        return json.dumps(reviews.plain(uid)).encode(), uid

    one = random.choice(room.WAYS)(random, secret, review)
    one.secret = secret
    if kind == "pages":
        one.reviews = one.recorded = ()
    return one


async def run(kind, seed, first, count, *, alone=False):
    """Make attacks, several at once or each alone, when its processor time is asked too; return a report."""
    with tempfile.TemporaryDirectory() as name:
        async with getattr(targets, kind)(Path(name)) as target:
            return await _Run(kind, target, alone).run(seed, first, count)


def main(kind, seed, first, count, *, alone=False):
    """Make attacks, on a new program after some; print what came of them; return 1 where something was wrong."""
    found = {}
    for at in range(first, first + count, _EACH):
        report = asyncio.run(run(kind, seed, at, min(_EACH, first + count - at), alone=alone))
        print(f"fuzz: {kind}, seed {seed}, from {at}: {report.told()}", flush=True)
        for key, fault in report.faults.items():
            if key not in found:
                print(f"    {fault[:600]}", flush=True)
        found |= report.faults
    return 1 if found else 0


class _Run:
    def __init__(self, kind, target, alone):
        self._kind, self._target, self._alone = kind, target, alone
        self._ways = clients.Handshakes(target)
        self._report = Report()
        self._numbers = iter(range(10**9))

    async def run(self, seed, first, count):
        target, report = self._target, self._report
        for _ in range(2):
            await self._heard()
        await waits.until(target.recorded)  # so that the file is open
        before = len(target.recorded())
        opened, memory = target.opened(), target.memory()
        made = [draw(self._kind, seed, number) for number in range(first, first + count)]
        places = asyncio.Semaphore(1 if self._alone else _AT_ONCE)

        async def one_by_one(number, one):
            async with places:
                await self._attacked(number, one)

        await asyncio.gather(*(one_by_one(first + number, one) for number, one in enumerate(made)))
        await self._heard()
        await self._left(opened)
        report.memory = round(memory), round(target.memory())
        if target.memory() > _MOST_MEMORY:
            report.note(None, "", f"it took {target.memory():.0f} MiB")
        lines = target.recorded()[before:]
        for fault in rules.after(made, target, lines, pages=self._kind == "pages"):
            report.note(None, "", fault)
        return report

    async def _attacked(self, number, one):
        before = self._target.processor()
        outcome = await clients.attack(self._target, self._ways, one, self._heard)
        if self._alone:
            await self._heard()
            taken = self._target.processor() - before
            size = sum(map(len, one.parts)) + len(outcome.raw)
            if taken > _SECONDS + _EACH_BYTE * size + _EACH_REQUEST * one.requests:
                self._report.note(one, number, f"{size} bytes took {taken:.2f} s of processor time")
        self._report.attacks[one.name] += 1
        self._report.answers.update(each.status for each in outcome.answers)
        if outcome.refused:
            self._report.answers["no handshake"] += 1
        for fault in rules.of_one(one, outcome, pages=self._kind == "pages"):
            self._report.note(one, number, fault)

    async def _heard(self):
        """Somebody good is answered, on a connection of their own."""
        number = next(self._numbers)
        if self._kind == "webhook" and number % 2:
            uid = f"good-{number}"
            one = Attack("good", (post("/mutate/trainjobs", json.dumps(reviews.plain(uid)).encode()),), reviews=(uid,))
        else:
            one = Attack("good", (head(b"GET", b"/healthz"),))
        outcome = await clients.attack(self._target, self._ways, one, self._heard)
        faults = list(rules.of_one(one, outcome, pages=self._kind == "pages"))
        if faults or [each.status for each in outcome.answers] != [200]:
            self._report.note(one, number, f"{faults} {[each.status for each in outcome.answers]} {outcome.refused}")
        else:
            self._report.probes += 1

    async def _left(self, opened):
        """Wait until no connection is left."""
        try:
            await waits.until(lambda: self._target.opened() <= opened)
        except TimeoutError:
            self._report.note(None, "", f"descriptors are left open: {self._target.opened() - opened}")
        if self._kind != "webhook":
            return
        one = Attack("metrics", (head(b"GET", b"/metrics"),))
        outcome = await clients.attack(self._target, self._ways, one, self._heard)
        text = outcome.answers[0].body.decode()
        for name in (
            "muster_admission_in_flight",
            'muster_connections{state="busy"}',
        ):
            if not re.search(rf"^{re.escape(name)} 0\.0$", text, re.MULTILINE):
                self._report.note(
                    None, "", f"{name} is not 0: {re.findall(rf'^{re.escape(name)}.*$', text, re.MULTILINE)}"
                )
