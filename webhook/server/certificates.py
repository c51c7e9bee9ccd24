"""The listener's certificate: which source, followed how, and when it expires."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from certs import contexts, expiries, files, followers, names, probes, sources
from certs.errors import CertificateError
from webhook import configs

__all__ = ["Certificate", "choose"]


def choose(tls: configs.Tls) -> sources.CertificateSource:
    """Return the source that the configuration asks for.

    Raises:
        ConfigError: neither files nor selfSigned, or only some of the files.
        CertificateError: the Service's name or namespace cannot be in a certificate.
    """
    wanted = (*names.service_names(tls.service, tls.namespace, local=tls.self_signed), *tls.names)
    if tls.self_signed:
        return sources.SelfSignedSource(wanted, directory=tls.directory)
    given = (tls.cert_file, tls.key_file, tls.ca_file)
    if tls.cert_file is None or tls.key_file is None or tls.ca_file is None:
        missing = [key for key, path in zip(("certFile", "keyFile", "caFile"), given, strict=True) if path is None]
        raise configs.ConfigError(f"tls: {', '.join(missing)} missing; name all three files, or set selfSigned: true")
    return sources.FileSource(files.Locations(tls.cert_file, tls.key_file, tls.ca_file), wanted[:1])


class Certificate:
    """What the listener serves, kept in step with its source.

    Args:
        source: where certificates come from.
    """

    def __init__(self, source: sources.CertificateSource) -> None:
        self._source = source
        self._serving: contexts.ServingContext | None = None
        self._follower: followers.Follower | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> contexts.ServingContext:
        """Take the first certificate and follow the source from now on.

        Raises:
            CertificateError: there is none that can be served.
        """
        material = await asyncio.to_thread(self._source.current)
        self._serving = contexts.ServingContext(material)
        self._follower = followers.Follower(self._serving, self._source)
        self._task = asyncio.create_task(self._follower.run(), name="certificate follower")
        return self._serving

    async def stop(self) -> None:
        """Stop to follow."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def problem(self, port: int) -> str:
        """Dial our own port as the API server would; return what is wrong, "" for nothing."""
        if self._serving is None:
            return "there is no certificate yet"
        material = self._serving.material
        try:
            shown = await probes.dial("127.0.0.1", port, material.authority_pem, material.names[0], timeout=1.0)
        except CertificateError as error:
            return str(error)
        return "" if shown == material.fingerprint else f"shows certificate {shown}, not {material.fingerprint}"

    def seconds_left(self) -> Mapping[str, float]:
        """Return the seconds until leaf and CA expire."""
        if self._serving is None:
            return {}
        material, now = self._serving.material, expiries.utc_now()
        return {"leaf": material.leaf.remaining(now), "authority": material.authority.remaining(now)}
