"""Checks the certificate that a listener shows against `caBundle`, from this machine.

A Service cannot be reached from outside the network of the cluster. So this is only done when the webhook entries have
a URL, or with an address (`--dial`), such as that of a `kubectl port-forward`.
"""

from __future__ import annotations

import ssl
from urllib import parse

from muster.certs import errors, probes
from muster.webhook.doctor import diagnoses
from muster.webhook.doctor.checks import ca_bundle, webhooks
from muster.webhook.doctor.diagnoses import Diagnosis
from muster.webhook.doctor.installations import Installation

__all__ = ["CHECK", "look"]

CHECK = "certificate"


async def look(installation: Installation) -> list[Diagnosis]:
    """Connect to every different address with the bundle of its entry.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    options = installation.options
    wanted: dict[tuple[str, int, str, bytes], None] = {}
    for _, entry in await webhooks.all_of(installation):
        try:
            trusted = ca_bundle.bundle(entry)
        except errors.MaterialError:
            continue  # the check ca-bundle reports it
        if options.dial:
            wanted[(*options.dial, f"{options.name}.{options.namespace}.svc", trusted)] = None
        elif url := webhooks.url_of(entry):
            parts = parse.urlsplit(url)
            wanted[parts.hostname or "", parts.port or 443, parts.hostname or "", trusted] = None
    return [
        await _dialled(host, port, name, trusted, options.timeout) for host, port, name, trusted in wanted if trusted
    ]


async def _dialled(host: str, port: int, name: str, trusted: bytes, timeout: float) -> Diagnosis:  # noqa: ASYNC109 - as of the dial
    where = f"{host}:{port}"
    try:
        shown = await probes.dial(host, port, trusted, name, timeout=timeout)
    except errors.ProbeError as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            what = f"the certificate at {where} does not verify against caBundle as {name}: {error.problem}"
            return diagnoses.error(CHECK, what, "install again, so that both match (docs/installation.md)")
        return diagnoses.unknown(
            CHECK, f"{where} {error.problem}", "run this where it can be reached, or see the check probe"
        )
    except errors.MaterialError as error:
        return diagnoses.unknown(CHECK, f"{where} was not dialled: caBundle {error.problem}", "see the check ca-bundle")
    return diagnoses.ok(CHECK, f"{where} shows a certificate that verifies against caBundle (SHA-256 {shown[:16]}…)")
