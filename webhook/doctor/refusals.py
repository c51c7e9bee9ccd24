"""Explains the errors of the API server about webhook calls: cause, and what to do.

Sources: apiserver `pkg/admission/plugin/webhook`, Go's `crypto/x509` and `net/http`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["denier", "explained", "failed"]

_INSTALL = "install again, so that certificate and caBundle match (docs/installation.md)"
_PODS = (
    "check that replicas are ready (check deployment) and that the API server can reach them (NetworkPolicy, firewall)"
)
_CAUSES: Mapping[str, tuple[str, str]] = {
    "x509: certificate signed by unknown authority": ("the certificate was not signed by a CA in caBundle", _INSTALL),
    "x509: certificate has expired": ("the certificate has expired, or a clock is wrong", _INSTALL),
    "x509: certificate is valid for|x509: cannot validate|x509: certificate is not valid for any names": (
        "the certificate is not valid for the name that is called",
        _INSTALL,
    ),
    "unable to load root certificates": ("caBundle has no certificate", _INSTALL),
    "connection refused": ("nothing listens at its address", _PODS),
    "no endpoints available": ("its Service has no ready replica", _PODS),
    r'service "[^"]+" not found': ("its Service does not exist", _INSTALL),
    "no such host": ("its host name is not in DNS", "correct the URL of the webhook entries"),
    "deadline exceeded|Client.Timeout|i/o timeout": ("it did not answer in time", _PODS),
    "the server could not find the requested resource": (
        "it does not serve the path that is called",
        "install again, to set the paths of the webhook entries (docs/installation.md)",
    ),
}
_FAILED = re.compile(r'failed calling webhook "([^"]+)"')
_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request')


def failed(message: str) -> str:
    """Return the webhook entry that the API server could not call, "" when the message names none."""
    found = _FAILED.search(message)
    return found[1] if found else ""


def denier(message: str) -> str:
    """Return the webhook entry that refused an object, "" when the message names none."""
    found = _DENIED.search(message)
    return found[1] if found else ""


def explained(message: str) -> tuple[str, str]:
    """Return the cause of a failed call, and what to do; an unknown cause is the message of the API server."""
    for pattern, explanation in _CAUSES.items():
        if re.search(pattern, message):
            return explanation
    return message.partition("failed to call webhook: ")[2] or message, _PODS
