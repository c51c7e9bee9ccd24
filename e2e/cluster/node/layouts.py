"""Writes images as files: an OCI image layout, whose blobs several images share, packed into one archive.

Most images here are a base and one file, or one static binary alone. No builder is needed for those, only the three
JSON documents that describe them (OCI image specification 1.1: layout, manifest, config).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

__all__ = ["Descriptor", "Layout", "files_layer", "uncompressed"]

_MEDIA = "application/vnd.oci.image"
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Descriptor(TypedDict):
    """How one blob is named by others."""

    mediaType: str
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """An image layout in `folder`, written by `pack`; made afresh, or what buildah pushed there."""

    folder: Path
    images: dict[str, Descriptor] = field(default_factory=dict)

    def add_layer(self, content: bytes | Path) -> Descriptor:
        """Store an uncompressed tar file as a layer; a file is linked, not copied, where that is possible."""
        if isinstance(content, bytes):
            return self._store(content, "layer.v1.tar")
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        _link(content, self._blob(digest))
        return uncompressed(f"sha256:{digest}", content.stat().st_size)

    def add_image(self, name: str, layers: Sequence[Descriptor], command: Sequence[str], user: str = "") -> None:
        """Describe an image of these layers, its entry point and its user."""
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": list(command), "Env": [_PATH], "User": user, "WorkingDir": "/"},
            # Uncompressed, a layer's digest is that of its content.
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
            "history": [{"created_by": "muster e2e"} for _ in layers],
        }
        self.add_built(name, json.dumps(config), layers)

    def add_built(self, name: str, config: str, layers: Sequence[Descriptor]) -> None:
        """Describe an image by the configuration, a JSON text, that its builder gave it."""
        described = self._store(config.encode(), "config.v1+json")
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": described,
            "layers": list(layers),
        }
        self.images[name] = self._store(json.dumps(manifest).encode(), "manifest.v1+json")

    def adopt(self, name: str, reference: str) -> None:
        """Keep, under `name`, the image that another program pushed into this layout as `reference`."""
        index = json.loads((self.folder / "index.json").read_text())
        for manifest in index["manifests"]:
            if manifest.get("annotations", {}).get("org.opencontainers.image.ref.name") == reference:
                kind, digest, size = manifest["mediaType"], manifest["digest"], manifest["size"]
                self.images[name] = Descriptor(mediaType=kind, digest=digest, size=size)
                return
        raise LookupError(f"{self.folder}: no image was pushed as {reference}")

    def write(self) -> None:
        """Write the index: which images there are, by the names that a container runtime looks for."""
        named = [
            {**image, "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}}
            for name, image in self.images.items()
        ]
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": named}))

    def pack(self, archive: Path) -> None:
        """Write index and blobs into one tar file, complete or not at all."""
        self.write()
        partial = archive.with_suffix(".partial")
        with tarfile.open(partial, "w") as packed:
            for path in sorted(self.folder.rglob("*")):
                packed.add(path, path.relative_to(self.folder), recursive=False)
        partial.rename(archive)

    def _store(self, content: bytes, kind: str) -> Descriptor:
        digest = hashlib.sha256(content).hexdigest()
        path = self._blob(digest)
        path.write_bytes(content)
        return Descriptor(mediaType=f"{_MEDIA}.{kind}", digest=f"sha256:{digest}", size=len(content))

    def _blob(self, digest: str) -> Path:
        blobs = self.folder / "blobs" / "sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        return blobs / digest


def uncompressed(digest: str, size: int) -> Descriptor:
    """Name an uncompressed layer by its digest (`sha256:...`) and its bytes."""
    return Descriptor(mediaType=f"{_MEDIA}.layer.v1.tar", digest=digest, size=size)


def files_layer(files: Mapping[str, Path], links: Mapping[str, str] | None = None) -> bytes:
    """A layer of executable files (path in the image to file here) and symbolic links (path to target)."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as layer:
        for path, file in files.items():
            content = file.read_bytes()
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mode = len(content), 0o755
            layer.addfile(entry, io.BytesIO(content))
        for path, target in (links or {}).items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
            layer.addfile(entry)
    return written.getvalue()


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
