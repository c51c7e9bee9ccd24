"""A session as text: where its runs are, what waits and why, what failed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from muster.sessions.cli.texts import clean, count, moment, number, spark
from muster.sessions.cli.views import RATED

__all__ = ["page"]

_METRICS = 12  # in a line
_LOSS = "loss:sum"


def page(view: Mapping[str, Any]) -> str:
    """Return a session as lines."""
    return "\n".join([*_session(view), *(line for run in view["runs"] for line in _run(run)), *_errors(view)])


def _session(view: Mapping[str, Any]) -> Iterator[str]:
    yield f"session {clean(view['id'])} of {clean(view['tenant'])}: {clean(view['status'])}"
    if view["name"] or view["tags"]:
        yield f"  called {clean(' '.join(map(str, [view['name'] or '', *view['tags']])))}"
    yield f"  began {view['created']}, last heard of {view['seen']}"
    if view["ended"]:
        yield f"  ended {view['ended']}: {clean(view['detail'] or 'as its client said')}"
    else:
        yield from (f"  {clean(why, 400)}" for why in view["engines"].values() if why)
    used = view["used"]
    yield (
        f"  tokens: {used.get('training', 0):,} trained, {used.get('sampling_prefill', 0):,} read and"
        f" {used.get('sampling_sample', 0):,} sampled"
    )
    if view["samples"]["waiting"]:
        samples = view["samples"]
        told = count(samples["waiting"], "sample waits", "samples wait")
        yield f"  {told}, the first since {samples['since']}: {clean(samples['why'])}"


def _run(run: Mapping[str, Any]) -> Iterator[str]:
    trained = f"LoRA of rank {run['rank']}" if run["rank"] else "all weights"
    yield f"run {clean(run['id'])}: {clean(run['base'])}, {trained}"
    yield f"  {_progress(run)}"
    if run["last_steps"]:
        metrics = list(run["last_steps"][-1]["metrics"].items())[:_METRICS]
        yield f"  metrics: {', '.join(f'{clean(name)} {_value(value)}' for name, value in metrics)}"
        losses = [_loss(each) for each in run["last_steps"]]
        yield f"  loss of a token: {spark(losses)} {number(losses[0])} to {number(losses[-1])}"
    yield f"  {_weights(run)}"
    if run["waiting"]:
        yield f"  {_queue(run)}"


def _progress(run: Mapping[str, Any]) -> str:
    if not run["last_steps"]:
        return f"no step of the optimizer yet; {count(run['requests'], 'request', 'requests')} executed"
    last, rate = run["last_steps"][-1], run["tokens_per_second"]
    told = f"step {run['steps']:,} at {moment(last['at'])}: {count(last['tokens'], 'token', 'tokens')}"
    return told if rate is None else f"{told}, {number(rate)} tokens/s over the last {RATED} steps at most"


def _value(value: float | None) -> str:
    return "not finite" if value is None else number(value)


def _loss(step: Mapping[str, Any]) -> float:
    loss = step["metrics"].get(_LOSS)
    return math.nan if loss is None or not step["tokens"] else loss / step["tokens"]


def _weights(run: Mapping[str, Any]) -> str:
    if run["unloaded"]:
        kept = f"weights: unloaded {run['unloaded']}"
    elif run["on_disk"] is None:
        kept = "weights: not on disk yet"
    else:
        kept = f"weights: on disk as after request {run['on_disk']}"
    if not run["checkpoints"]:
        return kept
    return f"{kept}; {count(run['checkpoints'], 'checkpoint', 'checkpoints')}, the last {clean(run['last_checkpoint'])}"


def _queue(run: Mapping[str, Any]) -> str:
    told = count(run["waiting"], "request waits", "requests wait")
    if not run["queue"]:
        return told
    first = run["queue"][0]
    return f"{told}, first {clean(first['kind'])} {first['seq']} since {first['since']}: {clean(first['why'], 400)}"


def _errors(view: Mapping[str, Any]) -> Iterator[str]:
    if view["errors"]:
        yield "last errors:"
    for each in view["errors"]:
        where = f"{clean(each['kind'])} {clean(each['request'])}"
        yield f"  {each['at']} {clean(each['category'])}: {where}: {clean(each['text'], 400)}"
