"""The names under which a webhook is called, and whether a certificate's names cover them.

The API server dials `<service>.<namespace>.svc`; people and probes also use shorter and longer forms, or localhost.
Go, OpenSSL and Python all ignore the common name, so a name that is not among the subject alternative names (SANs)
does not exist.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from muster.certs import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LOCAL", "address", "check", "covered", "service_names"]

LOCAL = ("localhost", "127.0.0.1", "::1")
"""The names under which a webhook on a laptop is called."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST = 253


def service_names(
    service: str, namespace: str, *, domain: str = "cluster.local", local: bool = False
) -> tuple[str, ...]:
    """All names of a Service, first the one that the API server dials; with `local`, also those of this machine.

    Raises NamesError when `service` or `namespace` is not one DNS label, or `domain` is not a DNS name.
    """
    for field, label in (("service", service), ("namespace", namespace)):
        if not _LABEL.fullmatch(label):
            raise errors.NamesError(
                field, f"{label!r} is not a DNS label", "use 1 to 63 lower-case letters, digits and inner hyphens"
            )
    names = (
        f"{service}.{namespace}.svc",
        f"{service}.{namespace}.svc.{domain}",
        f"{service}.{namespace}",
        service,
        *(LOCAL if local else ()),
    )
    check(names)
    return names


def check(names: Iterable[str]) -> None:
    """Raises NamesError for the first that is neither an IP address nor a lower-case DNS name."""
    for name in names:
        if address(name) is None and not _is_dns_name(name):
            raise errors.NamesError(
                "name",
                f"{name!r} is neither a DNS name nor an IP address",
                "write it in lower case, without a dot at the end",
            )


def address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that `name` is, or None for a DNS name; clients match the two by different rules."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def covered(name: str, sans: Iterable[str]) -> bool:
    """Whether a client that dials `name` accepts a certificate with these SANs.

    DNS names match without regard to case; `*` stands for exactly the leftmost label (RFC 6125, 6.4.3). An IP
    address matches only itself, in any spelling.
    """
    dialled = address(name)
    if dialled is not None:
        return any(address(san) == dialled for san in sans)
    return any(_dns_matches(name.lower(), san.lower()) for san in sans)


def _dns_matches(name: str, san: str) -> bool:
    if not san.startswith("*."):
        return name == san
    _, _, parent = name.partition(".")
    return parent == san.removeprefix("*.") != ""


def _is_dns_name(name: str) -> bool:
    return len(name) <= _LONGEST and all(_LABEL.fullmatch(label) for label in name.split("."))
