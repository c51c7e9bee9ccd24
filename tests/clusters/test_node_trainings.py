from __future__ import annotations

import hashlib
import json
import os

import pytest

from e2e.cluster import bringups, places
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import mounts, storages, trainings


def layer(text):
    return storages.Layer(f"sha256:{hashlib.sha256(text.encode()).hexdigest()}", len(text), places.REPOSITORY / text)


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with an image that copies a file and a folder; the base is not made."""
    (tmp_path / "base-1.tar").touch()
    monkeypatch.setattr(trainings, "REPOSITORY", tmp_path)
    monkeypatch.setattr(trainings.bases, "layer", lambda: tmp_path / "base-1.tar")
    for name in (
        "images/pins.txt",
        "images/guard/guard.py",
        "images/guard/__pycache__/guard.pyc",
        "images/a/README.md",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("before")
    lines = (
        "FROM x",
        "COPY images/pins.txt /opt/pins.txt",
        "COPY --chown=0 images/guard /opt/guard",
        "COPY --from=x /a /b",
    )
    (tmp_path / "images/a/Dockerfile").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def storage(tmp_path):
    """A storage as buildah leaves it: an image of two layers, of which the upper is called `top`."""
    root = tmp_path / "root"
    for name in ("bottom", "top"):
        (root / "overlay" / name / "diff").mkdir(parents=True)
        (root / "overlay" / name / "diff" / "file").write_text(name)
    (root / "overlay-images").mkdir()
    (root / "overlay-layers").mkdir()
    images = [{"id": "1", "layer": "bottom"}, {"id": "2", "layer": "top", "names": ["localhost/a:e2e"]}]
    layers = [
        {"id": "top", "parent": "bottom", "diff-digest": "sha256:t", "diff-size": 20},
        {"id": "bottom", "diff-digest": "sha256:b", "diff-size": 10},
    ]
    (root / "overlay-images" / "images.json").write_text(json.dumps(images))
    (root / "overlay-layers" / "layers.json").write_text(json.dumps(layers))
    return root


@pytest.mark.parametrize(
    ("name", "rebuilt"),
    [
        ("images/a/Dockerfile", True),
        ("images/pins.txt", True),
        ("images/guard/guard.py", True),
        ("images/guard/__pycache__/guard.pyc", False),
        ("images/a/README.md", False),
    ],
)
def test_only_what_a_dockerfile_copies_makes_another_image(repository, name, rebuilt):
    recipe = trainings.Recipe("images/a", {})
    before = trainings._key(recipe)

    with (repository / name).open("a") as file:
        file.write("\n# after")

    assert (trainings._key(recipe) != before) == rebuilt


def test_another_build_argument_is_another_image(repository):
    keys = [trainings._key(trainings.Recipe("images/a", each)) for each in ({}, {"DEVICE": "cpu"}, {"DEVICE": "cuda"})]

    assert len(set(keys)) == 3


def test_a_file_that_a_build_argument_names_is_one_of_the_image(repository):
    (repository / "images/a/Dockerfile").write_text("FROM x\nCOPY images/pins-${DEVICE}.txt /opt/pins.txt\n")
    (repository / "images/pins-cpu.txt").write_text("before")
    before = trainings._key(trainings.Recipe("images/a", {"DEVICE": "cpu"}))

    (repository / "images/pins-cpu.txt").write_text("after")

    assert trainings._key(trainings.Recipe("images/a", {"DEVICE": "cpu"})) != before
    with pytest.raises(ClusterError, match=r"images/a/Dockerfile: COPY .*: images/pins-cuda\.txt does not exist"):
        trainings._key(trainings.Recipe("images/a", {"DEVICE": "cuda"}))


def test_an_image_that_nobody_knows_is_named_beside_those_there_are():
    with pytest.raises(ClusterError, match="rtl: is unknown; use trl, torchtune, vllm"):
        trainings.built(["trl", "rtl"])


def test_images_without_a_node_are_refused(tmp_path):
    with pytest.raises(ClusterError, match="--tier node"):
        bringups.up(places.Places(tmp_path / "state"), "control-plane", ["trl"])


def test_every_recipe_has_a_dockerfile_that_takes_its_arguments():
    for recipe in trainings.RECIPES.values():
        text = (places.REPOSITORY / recipe.dockerfile).read_text()
        assert all(f"ARG {name}" in text for name in ("BASE", *recipe.arguments)), recipe.dockerfile


def test_the_layers_of_an_image_are_read_bottom_first(storage):
    found = storages.read(storage, "localhost/a:e2e")

    assert [(each.digest, each.size) for each in found] == [("sha256:b", 10), ("sha256:t", 20)]
    assert [(each.folder / "file").read_text() for each in found] == ["bottom", "top"]
    with pytest.raises(ClusterError, match="localhost/b:e2e: this image does not exist"):
        storages.read(storage, "localhost/b:e2e")


def test_a_kept_layer_outlives_the_builders_and_costs_no_second_copy(storage, tmp_path):
    (_, top) = storages.read(storage, "localhost/a:e2e")

    kept = trainings._keep(tmp_path / "trainings", top)

    assert (kept.folder / "file").stat().st_ino == (top.folder / "file").stat().st_ino
    (top.folder / "file").unlink()
    assert (kept.folder / "file").read_text() == "top"
    assert trainings._keep(tmp_path / "trainings", top) == kept


def test_an_image_whose_layer_is_lost_is_built_again(tmp_path):
    record = tmp_path / "trl-1.json"
    record.write_text(json.dumps({"name": "a", "config": "{}", "layers": [["sha256:1", 5]]}))
    assert trainings._load(tmp_path, record) is None

    (tmp_path / "layers" / "1").mkdir(parents=True)

    expected = storages.Layer("sha256:1", 5, tmp_path / "layers" / "1")
    assert trainings._load(tmp_path, record) == trainings.Built("a", "{}", (expected,))
    assert trainings._load(tmp_path, tmp_path / "trl-2.json") is None


def test_the_builds_used_last_are_kept_with_their_layers(tmp_path):
    for age in range(3):
        record = tmp_path / f"trl-{age}.json"
        record.write_text(json.dumps({"layers": [["sha256:shared", 1], [f"sha256:{age}", 1]]}))
        os.utime(record, (age, age))
    for name in ("shared", "0", "1", "2", "1.partial"):
        (tmp_path / "layers" / name).mkdir(parents=True)

    trainings._forget(tmp_path)

    assert sorted(each.name for each in tmp_path.glob("*.json")) == ["trl-1.json", "trl-2.json"]
    assert {each.name for each in (tmp_path / "layers").iterdir()} == {"shared", "1", "2"}


def test_a_layer_is_called_by_all_that_are_below_it():
    bottom, middle, top = layer("bottom"), layer("middle"), layer("top")

    chain = list(mounts.chained([bottom, middle, top]))

    assert [each for _, _, each in chain] == [bottom, middle, top]
    assert [parent for _, parent, _ in chain] == ["", *(name for name, _, _ in chain[:-1])]
    assert chain[0][0] == bottom.digest
    # `printf 'sha256:<bottom> sha256:<middle>' | sha256sum`, and so on: OCI image specification, Layer ChainID.
    assert chain[2][0] == "sha256:ac2a0e4b1e43a06b3fc0e465c5f48bf91a572691a4f33e4f429092c00bb5ebc8"
    assert list(mounts.chained([middle, top]))[1][0] != chain[2][0]


def test_a_layer_of_two_images_is_mounted_once():
    shared, one, two = layer("shared"), layer("one"), layer("two")
    images = [trainings.Built("1", "{}", (shared, one)), trainings.Built("2", "{}", (shared, two))]

    assert [each.digest for _, _, each in mounts._unique(images)] == [shared.digest, one.digest, two.digest]


def test_the_folder_of_a_snapshot_is_found_as_containerd_gives_it():
    first = [{"Type": "bind", "Source": "/snapshots/1/fs", "Target": "", "Options": ["rw", "rbind"]}]
    second = [
        {
            "Type": "overlay",
            "Source": "overlay",
            "Target": "",
            "Options": ["workdir=/snapshots/2/work", "upperdir=/snapshots/2/fs", "lowerdir=/snapshots/1/fs"],
        }
    ]

    assert [mounts._files(each) for each in (first, second)] == ["/snapshots/1/fs", "/snapshots/2/fs"]
