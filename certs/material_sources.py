"""Where material comes from: files that another program renews, or Muster's own authority.

A source answers one question, "what should be served now?", as often as it is asked. It does not record what it has
answered, so a reload that failed is simply tried again.
Making certificates needs `cryptography`, which is imported when a source is first asked.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from muster.certs import expiries

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from muster.certs import authorities, files, materials, rings

__all__ = ["CertificateSource", "FileSource", "SelfSignedSource", "SharedSource"]


class CertificateSource(Protocol):
    """The interface between the code that makes certificates and the code that serves them."""

    def current(self) -> materials.Material:
        """Return what should be served now; equal material means no change.

        It may block on files or on making keys, so an event loop calls it in a thread, and never twice at once.
        Raises CertificateError when there is nothing to serve at present; the caller may ask again later.
        """
        ...


class FileSource:
    """Certificate, key and CA bundle from files, such as a mounted Secret that cert-manager renews.

    The contents are compared at each call, since modification times are too coarse and reading three small files takes
    microseconds. The certificate must cover `names`; the first is the one that the API server dials.
    """

    def __init__(
        self, where: files.Locations, names: Sequence[str], *, clock: expiries.Clock = expiries.utc_now
    ) -> None:
        self._where = where
        self._names = tuple(names)
        self._clock = clock
        self._contents: tuple[bytes, bytes, bytes] | None = None
        self._material: materials.Material | None = None

    def current(self) -> materials.Material:
        """See `Source`; changed contents that are not usable raise MaterialError at every call."""
        from muster.certs import materials  # noqa: PLC0415 - see the module's docstring

        contents = self._where.contents()
        if self._material is None or contents != self._contents:
            self._material = materials.parse(self._where, contents, self._names, self._clock())
            self._contents = contents
        return self._material


class SelfSignedSource:
    """Muster's own authority and leaf, each renewed when two thirds of its validity have passed.

    They are held in memory and end with the process, unless a `directory` is given. Then the authority outlives the
    process, so that clients keep trusting the same CA, and other programs find the certificate there.
    """

    def __init__(
        self, names: Sequence[str], *, directory: Path | None = None, clock: expiries.Clock = expiries.utc_now
    ) -> None:
        self._names = tuple(names)
        self._directory = directory
        self._clock = clock
        self._authority: authorities.Authority | None = None
        self._material: materials.Material | None = None

    def current(self) -> materials.Material:
        """See `Source`; MaterialError or StorageError if the directory cannot be used."""
        now = self._clock()
        material = self._material
        if material is None or material.leaf.due(now) or material.authority.due(now):
            material = self._renewed(now)
        return material

    def _renewed(self, now: datetime) -> materials.Material:
        from muster.certs import authorities, leaves, material_stores, materials  # noqa: PLC0415 - see the module's docstring

        authority = self._authority
        if authority is None and self._directory is not None:
            authority = material_stores.load(self._directory)
        if authority is None:
            authority = authorities.create(now)
        elif authority.window.due(now):
            authority = authorities.succeed(authority, now)
        material = materials.from_authority(authority, leaves.issue(authority, self._names, now))
        if self._directory is not None:
            material_stores.save(self._directory, authority, material)
        self._authority, self._material = authority, material
        return material


class SharedSource:
    """This process's own leaf, signed by one of the authorities that replicas share.

    Its key never leaves the process. The follower of the shared authorities calls `update`; until then there is
    nothing to serve.

    Args:
        names: the names that the leaf covers; the first is the one that the API server dials.
        validity: the lifetime of a leaf, which is renewed at two thirds of it.
        margin: an authority that expires within it no longer signs if another one is trusted; longer than the time
            between two calls.
        clock: returns the wall-clock time.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        validity: timedelta = timedelta(hours=24),
        margin: timedelta = timedelta(0),
        clock: expiries.Clock = expiries.utc_now,
    ) -> None:
        self._names = tuple(names)
        self._validity = validity
        self._margin = margin
        self._clock = clock
        self._told: tuple[rings.Ring, Mapping[str, bool]] | None = None
        self._signer = ""
        self._material: materials.Material | None = None

    def update(self, ring: rings.Ring, trusted: Mapping[str, bool]) -> None:
        """Set the authorities and which of them clients trust, as for `rings.signer`; callable from any thread."""
        self._told = ring, dict(trusted)

    def current(self) -> materials.Material:
        """See `Source`; AuthorityError before the first `update` and when no authority is valid."""
        from muster.certs import errors, leaves, materials, rings  # noqa: PLC0415 - see the module's docstring

        if self._told is None:
            raise errors.AuthorityError("the shared authorities", "are not known yet", "wait for the API server")
        (ring, trusted), now, material = self._told, self._clock(), self._material
        authority = rings.signer(ring, trusted, now, self._margin)
        if material is None or authority.fingerprint != self._signer or material.leaf.due(now):
            backdating = rings.backdating(self._validity)
            leaf = leaves.issue(authority, self._names, now, validity=self._validity, backdating=backdating)
            material = materials.from_authority(authority, leaf)
            self._signer, self._material = authority.fingerprint, material
        return material
