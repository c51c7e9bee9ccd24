"""The series that Muster exposes, found in the code: what every service counts, and what parts of it add."""

from __future__ import annotations

import ast

from muster.sessions.devices import figures
from muster.sessions.metrics import Metrics as OfSessions
from muster.webhook.controllers.controller_service import FIGURES
from muster.webhook.metrics import Metrics
from tests.operations.pages import ROOT


def exposed():
    """Labels by the name of each series, as Prometheus knows it (`_total` of counters, histograms by their base)."""
    return counted() | dict(watched())


def of_sessions():
    """The same of a Gateway of RL sessions, whose busy seconds are read from a collector."""
    made = OfSessions()
    busy = {each.name: each for each in made.registry.collect()}["muster_sessions_engine_busy_seconds"]
    labels = tuple(busy.samples[0].labels)
    return _counted(made) | {f"{busy.name}_total": labels}


def of_devices():
    """The same of an agent of a device."""
    return {name: labels for name, (_, labels, _) in figures.SERIES.items()}


def counted():
    """What `Metrics` has from the start."""
    return _counted(Metrics())


def _counted(metrics):
    return {
        each.describe()[0].name + ("_total" if each._type == "counter" else ""): tuple(each._labelnames)
        for each in metrics.registry._collector_to_names
        if hasattr(each, "_labelnames")
    }


def watched():
    """What parts add by `watch`, each as (name, labels)."""
    for path in sorted((ROOT / "webhook").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "watch":
                name, label = node.args[0], node.args[2]
                yield from ((each, (label.value,)) for each in _names(name))


def _names(node):
    if isinstance(node, ast.Constant):
        return [node.value]
    prefix, _ = node.values  # an f-string over the figures of the controllers
    return [prefix.value + figure for figure in FIGURES]
