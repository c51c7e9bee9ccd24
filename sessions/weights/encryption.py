"""Folders whose files only a holder of a key can read: `age` (age-encryption.org), for whoever asked for it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyrage

from muster.sessions.refusals import Refused
from muster.sessions.weights.folders import whole

__all__ = ["encrypted", "recipients"]

_MOST = 10  # as tinker 0.38.0 has it (`TrainingClient.save_weights_external`)
_LONGEST = 4096  # characters; an SSH key of 16,384 bits has 2,800
_ERRORS = (pyrage.RecipientError, ValueError)


def recipients(texts: Sequence[str]) -> list[Any]:
    """Return whom files are encrypted to.

    Args:
        texts: native keys (`age1…`) or public keys of SSH.

    Raises:
        Refused: when there are too many, or one is none of these; plugins are not run.
    """
    if len(texts) > _MOST:
        raise Refused(f"age_encryption_recipients: has {len(texts)} of them; give {_MOST} at most")
    return [_recipient(number, text) for number, text in enumerate(texts)]


def _recipient(number: int, text: str) -> Any:
    kind = pyrage.ssh if text.startswith("ssh-") else pyrage.x25519
    try:
        if len(text) <= _LONGEST:
            return kind.Recipient.from_str(text)
    except _ERRORS:
        pass
    told = "is neither a native key of age (age1…) nor a public key of SSH (ssh-ed25519 or ssh-rsa)"
    raise Refused(f"age_encryption_recipients[{number}]: {told}")


def encrypted(source: Path, names: Sequence[str], target: Path, texts: Sequence[str]) -> None:
    """Write files of a folder encrypted into another, which appears whole or not.

    Args:
        source: the folder to read.
        names: of its files.
        target: the folder to make; each file has `.age` behind its name there.
        texts: whom to encrypt to.

    Raises:
        Refused: for a recipient that is none, and when the storage is full.
    """
    keys = recipients(texts)
    with whole(target) as partial:
        for name in names:
            try:
                pyrage.encrypt_file(str(source / name), str(partial / f"{name}.age"), keys)
            except pyrage.EncryptError as fault:
                raise _fault(fault) from fault


def _fault(fault: Exception) -> Exception:
    """Return the fault of the storage that pyrage 1.4 tells of as text, else the fault itself."""
    number = re.search(r"\(os error (\d+)\)", str(fault))
    return OSError(int(number[1]), str(fault)) if number else fault
