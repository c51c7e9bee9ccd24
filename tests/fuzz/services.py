"""The service without its sockets: a body goes in, and all that Muster says comes out.

Behind the handler everything is real: the resolver, the audit writer with its chain, what is known of a record, the
logs, the metrics, Events on denials and reports. Only the cluster is made of documents, and what is written to it is
kept. What the service does later or on threads of its own (the log, Events, reports) is done here at once and on this
thread, so that it belongs to its request, and a thread is not woken for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import marshal
import queue
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

from muster.audit import writer
from muster.webhook import logs
from muster.webhook.cluster import writes
from muster.webhook.cluster.memory import DuplicateError, InMemoryReader, UnnamedError
from muster.webhook.metrics import Metrics
from muster.webhook.notices import denials, report_objects, report_writers
from muster.webhook.server import handlers, recorders
from muster.webhook.server.resolvers import Resolver

__all__ = ["Exchange", "Service", "reader_of"]

_log = logging.getLogger(__name__)
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
        told: Events and reports about it, as they were written, where they were asked for.
        seconds: processor time of the whole process, without what was told.
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
    told: list = field(default_factory=list)
    seconds: float = 0.0
    spoilt: list = field(default_factory=list)
    raised: str = ""

    @functools.cached_property
    def response(self):
        """The AdmissionResponse, once the answer is there; None when the answer is none."""
        try:
            review = orjson.loads(self.answer)
        except orjson.JSONDecodeError:
            return None
        response = review.get("response") if isinstance(review, dict) else None
        return response if isinstance(response, dict) and review.get("kind") == "AdmissionReview" else None


class _EndlessError(BaseException):
    """A request took too long; no handler of the product catches this."""


def _end(*_):
    raise _EndlessError("nothing within the time that it may take")


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
    is_kept = False

    def __init__(self):
        self.kept = []

    def write(self, line):
        self.kept.append(line)

    def damage(self):
        return ""

    def last_lines(self):
        return iter(())

    def close(self):
        pass


class _Writer(writer.AuditWriter):
    """The writer of the audit log, which works when it is asked for what it wrote, and not on its thread."""

    def _run(self):
        pass

    def flush(self, timeout):
        with contextlib.suppress(queue.Empty):
            while True:
                self._handle(self._queue.get_nowait())
        return True


async def _here(work, *given):
    """Stands for `asyncio.to_thread`."""
    return work(*given)


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


class _Recorder(recorders.AuditRecorder):
    """Keeps records, as they come and as they are written."""

    def __init__(self, audit):
        super().__init__(audit)
        self.kept, self.shown, self.tellers = [], [], (self,)

    def submit(self, record):
        self.kept.append(record)
        return super().submit(record)

    def take(self, record):
        self.shown.append(record)


class _Watching:
    """A resolver that says which of its documents an evaluation changed in place."""

    def __init__(self, resolver):
        self._resolver = resolver
        self.spoilt = []

    async def resolve(self, asked, *rest, **named):
        request = asked.request
        before = [_packed(each) for each in (request.document, request.old)]
        ending = await self._resolver.resolve(asked, *rest, **named)
        for name, was, now in zip(("object", "oldObject"), before, (request.document, request.old), strict=True):
            if _packed(now) != was:
                self.spoilt.append(name)
        return ending

    def __getattr__(self, name):
        return getattr(self._resolver, name)


def _packed(document):
    """Bytes that differ when a document does; `marshal` reaches deeper than orjson."""
    return marshal.dumps(document, 2)


class Service:
    """One service for many cases; use it as a context manager.

    Args:
        patience: seconds of processor time after which a request is ended.
        forks: whether large reviews may be evaluated in processes of their own, as in the service. Without, the same
            cases have the same answers on every machine.
    """

    def __init__(self, patience=10.0, *, forks=True):
        self._patience = patience
        self._apart = {True: handlers.APART if forks else sys.maxsize, False: sys.maxsize}
        self._held = None, None
        self._runner = asyncio.Runner()
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.metrics, self._cluster, self._sink, self._lines = Metrics(), _Cluster(), _Sink(), _Lines()
            self._listen(stack)
            stack.enter_context(self._runner)
            stack.callback(setattr, handlers, "APART", handlers.APART)
            stack.callback(signal.signal, signal.SIGVTALRM, signal.signal(signal.SIGVTALRM, _end))
            self._audit = _Writer([self._sink], linger=0.0)
            stack.callback(self._audit.close, 5.0)
            self._tellers = self._made()
            self._recorder = _Recorder(self._audit)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _listen(self, stack):
        root, quiet = logging.getLogger(), logging.getLogger("asyncio")
        stack.callback(root.setLevel, root.level)
        stack.callback(quiet.setLevel, quiet.level)
        root.setLevel(logging.DEBUG)
        quiet.setLevel(logging.INFO)
        root.addHandler(self._lines)
        stack.callback(root.removeHandler, self._lines)

    def _made(self):
        access = writes.Writes(self._cluster)
        events = denials.Denials(access, pace=denials.EventPace(room=100_000, pause=0.0, quiet=0.0))
        pace = report_writers.ReportPace(room=100_000, pause=0.0, settle=0.0, quiet=0.0)
        limits = report_objects.Limits(1000, 86400.0)
        return events, report_writers.Reports(access, report_objects.FORMATS["openreports"], limits=limits, pace=pace)

    def ask(self, phase, kind, body, reader, policy, *, told=True, forks=True):
        """Send one body to a path, with a cluster of its own; return the exchange.

        Args:
            phase: mutate or validate.
            kind: TrainJob or JobSet.
            body: bytes.
            reader: the cluster.
            policy: the policy in force.
            told: whether Events and reports are written about it.
            forks: whether it may be evaluated in a process of its own.
        """
        exchange = Exchange(phase, body)
        handlers.APART = self._apart[forks]
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, self._patience)
            self._runner.get_loop().run_until_complete(self._ask(exchange, kind, reader, policy, told))
        except _EndlessError as error:
            exchange.raised, exchange.seconds = str(error), self._patience
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return exchange

    def page(self):
        """The page of metrics, in bytes.

        The pages of `muster audit serve` show lines of the audit log, which are looked through one by one.
        """
        return self.metrics.render()

    async def _ask(self, exchange, kind, reader, policy, told):
        resolver = Resolver(reader, None, self.metrics)
        watching = _Watching(resolver)
        admission = handlers.Admission(lambda: policy, watching, self._recorder, self.metrics, (200, 3600.0))
        before = self._packed(reader)
        self._recorder.kept, self._recorder.shown, self._sink.kept, self._lines.kept = [], [], [], []
        request = _request(_PATHS[exchange.phase, kind], exchange.body)
        began = time.process_time()
        try:
            answer = await admission.handle(request, exchange.phase, kind)
            exchange.status, exchange.answer = answer.status, bytes(answer.body or b"")
        except Exception as error:  # noqa: BLE001 - what a connection would end with is a finding
            exchange.raised = f"{type(error).__name__}: {str(error)[:300]}"
        self._audit.flush(60.0)
        exchange.seconds = time.process_time() - began
        if told:
            exchange.told = await self._told(self._recorder.shown)
        exchange.submitted, exchange.lines, exchange.logged = self._recorder.kept, self._sink.kept, self._lines.kept
        exchange.spoilt = list(watching.spoilt)
        self._held = reader, [_packed(each) for each in _documents(reader)]
        if before != self._held[1]:
            exchange.spoilt.append("cluster")

    def _packed(self, reader):
        """The documents of a cluster as they are before a request, which is as the last request left them."""
        return self._held[1] if reader is self._held[0] else [_packed(each) for each in _documents(reader)]

    async def _told(self, records):
        """Write Events and reports about records; return their bytes."""
        events, reports = self._tellers
        try:
            with mock.patch.object(asyncio, "to_thread", _here):
                for each in records:
                    events.take(each)
                    reports.take(each)
                while events._waiting:
                    await events._write(*events._waiting.popitem())
                for namespace in tuple(reports._pending):
                    await reports._turn(namespace)
        except Exception:  # noqa: BLE001 - it would end the task that tells
            _log.exception("a notice could not be written")
        kept, self._cluster.kept = self._cluster.kept, []
        return kept


def reader_of(documents, namespace):
    """A cluster of these documents, without those that no API server would keep."""
    reader = InMemoryReader(default_namespace=namespace or "default")
    for document in documents:
        with contextlib.suppress(
            DuplicateError, UnnamedError, TypeError, AttributeError
        ):  # a namespace that is not a text cannot be stored
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
