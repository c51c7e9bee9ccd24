from __future__ import annotations

import hashlib
import io
import json
import tarfile

import pytest

from e2e.cluster.node import layouts


@pytest.fixture
def layout(tmp_path):
    return layouts.Layout(tmp_path / "layout")


def blob(layout, descriptor):
    content = (layout.folder / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == descriptor["digest"]
    assert len(content) == descriptor["size"]
    return content


def test_an_image_leads_from_its_name_to_its_layers(layout):
    base, program = layout.add_layer(b"base"), layout.add_layer(b"program")
    layout.add_image("localhost/one:1", [base, program], ["/run"], user="65532:65532")
    layout.write()

    (entry,) = json.loads((layout.folder / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(layout, entry))
    config = json.loads(blob(layout, manifest["config"]))

    assert entry["annotations"]["io.containerd.image.name"] == "localhost/one:1"
    assert [blob(layout, each) for each in manifest["layers"]] == [b"base", b"program"]
    assert config["rootfs"]["diff_ids"] == [base["digest"], program["digest"]]
    assert len(config["history"]) == len(manifest["layers"])
    assert (config["config"]["Entrypoint"], config["config"]["User"]) == (["/run"], "65532:65532")


def test_a_layer_of_two_images_is_stored_once(layout, tmp_path):
    (tmp_path / "base.tar").write_bytes(b"base")
    base = layout.add_layer(tmp_path / "base.tar")
    layout.add_image("a", [base], ["/a"])
    layout.add_image("b", [base, layout.add_layer(b"base")], ["/b"])

    assert len(list((layout.folder / "blobs" / "sha256").iterdir())) == 1 + 2 + 2


def test_what_another_program_pushed_is_kept_under_our_name(layout):
    layout.add_image("pushed", [layout.add_layer(b"x")], ["/x"])
    layout.write()
    layout.images.clear()

    layout.adopt("ours", "pushed")

    assert list(layout.images) == ["ours"]
    with pytest.raises(LookupError, match="no image was pushed as other"):
        layout.adopt("ours", "other")


def test_a_packed_archive_holds_index_and_blobs(layout, tmp_path):
    layout.add_image("a", [layout.add_layer(b"x")], ["/a"])

    layout.pack(tmp_path / "images.tar")

    with tarfile.open(tmp_path / "images.tar") as archive:
        names = archive.getnames()
    assert {"index.json", "oci-layout"} <= set(names)
    assert sum(name.startswith("blobs/sha256/") for name in names) == 3
    assert list(tmp_path.glob("*.partial")) == []


def test_a_layer_of_files_has_executables_and_links(tmp_path):
    (tmp_path / "probe.py").write_text("#!/usr/bin/python3\n")

    made = layouts.files_layer({"/usr/lib/probe.py": tmp_path / "probe.py"}, {"/usr/bin/torchrun": "/usr/lib/probe.py"})

    with tarfile.open(fileobj=io.BytesIO(made)) as layer:
        assert layer.getmember("usr/lib/probe.py").mode == 0o755
        assert layer.getmember("usr/bin/torchrun").linkname == "/usr/lib/probe.py"
