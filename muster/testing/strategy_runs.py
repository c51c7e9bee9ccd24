"""A strategy in the service's own decision, as the webhook calls it, and what is made of its answer.

`watch` tells what a decision does besides deciding, by the audit events of Python (PEP 578).

"""

from __future__ import annotations

import base64
import copy
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import jsonpatch
import orjson

from muster.runtime_choice import Document
from muster.strategies.documents import decoding
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.frameworks import builtin
from muster.strategies.plugins.registry import FrameworkStrategy, Registry
from muster.strategies.trainer import predictions
from muster.testing.example_jobs import NAMESPACE
from muster.webhook.admission import answers, decisions, reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader

__all__ = ["applied", "decide", "jobset_of", "mutate", "reapplied", "validate", "watch"]

_ORIGIN = "strategy under test"
_BUDGET = 10.0


def mutate(strategy: FrameworkStrategy, job: Document, *cluster: Document, old: Document | None = None) -> Decision:
    """Return what the mutating webhook decides about a job; `decision.document` is the job as it will be stored.

    Args:
        strategy: the strategy under test; it is called as a plugin, on copies and under a time budget.
        job: a TrainJob or a JobSet.
        cluster: what governs it: its runtime, and of a JobSet that Trainer makes the TrainJob.
        old: the stored object, of an UPDATE; without it the request is a CREATE.
    """
    return decide(strategy, job, cluster, "mutate", old)


def validate(strategy: FrameworkStrategy, job: Document, *cluster: Document, old: Document | None = None) -> Decision:
    """Return what the validating webhook decides about a job; the arguments are those of `mutate`."""
    return decide(strategy, job, cluster, "validate", old)


def jobset_of(trainjob: Document, runtime: Document) -> dict[str, Any]:
    """Return the JobSet that Trainer would make of a TrainJob, before Muster sees it."""
    return predictions.predict(trainjob, Runtime(runtime, "live"), NAMESPACE).jobset


def decide(  # noqa: PLR0913  # a request and who answers it
    strategy: FrameworkStrategy,
    job: Document,
    cluster: tuple[Document, ...],
    phase: Literal["mutate", "validate"],
    old: Document | None = None,
    *,
    in_tree: bool = False,
) -> Decision:
    """Return a decision; `in_tree` calls the strategy on this thread and on no copies, as Muster's own are called."""
    policy = Policy(registry=_registry(strategy, in_tree=in_tree), plugin_budget=_BUDGET)
    request = reviews.of_object(phase, job["kind"], job, NAMESPACE, old)
    return decisions.evaluate(request, InMemoryReader(cluster, default_namespace=NAMESPACE), policy)


def _registry(strategy: FrameworkStrategy, *, in_tree: bool) -> Registry:
    registry = builtin.load(plugins=False)
    if type(registry.get(strategy.framework).strategy) is type(strategy):
        return registry
    if in_tree:
        registry.register(strategy)
    else:
        registry.register(strategy, _ORIGIN)
    return registry


def applied(job: Document, decision: Decision) -> object:
    """Return a job with the JSON Patch of the answer applied, by a library that is not Muster's."""
    response = orjson.loads(reviews.dumps(answers.answer(decision)))["response"]
    patch = orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return jsonpatch.apply_patch(copy.deepcopy(job), patch)


def reapplied(stored: Document, file: Document) -> dict[str, Any]:
    """Return what is sent when a file is applied again: its fields, and those of others that are stored.

    Entries of lists are matched by their name, as server-side apply does for containers and variables.
    """
    sent = {key: _sent(stored.get(key), value) for key, value in file.items()}
    return {**copy.deepcopy(dict(stored)), **sent}


def _sent(stored: object, file: object) -> object:
    match stored, file:
        case dict(), dict():
            return reapplied(stored, file)
        case list(), list() if all("name" in decoding.mapping(each) for each in (*stored, *file)):
            given = {each["name"]: each for each in file}
            kept = [_sent(each, given.pop(each["name"], each)) for each in stored]
            return [*kept, *copy.deepcopy(list(given.values()))]
    return copy.deepcopy(file)


_EVENTS = (
    "open",
    "os.",
    "shutil.",
    "socket.",
    "subprocess.",
    "urllib.",
    "http.",
    "tempfile.",
    "sqlite3.",
    "ctypes.dlopen",
)
_watching: dict[int, list[str]] = {}
_installed: list[bool] = []


@contextmanager
def watch() -> Iterator[list[str]]:
    """Collect the events of input and output on this thread; a hook stays, because Python cannot remove one."""
    if not _installed:
        sys.addaudithook(_hear)
        _installed.append(True)
    thread = threading.get_ident()
    seen: list[str] = []
    _watching[thread] = seen
    try:
        yield seen
    finally:
        del _watching[thread]


def _hear(event: str, _: object) -> None:
    if _watching and event.startswith(_EVENTS):
        seen = _watching.get(threading.get_ident())
        if seen is not None:
            seen.append(event)
