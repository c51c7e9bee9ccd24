"""The errors of this package.

    CertificateError
    ├── NamesError       a service, namespace or host cannot stand in a certificate     fixed by: configuration
    ├── MaterialError    a certificate, key or CA is missing, damaged or does not fit   fixed by: whoever made it
    │   └── MissingError     the file is not there (yet)                                 fixed by: whoever mounts it
    ├── AuthorityError   a CA cannot sign (any more)                                     fixed by: renewing it
    ├── StorageError     a file could not be written                                     fixed by: the volume
    ├── ServingError     the TLS library refuses what looked right                       fixed by: whoever made it
    └── ProbeError       a listener cannot be reached, or shows another certificate      fixed by: see its remedy

Each holds its subject, what is wrong and what to do as separate parts, because the same error is printed on a
terminal as one line and logged as keys.
"""

from __future__ import annotations

__all__ = [
    "AuthorityError",
    "CertificateError",
    "MaterialError",
    "MissingError",
    "NamesError",
    "ProbeError",
    "ServingError",
    "StorageError",
]


class CertificateError(Exception):
    """Base of all errors of this package: `subject` (a file, a field, an address), `problem` and `remedy`."""

    def __init__(self, subject: object, problem: str, remedy: str) -> None:
        self.subject = str(subject)
        self.problem = problem
        self.remedy = remedy
        super().__init__(self.subject, problem, remedy)

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}; {self.remedy}"

    def facts(self) -> dict[str, str]:
        """The three parts, for `extra=` of a log call."""
        return {"subject": self.subject, "problem": self.problem, "remedy": self.remedy}


class NamesError(CertificateError):
    """A name cannot stand in a certificate; raised before any key is made."""


class MaterialError(CertificateError):
    """A certificate, key or CA cannot be used; `subject` is the file (or Secret key) it came from."""


class MissingError(MaterialError):
    """A file is not there, which is normal before the first certificate has been issued."""


class AuthorityError(CertificateError):
    """A CA is outside its validity and must not sign."""


class StorageError(CertificateError):
    """A file could not be written; nothing is left half-written."""


class ServingError(CertificateError):
    """The TLS library refused the material, or would serve something else; the last good material stays."""


class ProbeError(CertificateError):
    """A TLS handshake with a listener failed; `subject` is its address."""
