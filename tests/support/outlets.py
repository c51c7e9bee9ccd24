"""Every text about one decision: for its author, and for others (records, pages, Events, reports, metrics)."""

from __future__ import annotations

import datetime
import pathlib
import types

import orjson

from muster.audit import chain, known, queries, scanner
from muster.webhook import metrics
from muster.webhook.admission import accounts, answers
from muster.webhook.notices import denials, outcomes
from muster.webhook.pages import filters, list_page, log_places, log_scan, record_page, record_seal
from muster.webhook.server import endings, handlers

__all__ = ["own", "shared"]

_MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def shared(decision):
    """Yield each text about a decision that others than the author of the job read, with its name."""
    yield "annotations", _text(answers.answer(decision).get("auditAnnotations", {}))
    record = known.record(accounts.record(decision, _MOMENT, 0.001))
    sealed = orjson.loads(chain.Chain().seal(record))
    yield "page", record_page.page(sealed, record_seal.Standing("", None, None), "/", []).decode()
    yield "list", list_page.page(filters.Filters({}, queries.Questions()), _listed(sealed), []).decode()
    yield "metrics", _counted(decision)
    yield "record", _text(record)
    yield "event", denials._message(record)  # what the Event says
    yield "report", _text(outcomes.said(record).results)


def own(decision):
    """Yield each text that may quote the words of the job, without tokens of a known form."""
    yield "answer", _text({key: each for key, each in answers.answer(decision).items() if key != "patch"})
    yield "full record", _text(scanner.record(accounts.record(decision, _MOMENT, 0.001)))


def _text(value):
    return orjson.dumps(value).decode()


def _listed(sealed):
    """What was found in a log of one record."""
    found = log_places.Found(log_places.LinePlace(0, "", 0), pathlib.Path("audit.log"), orjson.dumps(sealed))
    return log_scan.Scan((log_scan.Row(found, queries.Entry("audit.log", 1, sealed)),), None, 1, sealed["time"])


def _counted(decision):
    """The metrics of a service that has answered one review."""
    counts = metrics.Metrics()
    ending = endings.end(decision, 0.0)
    handlers.Admission._count(types.SimpleNamespace(_metrics=counts), decision.request, ending, 0.001)
    return counts.render().decode()
