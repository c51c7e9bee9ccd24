"""Reading and writing certificate files safely.

Reading: a mounted Secret may be missing, unreadable, too large, or replaced while it is read; each case is a
MaterialError that names the file, and a set of files is used only when two reads in a row gave the same contents.
Writing: a private key is never readable by others, not even for a moment, and a crash leaves the old file or the new
one, never a part.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from muster.certs import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LIMIT", "PRIVATE", "PUBLIC", "Locations", "read", "read_settled", "write"]

LIMIT = 256 * 1024
"""Size of the largest file that is read, in bytes: twice that of a CA bundle with a hundred certificates."""

PRIVATE = 0o600
PUBLIC = 0o644

_LOOKS = 4


@dataclass(frozen=True, slots=True)
class Locations:
    """The paths of a certificate chain (leaf first), its key and the bundle of its CA, all PEM."""

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def within(cls, directory: Path) -> Locations:
        """Return the paths in a mounted Secret of type kubernetes.io/tls."""
        return cls(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")

    def contents(self) -> tuple[bytes, bytes, bytes]:
        """The contents of certificate, key and authority, read together; MaterialError if one cannot be read."""
        certificate, key, authority = read_settled((self.certificate, self.key, self.authority))
        return certificate, key, authority


def read(path: Path) -> bytes:
    """The contents of a regular file of at most `LIMIT` bytes; MaterialError for anything else."""
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise _irregular(path)
            data = stream.read(LIMIT + 1)
    except FileNotFoundError as error:
        raise errors.MissingError(
            path, "is missing", "mount the Secret that holds it there, or correct the path"
        ) from error
    except PermissionError as error:
        raise errors.MaterialError(
            path, f"is not readable by user id {os.geteuid()}", "set fsGroup and defaultMode, or change its owner"
        ) from error
    except IsADirectoryError as error:
        raise _irregular(path) from error
    except OSError as error:
        raise errors.MaterialError(
            path, f"cannot be read ({error.strerror})", "check the path and its volume"
        ) from error
    if len(data) > LIMIT:
        raise errors.MaterialError(path, f"is larger than {LIMIT} bytes", "name a PEM file with certificates or a key")
    return data


def read_settled(paths: Sequence[Path]) -> tuple[bytes, ...]:
    """The contents of all `paths`, once two reads in a row agree.

    The kubelet replaces all files of a Secret at once, but a reader can still see the first from before and the second
    from after the change. Raises MaterialError when a file cannot be read or the files keep changing.
    """
    before = tuple(map(read, paths))
    for _ in range(_LOOKS - 1):
        after = tuple(map(read, paths))
        if after == before:
            return after
        before = after
    raise errors.MaterialError(
        paths[0], "keeps changing, or the files beside it do", "replace certificate files by renaming, and less often"
    )


def write(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Replaces `path` by `data` in one step, with `mode` from the first byte on; StorageError if it cannot."""
    try:
        descriptor, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(descriptor, mode)
                stream.write(data)
                stream.flush()
                os.fsync(descriptor)
            Path(scratch).replace(path)
        except BaseException:
            Path(scratch).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise errors.StorageError(
            path, f"cannot be written ({error.strerror})", "use a directory on a writable volume with space left"
        ) from error


def _open_at_once(name: str, flags: int) -> int:
    # A named pipe in the place of a file would otherwise hold the open until somebody writes to it.
    return os.open(name, flags | os.O_NONBLOCK)


def _irregular(path: Path) -> errors.MaterialError:
    return errors.MaterialError(path, "is not a regular file", "name a PEM file")
