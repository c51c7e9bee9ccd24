"""Which certificate a listener really shows, and whether it verifies against `caBundle`; looked at from here.

From outside the cluster's network a Service cannot be reached, so this is only done where the webhooks are called by
URL, or where an address is given (`--dial`), that of a `kubectl port-forward` for example.
"""

from __future__ import annotations

import ssl
from urllib import parse

from certs import errors, probes
from webhook.doctor import diagnoses
from webhook.doctor.checks import ca_bundle, webhooks
from webhook.doctor.diagnoses import Diagnosis
from webhook.doctor.installations import Installation

__all__ = ["CHECK", "look"]

CHECK = "certificate"


async def look(installation: Installation) -> list[Diagnosis]:
    """Dial every different address, each with the bundle of its entry.

    Raises:
        TransportError: the API server refused or did not answer.
    """
    options = installation.options
    wanted: dict[tuple[str, int, str, bytes], None] = {}
    for _, entry in await webhooks.all_of(installation):
        try:
            trusted = ca_bundle.bundle(entry)
        except errors.MaterialError:
            continue  # said by the check of the bundles
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
            return diagnoses.error(CHECK, what, "install again, which makes both fit (docs/installation.md)")
        return diagnoses.unknown(
            CHECK, f"{where} {error.problem}", "dial from where it can be reached, or see the probe"
        )
    except errors.MaterialError as error:
        return diagnoses.unknown(CHECK, f"{where} was not dialled: caBundle {error.problem}", "see the check ca-bundle")
    return diagnoses.ok(CHECK, f"{where} shows a certificate that verifies against caBundle (SHA-256 {shown[:16]}…)")
