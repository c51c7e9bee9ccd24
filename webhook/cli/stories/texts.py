"""Texts: a story as lines for people, and many stories as one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster.webhook.cli import problems, tables
from muster.webhook.cli.stories import words
from muster.webhook.cli.stories.told import PodTold, Story

__all__ = ["brief", "lines", "summary"]

_PODS = 20
_WORLDS = {True: "as asked", False: "NOT as asked", None: ""}


def lines(story: Story, width: int) -> Iterator[str]:
    """Yield the story, section by section; no line is longer than the width, and none has control characters."""
    age = f", {words.age(story.age)} old" if story.age is not None else ""
    yield problems.one_line(f"{story.kind} {story.namespace}/{story.name}: {story.phase}{age}")
    yield from (f"  {line}" for line in tables.wrap(problems.one_line(story.why.text), width - 2))
    yield from _gateway(story) if story.gateway else _world(story)
    yield from _sampling(story, width)
    yield from _section(("OBJECT", "CONDITION", "REASON", "MESSAGE", "SINCE"), _conditions(story), width)
    yield from _section(("POD", "PHASE", "REASON", "RESTARTS", "NODE", "LAST WORDS"), list(_pods(story)), width)
    yield from _section(("CLAIM", "HELD BY", "WAITING"), _seats(story), width)
    yield from _section(("DECIDED", "BY", "DECISION", "WHAT", "RULE"), _decisions(story), width)
    for each in story.unread:
        yield from ("", f"muster: you may not list {each} here, so nothing is told about them")


def summary(stories: Sequence[Story], width: int, *, spaces: bool) -> Iterator[str]:
    """Yield one table of all stories; `spaces` adds the namespace."""
    headers = (*(["NAMESPACE"] if spaces else []), "NAME", "KIND", "PHASE", "WORLD", "AGE", "WHY")
    rows = [
        (
            *([each.namespace] if spaces else []),
            each.name,
            "Gateway" if each.gateway else each.kind,
            each.phase,
            "-" if each.gateway else world(each),
            "-" if each.age is None else words.age(each.age),
            each.why.text,
        )
        for each in stories
    ]
    yield from tables.layout(headers, rows, width)


def brief(story: Story) -> str:
    """Return the story in one line, which changes only when something happened."""
    what = "engines of a Gateway" if story.gateway else f"world {world(story)}"
    return problems.one_line(f"{story.namespace}/{story.name}: {story.phase}, {what}: {story.why.text}")


def world(story: Story) -> str:
    """Return `asked/reached`, with `?` for what nobody said."""
    found = story.world
    mark = " (wrong)" if found.right is False else ""
    return f"{found.asked or '?'}/{'?' if found.reached is None else found.reached}{mark}"


def _gateway(story: Story) -> Iterator[str]:
    """Yield whose engines these are, which have no world size."""
    found = story.gateway
    if found is not None:
        had = f", of which process {found.term} has them" if found.term else ""
        yield ""
        yield problems.one_line(f"GATEWAY engines of the Gateway {found.name}{had}")


def _world(story: Story) -> Iterator[str]:
    found = story.world
    asked = f"{found.asked} asked for" if found.asked else "nobody said how many ranks there should be"
    if found.reached is None:
        reached = "the guard has not reported"
    else:
        where = "as Muster kept it" if found.source == "kept" else "in its status"
        reached = f"{found.reached} reported by pod {found.pod}, {where}"
    steps = f", after {found.steps} steps in {found.seconds:g} s" if found.steps and found.seconds else ""
    right = _WORLDS[found.right]
    yield ""
    yield problems.one_line(f"WORLD  {asked}; {reached}{steps}{f': {right}' if right else ''}")


def _sampling(story: Story, width: int) -> Iterator[str]:
    """Yield what a training by reinforcement learning said of its samples."""
    found = story.world.sampling
    if found is None:
        return
    took = "" if found.sync_seconds is None else f", {found.sync_seconds:g} s each"
    said = (
        ("reward {:g}", found.reward),
        ("weights sent {} times" + took, found.syncs),
        ("log probabilities differ by {:.2g}", found.difference),
        ("importance ratio {:g}", found.ratio),
        ("{:g} versions behind", found.staleness),
        ("{} samples dropped", found.dropped),
    )
    told = "; ".join(text.format(value) for text, value in said if value is not None)
    yield from tables.wrap(f"SAMPLING {told}", width)


def _section(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    if rows:
        yield ""
        yield from tables.layout(headers, rows, width)


def _conditions(story: Story) -> list[tuple[str, ...]]:
    return [(each.object, each.type, each.reason or "-", each.message or "-", each.since) for each in story.conditions]


def _pods(story: Story) -> Iterator[tuple[str, ...]]:
    """Yield rows of pods, those with a problem first; of many only some."""
    ordered = sorted(story.pods, key=_calm)
    for each in ordered[:_PODS]:
        yield each.name, each.phase, each.reason or "-", str(each.restarts), each.node or "-", each.words or "-"
    if len(ordered) > _PODS:
        yield f"and {len(ordered) - _PODS} more", "", "", "", "", ""


def _calm(pod: PodTold) -> bool:
    return not (pod.words or pod.reason or pod.restarts)


def _seats(story: Story) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for each in story.seats:
        held = [f"{name}{f' ({count})' if count > 1 else ''} {words.age(since)}" for name, count, since in each.holders]
        waiting = [f"{name} {words.age(since)}" for name, since in each.waiting]
        rows.append((each.claim, ", ".join(held) or "-", words.listed(waiting) or "-"))
    return rows


def _decisions(story: Story) -> list[tuple[str, ...]]:
    return [(each.time, each.source, each.decision, each.text, each.rule or "-") for each in story.decisions]
