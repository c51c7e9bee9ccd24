"""Images: references that no container runtime can read, so that the kubelet never starts the container.

The API server takes any text, and the kubelet then waits with InvalidImageName. Source:
github.com/distribution/reference v0.6.0 `regexp.go` and `normalize.go` splitDockerDomain, ParseNormalizedNamed.
"""

from __future__ import annotations

import functools
import re

__all__ = ["wrong"]

_LONGEST = 255  # characters of a repository with its domain
_LONGEST_REFERENCE = 600
_PLACEHOLDER = frozenset("${}()<>%")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,}")
_DOMAIN = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?")


@functools.lru_cache(maxsize=256)  # jobs name the same few images
def wrong(reference: str) -> str:
    """Return what is wrong with the reference of an image, "" for nothing or for an empty one."""
    if not reference or len(reference) > _LONGEST_REFERENCE:
        return ""
    if not _PLACEHOLDER.isdisjoint(reference):
        return "Kubernetes does not fill in placeholders; write the name of an image"
    if "://" in reference:
        return "an image is named without a scheme; remove what stands up to ://"
    rest, at, digest = reference.partition("@")
    path, tag = _tagged(rest)
    if at and not _DIGEST.fullmatch(digest):
        return "what follows the @ is not a digest; write sha256: and 64 hexadecimal digits"
    if tag is not None and not _TAG.fullmatch(tag):
        return "what follows the last : is not a tag; use letters, digits, _ . and -"
    return _wrong_name(path)


def _wrong_name(path: str) -> str:
    """Judge the name of an image with its registry, without tag and digest."""
    first, slash, others = path.partition("/")
    if slash and (first == "localhost" or "." in first or ":" in first or first.lower() != first):
        if not _DOMAIN.fullmatch(first):
            return "what stands before the first / is not the address of a registry"
        path = others
    if path.lower() != path:
        return "the name of a repository has capital letters; write it in small letters"
    if len(path) > _LONGEST or not all(_COMPONENT.fullmatch(each) for each in path.split("/")):
        return "the name of a repository may have only small letters, digits and single separators . _ - /"
    return ""


def _tagged(text: str) -> tuple[str, str | None]:
    """Divide a reference without its digest into name and tag; the port of a registry is followed by a /."""
    name, colon, tag = text.rpartition(":")
    return (name, tag) if colon and "/" not in tag else (text, None)
