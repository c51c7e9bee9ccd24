"""The service: the one place where every part is made, started and stopped.

Parts start in the order in which they need each other and stop in reverse. Readiness fails before the listener closes,
so that a rolling update loses no request.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from muster.front.connections import Limits
from muster.front.listeners import Handler, Listener
from muster.strategies.frameworks import builtin
from muster.webhook import configs
from muster.webhook.metrics import CONTENT_TYPE, Metrics
from muster.webhook.server import certificates, clusters, handlers, recorders
from muster.webhook.server.health import Health
from muster.webhook.server.pod_admission import DryRuns
from muster.webhook.server.reloads import Reloader
from muster.webhook.server.resolvers import Resolver

if TYPE_CHECKING:
    from muster.webhook.controllers import controller_service as controllers

__all__ = ["Service"]

_Figures = Callable[[str], Mapping[str, float]]  # by kind, of the figure with a name
_log = logging.getLogger(__name__)


class Service:
    """One running webhook.

    Args:
        config: the configuration that was read at start.
        path: the configuration file, which is followed for changes; None when there is none.
        written: what the file says, where an option of the command says otherwise.

    Attributes:
        port: the TCP port of the listener, 0 before `start`.
        metrics: the metrics of this service.
    """

    def __init__(self, config: configs.Config, path: Path | None = None, written: configs.Config | None = None) -> None:
        self._config = config
        self._written = written or config
        self._path = path
        self._stack = AsyncExitStack()
        self._health: Health | None = None
        self._listener: Listener | None = None
        self.metrics = Metrics()
        self.port = 0

    async def start(self) -> None:
        """Start every part; when one fails, those already started are stopped.

        Raises:
            ConfigError, CertificateError, NoClusterError, PluginImportError, OSError: a part cannot start.
        """
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()

    async def _start(self, stack: AsyncExitStack) -> None:
        config = self._config
        reloader = Reloader(self._path, self._written, builtin.load(), self.metrics)
        recorder = recorders.open_recorder(config.audit, self.metrics)
        stack.push_async_callback(asyncio.to_thread, recorder.close)
        cluster = await clusters.open_cluster(config.cluster)
        stack.push_async_callback(cluster.stop)
        if keeper := recorders.open_keeper(config.audit, recorder, cluster.sender, self.metrics):
            stack.push_async_callback(keeper.stop)
        if announcer := recorders.open_announcer(config.audit, recorder, cluster.sender, self.metrics):
            stack.push_async_callback(announcer.stop)
        certificate, trusted = await self._certificate(stack, cluster)
        serving = await certificate.start()
        stack.push_async_callback(certificate.stop)
        resolver = Resolver(cluster.reader, cluster.fetch, self.metrics, self._dry_runs(cluster))
        controlling = self._control(stack, cluster, reloader)
        self._collect(stack, cluster)
        checks = {"cluster": cluster.problem, "trust": trusted}
        self._health = Health(
            {name: _checked(check) for name, check in checks.items()} | {"tls": self._dialled(certificate)}
        )
        admission = handlers.Admission(
            reloader.policy,
            resolver,
            recorder,
            self.metrics,
            (config.server.in_flight_limit, config.server.request_timeout),
        )
        self._listener = listener = _listener(
            config.server, _handlers(admission, self._health, self.metrics), self.metrics
        )
        stack.push_async_callback(listener.close)
        self.port = await listener.open(config.server.host, config.server.port, serving.ssl_context)
        self.metrics.watch("muster_connections", "Open connections", "state", listener.connections.counts)
        self.metrics.watch(
            "muster_cluster_cache_age_seconds", "Since the source last sent something", "kind", cluster.ages
        )
        self._show_caches([cluster.figure, *([controlling.held] if controlling else [])])
        self.metrics.watch(
            "muster_certificate_expiry_seconds", "Until a certificate expires", "certificate", certificate.seconds_left
        )
        self.metrics.watch(
            "muster_certificate_lifetime_seconds", "From its beginning to its end", "certificate", certificate.lifetimes
        )
        follower = asyncio.create_task(reloader.run(), name="configuration follower")
        stack.push_async_callback(_cancelled, follower)
        _log.info("serving", extra={"port": self.port, "mode": config.mode.value, "cluster": config.cluster.source})

    async def problems(self) -> dict[str, str]:
        """Return why the service is not ready, by check."""
        return await self._health.problems() if self._health else {"start": "is under way"}

    async def stop(self) -> None:
        """Fail readiness, close connections after their next answer, wait, let open requests end, stop all parts."""
        if self._listener is not None and self._health is not None:
            self._health.drain()
            self._listener.leave()
            await asyncio.sleep(self._config.server.readiness_delay)
        await self._stack.aclose()
        _log.info("stopped", extra={"port": self.port})

    def _show_caches(self, sources: Iterable[_Figures]) -> None:
        """Expose what the caches take; the leader of the controllers follows some kinds a second time."""
        figure = partial(_added, sources)
        self.metrics.watch("muster_cluster_cache_bytes", "Bytes of cached objects", "kind", partial(figure, "bytes"))
        self.metrics.watch(
            "muster_cluster_cache_limit_bytes", "Bytes that they may take", "kind", partial(figure, "limit_bytes")
        )
        self.metrics.watch("muster_cluster_cache_entries", "Cached objects", "kind", partial(figure, "entries"))
        self.metrics.watch(
            "muster_cluster_cache_left_out", "Objects too large or too many", "kind", partial(figure, "left_out")
        )

    def _dry_runs(self, cluster: clusters.ClusterSource) -> DryRuns | None:
        """Return what asks the API server about the pods of jobs, when the configuration enables it."""
        checks = self._config.checks
        if not checks.dry_run:
            return None
        sender = clusters.required(cluster.sender, "checks.dryRun: on", "it asks the API server")
        return DryRuns(sender, checks.dry_run_share * self._config.server.request_timeout, self.metrics.dry_ran)

    def _control(
        self, stack: AsyncExitStack, cluster: clusters.ClusterSource, reloader: Reloader
    ) -> controllers.Controllers | None:
        """Start the controllers, when the configuration enables them."""
        settings = self._config.controllers
        if not settings.enabled:
            if self._config.profiles:
                _log.warning(
                    "profiles are configured and controllers.enabled is false: Muster does not make their claims"
                )
            return None
        reason = "the controllers write to the API server"
        sender = clusters.required(cluster.sender, "controllers.enabled: true", reason)
        from muster.webhook.controllers import controller_service as controllers  # noqa: PLC0415  # memory that not all need

        made = controllers.Controllers(
            sender,
            lambda: reloader.policy().profiles,
            controllers.options_of(settings, self._config.cluster),
            self.metrics.written,
        )
        stack.push_async_callback(made.stop)
        made.start()
        self.metrics.watch(
            "muster_controller_leading", "Whether this replica writes claims and seats", "lease", made.leads
        )
        for name, text in controllers.FIGURES.items():
            self.metrics.watch(f"muster_seats_{name}", text, "profile", partial(made.figure, name))
        return made

    def _collect(self, stack: AsyncExitStack, cluster: clusters.ClusterSource) -> None:
        """Start to keep what trainings report, when the configuration enables it."""
        settings = self._config.trainings
        if not settings.enabled:
            return
        reason = "the reports are in the API server"
        sender = clusters.required(cluster.sender, "trainings.enabled: true", reason)
        from muster.webhook.controllers import collecting  # noqa: PLC0415  # as above

        options = collecting.options_of(settings, self._config.cluster)
        made = collecting.Collecting(sender, options, self.metrics.trained, self.metrics.written)
        stack.push_async_callback(made.stop)
        made.start()
        self.metrics.watch(
            "muster_trainings_leading", "Whether this replica keeps what trainings report", "lease", made.leads
        )

    async def _certificate(
        self, stack: AsyncExitStack, cluster: clusters.ClusterSource
    ) -> tuple[certificates.Certificate, Callable[[], str]]:
        """Return the certificate, and a check whether clients can trust it."""
        tls = self._config.tls
        if tls.secret is None:
            return certificates.Certificate(certificates.choose(tls)), str
        if tls.self_signed or tls.cert_file is not None:
            raise configs.ConfigError("tls: secret is set together with other sources; keep one of them")
        sender = clusters.required(cluster.sender, "tls.secret", "the Secret is in the API server")
        from muster.webhook.trust import trust_service as trust  # noqa: PLC0415  # as above

        made = trust.Trust(sender, tls.secret, certificates.wanted(tls), self.metrics.written)
        stack.push_async_callback(made.stop)
        await made.start()
        self.metrics.watch(
            "muster_certificates_leading", "Whether this replica writes authorities and bundles", "lease", made.leads
        )
        return certificates.Certificate(made.source, made.live_bundles, tls.secret.interval), made.problem

    def _dialled(self, certificate: certificates.Certificate) -> Callable[[], Awaitable[str]]:
        async def check() -> str:
            return await certificate.problem(self.port)

        return check


def _listener(server: configs.Server, handlers: dict[str, Handler], metrics: Metrics) -> Listener:
    limits = Limits(server.connection_limit, server.bodies_limit, server.slow_timeout, server.idle_timeout)
    return Listener(handlers, server.body_limit, server.shutdown_grace, limits, metrics.connection_closed)


def _handlers(admission: handlers.Admission, health: Health, metrics: Metrics) -> dict[str, Handler]:
    async def render(_request: web.BaseRequest) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    out: dict[str, Handler] = {
        path: partial(admission.handle, phase=phase, kind=kind)
        for path, (phase, kind) in handlers.ADMISSION_PATHS.items()
    }
    read = {"/healthz": health.healthz, "/readyz": health.readyz, "/metrics": render}
    return out | {path: _only_read(handler) for path, handler in read.items()}


def _only_read(handler: Handler) -> Handler:
    async def read(request: web.BaseRequest) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            return await handler(request)
        return web.Response(status=405, text="only GET and HEAD are served here\n", headers={"Allow": "GET, HEAD"})

    return read


def _checked(problem: Callable[[], str]) -> Callable[[], Awaitable[str]]:
    async def check() -> str:
        return problem()

    return check


def _added(sources: Iterable[_Figures], name: str) -> Mapping[str, float]:
    """Return a figure of all sources, added up by kind."""
    added: Counter[str] = Counter()
    for source in sources:
        added.update(source(name))
    return added


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
