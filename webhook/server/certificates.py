"""The certificate of the listener: its source, its renewal, and when it expires."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from muster.certs import (
    contexts,
    expiries,
    files,
    followers,
    material_sources,
    probes,
    subject_names,
)
from muster.certs.errors import CertificateError
from muster.webhook import configs

__all__ = ["Certificate", "choose", "wanted"]

_FILES = ("certFile", "keyFile", "caFile")


def choose(tls: configs.Tls) -> material_sources.CertificateSource:
    """Return the source that the configuration names, unless that is a Secret (`Trust` handles it).

    Raises:
        ConfigError: the configuration names several sources, none, or only some of the files.
        CertificateError: the name or namespace of the Service is not valid in a certificate.
    """
    if tls.self_signed:
        return material_sources.SelfSignedSource(wanted(tls), directory=tls.directory)
    given = (tls.cert_file, tls.key_file, tls.ca_file)
    if tls.cert_file is None or tls.key_file is None or tls.ca_file is None:
        missing = [key for key, path in zip(_FILES, given, strict=True) if path is None]
        raise configs.ConfigError(
            f"tls: {', '.join(missing)} missing; name all three files, or set secret: {{}} or selfSigned: true"
        )
    return material_sources.FileSource(files.Locations(tls.cert_file, tls.key_file, tls.ca_file), wanted(tls)[:1])


def wanted(tls: configs.Tls) -> tuple[str, ...]:
    """Return the DNS names of the certificate; the one that the API server calls comes first.

    Raises:
        CertificateError: the name or namespace of the Service is not valid in a certificate.
    """
    return (*subject_names.service_names(tls.service, tls.namespace, local=tls.self_signed), *tls.names)


class Certificate:
    """The certificate that the listener serves, kept up to date with its source.

    Args:
        source: where certificates come from.
        clients: returns the bundles by which clients verify, where that is known; the default is the bundle of the
            source.
        interval: seconds between checks of the source.
    """

    def __init__(
        self,
        source: material_sources.CertificateSource,
        clients: Callable[[], tuple[bytes, ...]] = tuple,
        interval: float = followers.INTERVAL,
    ) -> None:
        self._source = source
        self._clients = clients
        self._interval = interval
        self._serving: contexts.ServingContext | None = None
        self._follower: followers.Follower | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> contexts.ServingContext:
        """Load the first certificate and start following the source.

        Raises:
            CertificateError: there is no certificate that can be served.
        """
        material = await asyncio.to_thread(self._source.current)
        self._serving = contexts.ServingContext(material)
        self._follower = followers.Follower(self._serving, self._source, interval=self._interval)
        self._task = asyncio.create_task(self._follower.run(), name="certificate follower")
        return self._serving

    async def stop(self) -> None:
        """Stop following the source."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def problem(self, port: int) -> str:
        """Connect to the own port as the API server would; return what is wrong, or ""."""
        if self._serving is None:
            return "there is no certificate yet"
        material = self._serving.material
        for bundle in self._clients() or (material.authority_pem,):
            try:
                shown = await probes.dial("127.0.0.1", port, bundle, material.names[0], timeout=1.0)
            except CertificateError as error:
                return str(error)
            if shown != material.fingerprint:
                return f"the listener shows certificate {shown}, not {material.fingerprint}"
        return ""

    def seconds_left(self) -> Mapping[str, float]:
        """Return the seconds until leaf and CA expire."""
        if self._serving is None:
            return {}
        material, now = self._serving.material, expiries.utc_now()
        return {"leaf": material.leaf.remaining(now), "authority": material.authority.remaining(now)}

    def lifetimes(self) -> Mapping[str, float]:
        """Return the whole lifetimes of leaf and CA in seconds."""
        if self._serving is None:
            return {}
        windows = {"leaf": self._serving.material.leaf, "authority": self._serving.material.authority}
        return {name: (each.not_after - each.not_before).total_seconds() for name, each in windows.items()}
