"""JSON of stories: `muster.dev/status/v1`, to which members are only ever added."""

from __future__ import annotations

from typing import Any

from muster.webhook.cli.stories.told import Story

__all__ = ["item"]


def item(story: Story) -> dict[str, Any]:
    """Return the members of a story; times of waiting and holding are in whole seconds."""
    world = story.world
    return {
        "namespace": story.namespace,
        "name": story.name,
        "kind": story.kind,
        "phase": story.phase,
        "why": {"code": story.why.code, "text": story.why.text},
        "ageSeconds": None if story.age is None else int(story.age),
        "world": {
            "asked": world.asked,
            "reached": world.reached,
            "right": world.right,
            "source": world.source,
            "pod": world.pod,
            "steps": world.steps,
            "seconds": world.seconds,
        },
        "verdict": world.verdict,
        "sampling": world.sampling.written() if world.sampling else None,
        "gateway": {"name": story.gateway.name, "term": story.gateway.term} if story.gateway else None,
        "conditions": [
            {
                "object": each.object,
                "type": each.type,
                "reason": each.reason,
                "message": each.message,
                "since": each.since,
            }
            for each in story.conditions
        ],
        "pods": [
            {
                "name": each.name,
                "phase": each.phase,
                "reason": each.reason or None,
                "restarts": each.restarts,
                "node": each.node or None,
                "lastWords": each.words or None,
            }
            for each in story.pods
        ],
        "seats": [
            {
                "claim": each.claim,
                "holders": [
                    {"name": name, "seats": count, "seconds": int(seconds)} for name, count, seconds in each.holders
                ],
                "waiting": [{"pod": name, "seconds": int(seconds)} for name, seconds in each.waiting],
            }
            for each in story.seats
        ],
        "decisions": [
            {
                "source": each.source,
                "time": each.time or None,
                "decision": each.decision,
                "text": each.text,
                "rule": each.rule or None,
            }
            for each in story.decisions
        ],
        "unread": list(story.unread),
    }
