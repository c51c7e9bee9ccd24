"""The service without its sockets: a body goes in, and all that Muster says comes out.

Behind the handler everything is real: the resolver, the audit writer with its redaction and its chain, the logs, the
metrics, Events on denials and reports. Only the cluster is made of documents, and what is written to it is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import marshal
import signal
import sys
import time
from dataclasses import dataclass, field
from unittest import mock

import orjson
from aiohttp import web
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import StreamReader
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from webhook import logs
from webhook.audit.log import writer
from webhook.audit.redaction import redaction
from webhook.cluster import writes
from webhook.cluster.memory import DuplicateError, InMemoryReader, UnnamedError
from webhook.metrics import Metrics
from webhook.notices import denials
from webhook.notices.reports import folds, formats, writers
from webhook.server import handlers
from webhook.server.resolvers import Resolver

__all__ = ["Exchange", "Service", "reader_of"]

_PATHS = {(phase, kind): path for path, (phase, kind) in handlers.ADMISSION_PATHS.items()}


@dataclass
class Exchange:
    """What one request brought.

    Attributes:
        phase: mutate or validate.
        body: what was sent.
        status: of the HTTP answer; 0 when the handler raised.
        answer: the body of the answer.
        submitted: records that were given to the audit log.
        lines: lines of the audit log.
        logged: lines of the process's own log.
        seconds: processor time of the whole process.
        spoilt: documents that the evaluation changed in place.
        raised: what the handler raised.
    """

    phase: str
    body: bytes
    status: int = 0
    answer: bytes = b""
    submitted: list = field(default_factory=list)
    lines: list = field(default_factory=list)
    logged: list = field(default_factory=list)
    seconds: float = 0.0
    spoilt: list = field(default_factory=list)
    raised: str = ""

    @property
    def response(self):
        """The AdmissionResponse, None when the answer is none."""
        try:
            review = orjson.loads(self.answer)
        except orjson.JSONDecodeError:
            return None
        response = review.get("response") if isinstance(review, dict) else None
        return response if isinstance(response, dict) and review.get("kind") == "AdmissionReview" else None


class _EndlessError(BaseException):
    """A request took too long; no handler of the product catches this."""


@contextlib.contextmanager
def _patience(seconds):
    def end(*_):
        raise _EndlessError(f"nothing after {seconds:g} s")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


class _Lines(logging.Handler):
    """Keeps the lines that the service would write to stderr."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.setFormatter(logs.JsonFormatter())
        self.kept = []

    def emit(self, record):
        self.kept.append(self.format(record))


class _Sink:
    """The audit log, in memory."""

    name = "memory"

    def __init__(self):
        self.kept = []

    def write(self, line):
        self.kept.append(line)

    def last_lines(self):
        return iter(())

    def close(self):
        pass


class _Cluster:
    """An API server that takes everything that is written and has nothing."""

    def __init__(self):
        self.kept = []

    @contextlib.asynccontextmanager
    async def send(self, method, path, query, patience, body=None, content_type=""):
        if method == "GET":
            yield _Answer(404, b"{}")
            return
        self.kept.append(orjson.dumps(body))
        metadata = {"name": "made", **(body.get("metadata") or {})} if isinstance(body, dict) else {"name": "made"}
        yield _Answer(201, orjson.dumps({**body, "metadata": metadata} if isinstance(body, dict) else {}))


class _Answer:
    headers = {}  # noqa: RUF012 - read only

    def __init__(self, status, body):
        self.status = status
        self._body = body

    async def chunks(self):
        yield self._body


class _Recorder:
    """Gives records to the audit log and to those who tell the cluster, and keeps them."""

    def __init__(self, audit, tellers):
        self.kept = []
        self._audit, self._tellers = audit, tellers

    def submit(self, record):
        self.kept.append(record)
        for each in self._tellers:
            each.take(record)
        return self._audit.submit(record)


class _Watching:
    """A resolver that says which of its documents an evaluation changed in place."""

    def __init__(self, resolver):
        self._resolver = resolver
        self.spoilt = []

    async def decide(self, request, *rest, **named):
        before = [_packed(each) for each in (request.document, request.old)]
        decision = await self._resolver.decide(request, *rest, **named)
        for name, was, now in zip(("object", "oldObject"), before, (request.document, request.old), strict=True):
            if _packed(now) != was:
                self.spoilt.append(name)
        return decision

    def __getattr__(self, name):
        return getattr(self._resolver, name)


def _packed(document):
    """Bytes that differ when a document does; `marshal` reaches deeper than orjson."""
    return marshal.dumps(document, 2)


class Service:
    """One service for many cases; use it as a context manager.

    Args:
        patience: seconds of processor time after which a request is ended.
        threads: whether large reviews are evaluated on threads with deadlines, as in the service. Without, the same
            cases have the same answers on every machine.
    """

    def __init__(self, patience=10.0, *, threads=True):
        self._patience = patience
        self._apart = handlers.APART if threads else sys.maxsize
        self._runner = asyncio.Runner()

    def __enter__(self):
        self.metrics, self.cluster, self._sink, self._lines = Metrics(), _Cluster(), _Sink(), _Lines()
        self.dropped = []
        self._audit = writer.AuditWriter(
            [self._sink], linger=0.0, queue_size=100_000, on_drop=lambda reason, _count: self.dropped.append(reason)
        )
        self._root = logging.getLogger()
        self._level = self._root.level
        self._root.addHandler(self._lines)
        self._root.setLevel(logging.DEBUG)
        logging.getLogger("asyncio").setLevel(logging.INFO)
        self._runner.run(self._open())
        return self

    def __exit__(self, *_):
        self._runner.run(self._end())
        self._audit.close(5.0)
        self._root.removeHandler(self._lines)
        self._root.setLevel(self._level)
        self._runner.close()

    async def _open(self):
        access = writes.Writes(self.cluster)
        pace = denials.EventPace(room=100_000, pause=0.0, quiet=0.0)
        self._denials = denials.Denials(access, redaction.redact, pace=pace)
        pace = writers.ReportPace(room=100_000, pause=0.0, settle=0.0, quiet=0.0)
        self._reports = writers.Reports(
            access, formats.FORMATS["openreports"], redaction.redact, limits=folds.Limits(1000, 86400.0), pace=pace
        )
        self._recorder = _Recorder(self._audit, (self._denials, self._reports))
        self._tasks = [asyncio.create_task(each.run()) for each in (self._denials, self._reports)]

    async def _end(self):
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def told(self):
        """What was told since the last call, in bytes: Events and reports, and the page of metrics.

        The pages of `muster audit serve` show lines of the audit log, which are looked through one by one.
        """
        return [*self._runner.run(self._told()), self.metrics.render()]

    async def _told(self):
        for _ in range(2000):
            if not self._denials._waiting and not tuple(self._reports._pending):
                break
            await asyncio.sleep(0.001)
        kept, self.cluster.kept = self.cluster.kept, []
        return kept

    def ask(self, phase, kind, body, reader, policy):
        """Send one body to a path, with a cluster of its own; return the exchange."""
        exchange = Exchange(phase, body)
        with _patience(self._patience):
            try:
                with mock.patch.object(handlers, "APART", self._apart):
                    self._runner.run(self._ask(exchange, kind, reader, policy))
            except _EndlessError as error:
                exchange.raised, exchange.seconds = str(error), self._patience
        return exchange

    async def _ask(self, exchange, kind, reader, policy):
        resolver = Resolver(reader, None, self.metrics)
        watching = _Watching(resolver)
        admission = handlers.Admission(lambda: policy, watching, self._recorder, self.metrics, (200, 3600.0))
        before = [_packed(each) for each in _documents(reader)]
        self._recorder.kept, self._sink.kept, self._lines.kept = [], [], []
        request = _request(_PATHS[exchange.phase, kind], exchange.body)
        began = time.process_time()
        try:
            answer = await admission.handle(request, exchange.phase, kind)
            exchange.status, exchange.answer = answer.status, bytes(answer.body or b"")
        except Exception as error:  # noqa: BLE001 - what a connection would end with is a finding
            exchange.raised = f"{type(error).__name__}: {str(error)[:300]}"
        self._audit.flush(60.0)
        exchange.seconds = time.process_time() - began
        resolver.close()
        exchange.submitted, exchange.lines, exchange.logged = self._recorder.kept, self._sink.kept, self._lines.kept
        exchange.spoilt = list(watching.spoilt)
        if before != [_packed(each) for each in _documents(reader)]:
            exchange.spoilt.append("cluster")
        return exchange


def reader_of(documents, namespace):
    """A cluster of these documents, without those that no API server would keep."""
    reader = InMemoryReader(default_namespace=namespace or "default")
    for document in documents:
        with contextlib.suppress(
            DuplicateError, UnnamedError, TypeError, AttributeError
        ):  # a namespace that is no text cannot be stored
            reader.add(document)
    return reader


def _documents(reader):
    return [each for each in reader._documents.values() if not isinstance(each, Exception)]


class _Protocol:
    """What a request needs of its connection."""

    transport = None
    ssl_context = peername = sockname = None
    _reading_paused = False

    def resume_reading(self, *_args, **_options):
        pass

    def pause_reading(self, *_args, **_options):
        pass


def _request(path, body):
    loop = asyncio.get_running_loop()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Host": "muster"}
    found = CIMultiDictProxy(CIMultiDict(headers))
    lines = tuple((key.encode(), value.encode()) for key, value in headers.items())
    url = URL.build(path=path, encoded=True)
    message = RawRequestMessage(
        "POST",
        path,
        HttpVersion11,
        found,
        lines,
        False,
        None,
        False,
        False,
        url,
    )
    payload = StreamReader(_Protocol(), 2**26, loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    return web.BaseRequest(message, payload, _Protocol(), None, None, loop, client_max_size=64 * 1024 * 1024)
