"""Gathering: collects from files what a decision would read from the API server.

Documents of the input come first, so that a file may contain its own runtime, namespace or snapshot; then those of
`--runtimes`, or by default the runtimes that come with Muster. What else exists in a cluster is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field

from muster.strategies.documents import decoding, model, trainjobs
from muster.webhook import manifests
from muster.webhook.cli.problems import CommandError
from muster.webhook.cluster import kinds, memory, readers
from muster.webhook.kubeyaml import sources
from muster.webhook.kubeyaml.sources import Source, Unreadable

__all__ = ["GatheredCluster", "default_runtimes", "gather"]


class GatheredCluster(Struct, frozen=True):
    """A cluster read from files.

    Attributes:
        reader: the reader for decisions.
        kept: the documents that it has.
        unreadable: documents of the input that decisions cannot use.
    """

    reader: memory.InMemoryReader
    kept: dict[readers.Ref, Source] = field(default_factory=dict)
    unreadable: list[Unreadable] = field(default_factory=list)


def gather(
    given: Sequence[Source],
    runtimes: Sequence[str] = (),
    *,
    namespace: str = "default",
    whole: bool = False,
    ours: bool = True,
) -> GatheredCluster:
    """Collect what can be read: the given documents first, then the runtimes.

    Args:
        given: the input's documents, of any kind.
        runtimes: files and folders; by default the runtimes that come with Muster, if `ours`.
        namespace: the namespace of documents that name none.
        whole: whether nothing else exists, as `ClusterReader.whole`.
        ours: whether the runtimes that come with Muster stand for those that are not given.

    Raises:
        CommandError: a runtime cannot be read, or two different documents of the input, or of the runtimes, have the
            same name.
    """
    gathered = GatheredCluster(memory.InMemoryReader(default_namespace=namespace, whole=whole))
    gathered.unreadable.extend(_add(gathered, given))
    found = sources.read(runtimes or (_shipped(given) if ours else ()))
    broken = found.unreadable or _add(gathered, found.sources)
    if broken:
        raise CommandError(str(broken[0]))
    return gathered


def _shipped(given: Sequence[Source]) -> list[str]:
    """Return the files of the runtimes that come with Muster, each called as its runtime, which these jobs name.

    All are returned where a job names another one, which may be misspelt, and where the jobs are not known yet.
    """
    folder = default_runtimes()
    files = {path.stem: str(path) for path in sorted(folder.glob("*.yaml"))}
    named = {name for each in given if (name := trainjobs.runtime_ref(each.document)[1])}
    return [files[name] for name in sorted(named)] if named and named <= files.keys() else [str(folder)]


def default_runtimes() -> Path:
    """Return the folder of the runtimes that come with Muster, relative to the working directory if possible.

    Raises:
        CommandError: the folder does not exist.
    """
    try:
        folder = manifests.folder("runtimes")
    except manifests.ManifestsError as error:
        raise CommandError(f"{error}, or name runtimes with --runtimes") from error
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _add(cluster: GatheredCluster, given: Iterable[Source]) -> list[Unreadable]:
    """Add the input or the runtimes: documents added earlier win, two of one call must agree."""
    earlier, unreadable = set(cluster.kept), []
    for source in filter(_is_read, given):
        misfit = _misfit(source)
        if not misfit:
            _put(cluster, source, earlier)
        elif source.kind != "TrainJob":  # faults of a job are findings, which its own check makes
            unreadable.append(Unreadable(source.origin, misfit))
    return unreadable


def _put(cluster: GatheredCluster, source: Source, earlier: set[readers.Ref]) -> None:
    try:
        ref = cluster.reader.add(source.document, source=str(source.origin))
    except memory.DuplicateError as error:
        first = cluster.kept[error.ref]
        # Two TrainJobs of one name may be files for two environments; each is decided on its own.
        if error.ref not in earlier and error.ref.kind != "TrainJob" and first.document != source.document:
            raise CommandError(str(error)) from error
    else:
        if ref is not None:
            cluster.kept[ref] = source


def _is_read(source: Source) -> bool:
    """Whether the document has a kind that decisions read, and a name."""
    kind = kinds.kind_of(source.document)
    return kind is not None and bool(source.metadata.name) and kind.ref(source.document) is not None


class _Snapshot(Struct, frozen=True):
    """A ConfigMap that may hold a runtime."""

    data: model.Anything = {}


def _misfit(source: Source) -> str:
    """Return why a decision cannot read the document; "" when it can."""
    kind = kinds.kind_of(source.document)
    if kind is not None and kind.suffix:
        return "data: must be an object" if decoding.convert(source.document, _Snapshot)[1] else ""
    return next(map(str, decoding.check(source.document)), "")
