"""The anchors of `muster audit verify`: from options, from a file, or as the service notes them in the cluster."""

from __future__ import annotations

import argparse
import asyncio
import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from muster.audit import anchor_notes, chain, queries
from muster.audit.anchor_notes import Anchor, Chronicle, Expected, Kept, Noted
from muster.audit.record_schema import Link
from muster.strategies.documents import decoding
from muster.webhook.cli.problems import CommandError

__all__ = ["expected"]

_ANCHOR = re.compile(r"([0-9]{1,19}):([0-9a-f]{64})")
_LARGEST = 8 * 1024 * 1024  # bytes of a file of anchors
_FORM = "write each as SEQ:HASH, number and hash of a record, as in 42:c8c6…"


class _Together:
    """Several expectations of one log."""

    def __init__(self, parts: Sequence[Expected]) -> None:
        self._parts = parts

    def see(self, link: Link) -> None:
        for each in self._parts:
            each.see(link)

    def missing(self) -> Iterator[str]:
        for each in self._parts:
            yield from each.missing()


def expected(args: argparse.Namespace) -> Expected | None:
    """Return what the options say that the log must have, None when they say nothing.

    Raises:
        CommandError: an anchor, the file or the cluster cannot be read, or more than one log is named.
        OSError: the file cannot be opened.
    """
    noted = [_anchor(text, "--anchor") for text in args.anchor]
    chains: dict[str, Chronicle] = {}
    if args.anchors is not None:
        more, chains = _from_file(args.anchors)
        noted += more
    if args.anchors_from_cluster:
        chains |= _chains(_from_cluster(args), f"ConfigMap {args.namespace}/{anchor_notes.NAME}")
    elif (args.pod or args.copied) and not chains:
        raise CommandError("--pod and --copied: belong to the anchors of the cluster; give --anchors-from-cluster too")
    parts: list[Expected] = [Noted(noted)] if noted else []
    if chains or args.anchors_from_cluster:
        parts.append(Kept(chains, args.pod, _copied(args.copied)))
    if parts and len(set(args.file)) > 1:
        raise CommandError("anchors are of one log: name one FILE, and verify other logs by themselves")
    return _Together(parts) if parts else None


def _anchor(text: str, where: str) -> Anchor:
    found = _ANCHOR.fullmatch(text.strip())
    if found is None:
        raise CommandError(f"{where}: {text.strip()[:80]!r} is not an anchor; {_FORM}")
    return Anchor(int(found[1]), found[2])


def _copied(text: str | None) -> datetime.datetime | None:
    try:
        return None if text is None else queries.moment(text, datetime.datetime.now(datetime.UTC))
    except ValueError as error:
        raise CommandError(f"--copied: {error}") from error


def _from_file(path: Path) -> tuple[list[Anchor], dict[str, Chronicle]]:
    """Read a ConfigMap as JSON, or lines of which each is an anchor or a record."""
    with path.open("rb") as stream:
        data = stream.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise CommandError(f"--anchors: {path} is larger than {_LARGEST >> 20} MiB; {_FORM}")
    document = decoding.mapping(_json(data))
    if document.get("kind") == "ConfigMap":
        return [], _chains(document, str(path))
    lines = enumerate(data.decode("utf-8", "replace").splitlines(), start=1)
    found = [_line(line, f"--anchors: {path}:{number}") for number, line in lines if line.strip()]
    if not found:
        raise CommandError(f"--anchors: {path} has no anchor; {_FORM}")
    return found, {}


def _line(line: str, where: str) -> Anchor:
    record = decoding.mapping(_json(line.encode()) if line.lstrip().startswith("{") else None)
    if record:
        return _anchor(f"{record.get('seq')}:{record.get('hash')}", where)
    return _anchor(line, where)


def _json(data: bytes) -> object:
    try:
        return chain.parse(data)
    except chain.LineError:
        return None


def _from_cluster(args: argparse.Namespace) -> Mapping[str, object]:
    from muster.webhook.cli import cluster_connections  # noqa: PLC0415  # only this option needs a cluster

    with cluster_connections.told(f"{args.namespace}/{anchor_notes.NAME}", "--anchors-from-cluster"):
        document = asyncio.run(_fetched(args))
    if document is None:
        raise CommandError(
            f"--anchors-from-cluster: there is no ConfigMap {args.namespace}/{anchor_notes.NAME}; Muster makes it with "
            "audit.anchors: configmap; name the namespace of Muster by --namespace"
        )
    return document


async def _fetched(args: argparse.Namespace) -> Mapping[str, object] | None:
    from muster.webhook.cli import cluster_connections  # noqa: PLC0415  # only this option needs a cluster
    from muster.webhook.cluster import kinds, writes  # noqa: PLC0415  # as above

    async with cluster_connections.connected(args) as sender:
        return await writes.Writes(sender).get(kinds.CONFIG_MAP, args.namespace, anchor_notes.NAME)


def _chains(document: Mapping[str, object], where: str) -> dict[str, Chronicle]:
    try:
        return anchor_notes.read(document)
    except anchor_notes.NoteError as error:
        raise CommandError(f"{where}: {error}; it is not as Muster wrote it") from error
