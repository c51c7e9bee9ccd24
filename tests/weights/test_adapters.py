"""A sampler loads the adapter that its trainer wrote, from a copy of its own, and nothing else."""

import json
import struct

import pytest

from muster_weights import adapters, folders, readings
from muster_weights.refusals import Refused
from muster_weights.sampler.copies import Copies
from muster_weights.sampler.states import State
from muster_weights.trainer import verdicts
from tests.support.waits import until
from tests.weights import versions
from tests.weights.adapters import MATRICES, matrices, published
from tests.weights.versions import RUN, place


@pytest.fixture
def root(tmp_path):
    return tmp_path / "shared"


@pytest.fixture
def copies(tmp_path, root):
    made = Copies(root, tmp_path / "copies")
    made.bind(RUN)
    yield made
    made.close()


async def copied(copies, told):
    """What a sampler says of an adapter when it is not being verified any more."""
    found = []
    await until(lambda: found.append(copies.copy(told)) or found[-1]["state"] != "verifying")
    return found[-1]


def read(folder):
    """The configuration and the tensors of a folder of PEFT: name -> shape and values."""
    data = (folder / "adapter_model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, each in header.items():
        assert each["dtype"] == "F32"
        begin, end = each["data_offsets"]
        values = struct.unpack(f"{(end - begin) // 4}f", data[8 + length + begin : 8 + length + end])
        tensors[name] = (tuple(each["shape"]), values)
    return json.loads((folder / "adapter_config.json").read_text()), tensors


async def test_a_copy_is_the_adapter_that_was_published(copies, root, tmp_path):
    told = published(root, value=2.5)

    found = await copied(copies, told)

    assert found["state"] == "copied"
    config, tensors = read(tmp_path / "copies" / told.digest)
    assert config == {"r": 2, "lora_alpha": 4, "target_modules": ["o_proj", "q_proj"]}
    assert tensors == {name: (shape, (2.5,) * 6) for name, shape in MATRICES.items()}
    assert str(tmp_path / "copies" / told.digest) == found["path"]


async def test_a_copy_stays_when_the_files_of_the_volume_change_or_go(copies, root, tmp_path):
    told = published(root)
    found = await copied(copies, told)
    copies.served = told
    before = read(tmp_path / "copies" / told.digest)

    folders.remove(root, RUN)

    assert read(tmp_path / "copies" / told.digest) == before
    assert copies.copy(told) == found, "what is served may be asked for again"


async def test_a_torn_adapter_is_refused_and_nothing_of_it_is_left(copies, root, tmp_path):
    told = published(root)
    path = place(root, told) / "weights.bin"
    path.write_bytes(path.read_bytes()[:-4])

    found = await copied(copies, told)

    assert found["state"] == "refused"
    assert "it is torn" in found["reason"]
    assert list((tmp_path / "copies").iterdir()) == []


async def test_an_adapter_that_changes_after_it_was_verified_is_refused_and_its_copy_is_removed(copies, root, tmp_path):
    told = published(root)
    await until(lambda: copies.stage(told)["state"] == "verified")
    with (place(root, told) / "weights.bin").open("r+b") as file:
        file.truncate(1)

    assert "changed after it was verified" in copies.copy(told)["reason"]
    assert list((tmp_path / "copies").iterdir()) == []


async def test_an_older_adapter_and_one_of_another_run_are_refused(copies, root):
    first, second = published(root, 1), published(root, 2)
    foreign = published(root, 3, run="run-b")
    assert (await copied(copies, second))["state"] == "copied"
    copies.served = second

    assert "run-a/2 is served already" in (await copied(copies, first))["reason"]
    assert "is of another run than run-a" in (await copied(copies, foreign))["reason"]


async def test_a_whole_model_is_no_adapter_and_an_adapter_is_no_whole_model(copies, root):
    whole, adapter = versions.published(root, 1), published(root, 2)
    assert "is not an adapter" in (await copied(copies, whole))["reason"]

    state = State(root, {})
    state.bind(RUN)
    with pytest.raises(Refused, match="is an adapter and no whole model"):
        state.take(adapter)
    state.close()


@pytest.mark.parametrize(
    ("shapes", "dtype", "reason"),
    [
        ({"base_model.model.q_proj.lora_A.weight": (2, 3)}, "float32", r"lacks .*lora_B\.weight"),
        ({}, "float32", "lacks all matrices"),
        ({"base_model.model.norm.weight": (2, 3)}, "float32", "is not a matrix of LoRA"),
        ({"base_model.model.norm.lora_magnitude_vector": (2, 3)}, "float32", "is not a matrix of LoRA"),
        (MATRICES, "int32", "is not a matrix of LoRA"),
    ],
)
async def test_what_vllm_would_ignore_or_misread_is_refused(copies, root, shapes, dtype, reason):
    told = published(root, shapes=shapes, dtype=dtype)

    with pytest.raises(Refused, match=reason):
        copies.take(told)


def test_the_place_of_copies_is_for_one_user_and_is_gone_at_the_end(tmp_path, root):
    made = Copies(root, tmp_path / "copies")
    assert (tmp_path / "copies").stat().st_mode & 0o777 == 0o700
    made.close()
    assert not (tmp_path / "copies").exists()


def test_a_link_in_the_place_of_copies_is_refused(tmp_path, root):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "copies").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(Refused, match="is not of this user"):
        Copies(root, tmp_path / "copies")


async def test_a_copy_that_is_dropped_is_gone(copies, root, tmp_path):
    told = published(root)
    await copied(copies, told)
    copies.drop(told)
    assert list((tmp_path / "copies").iterdir()) == []


def test_an_adapter_has_the_name_that_trls_worker_asks_for(tmp_path):
    assert adapters.name_of(published(tmp_path, 7)) == "run-a-v7"


def test_a_manifest_says_that_it_is_an_adapter(tmp_path):
    found = readings.verify(tmp_path, published(tmp_path))
    assert adapters.is_adapter(found.manifest)
    assert [each.name for each in found.manifest.tensors][1:] == [name for name, *_ in matrices()]
    found.close()


BASE = (-1.0, -2.0, -3.0)


def moved(by, base=BASE):
    return [value + by * (index + 1) for index, value in enumerate(base)]


@pytest.mark.parametrize("size", [0.5, 1e-3])
def test_a_sampler_that_answers_from_the_base_is_seen_however_small_the_adapter_is(size):
    served, base = ([value + 1e-7 for value in each] for each in (moved(size), BASE))

    assert verdicts.unshown(moved(size), served, BASE, 1e-7) < 1e-3
    assert verdicts.unshown(moved(size), base, BASE, 1e-7) == pytest.approx(1, abs=1e-3)


def test_of_an_adapter_that_changes_less_than_rounding_does_nothing_is_said():
    assert verdicts.unshown(moved(0.1), BASE, BASE, 0.02) is None
    assert verdicts.unshown(BASE, BASE, BASE, 0.0) is None


def test_a_sampler_whose_answer_is_no_number_shows_nothing():
    found = verdicts.unshown(moved(0.5), [float("nan")] * 3, BASE, 0.0)
    assert verdicts.Watch("it", 0.5, 1, "Look.").seen(found).endswith("Look.")
