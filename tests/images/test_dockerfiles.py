"""What the Dockerfiles have in common, beside what hadolint looks for in `make lint`."""

from __future__ import annotations

import re
import tomllib
from pathlib import PurePosixPath

import pytest

from e2e.cluster.places import REPOSITORY
from tools import pins as locks

IMAGES = REPOSITORY / "images"
DOCKERFILES = {path.parent.name: path.read_text() for path in sorted(IMAGES.glob("*/Dockerfile"))}
WITH_TORCH = [name for name, text in DOCKERFILES.items() if "images/torch.lock" in text]
LABELS = ("title", "description", "licenses", "version", "revision")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

every_image = pytest.mark.parametrize("name", DOCKERFILES)
every_image_with_torch = pytest.mark.parametrize("name", WITH_TORCH)


def instructions(text):
    """The instructions, each as one line, without comments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [" ".join(line.split()) for line in joined.splitlines() if line.strip()]


def pins(path):
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def test_there_are_images_of_trainings_of_sessions_and_of_the_webhook():
    assert {"trl", "torchtune", "vllm", "rl", "engine", "gateway", "webhook"} <= set(DOCKERFILES)
    assert {"trl", "torchtune", "vllm", "rl", "engine"} <= set(WITH_TORCH)


@every_image
def test_the_base_is_a_build_argument_with_a_digest_as_default(name):
    lines = instructions(DOCKERFILES[name])
    assert re.fullmatch(r"ARG BASE=python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", lines[0])
    assert {line.partition(" AS ")[0] for line in lines if line.startswith("FROM ")} == {"FROM ${BASE}"}


def test_every_image_has_the_same_base():
    others = (REPOSITORY / "e2e/kind/probe.Dockerfile", REPOSITORY / "webhook/cli/package_templates/image.part")
    texts = [*DOCKERFILES.values(), *(each.read_text() for each in others)]
    assert len({re.search(r"^ARG (?:BASE|BUILD)=(python:.+)$", text, re.MULTILINE)[1] for text in texts}) == 1


@every_image
def test_the_user_is_a_number_that_is_not_root(name):
    users = [line for line in instructions(DOCKERFILES[name]) if line.startswith("USER ")]
    assert users == ["USER 65532:65532"]


@every_image
def test_the_labels_of_oci_are_there(name):
    (labels,) = [line for line in instructions(DOCKERFILES[name]) if line.startswith("LABEL ")]
    written = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', labels))
    assert set(written) == set(LABELS)
    assert (written["version"], written["revision"]) == ("${VERSION}", "${REVISION}")
    assert f"ARG VERSION={PROJECT['version']}" in DOCKERFILES[name]


@every_image
def test_packages_come_from_files_of_pins_or_from_the_context_and_leave_no_cache(name):
    text = DOCKERFILES[name]
    assert "ENV PIP_NO_CACHE_DIR=1 " in text
    for command in re.findall(r"pip (?:--python \S+ )?install ([^&;]+)", " && ".join(instructions(text))):
        words = command.split()
        assert "--no-deps" in words, command
        if "-r" in words:
            assert re.fullmatch(r"(/opt/|requirements/)[\w-]+\.lock", words[words.index("-r") + 1]), command
            assert "--only-binary :all: --require-hashes" in command
        else:
            assert "--no-build-isolation" in words, command


@every_image
def test_packages_of_debian_are_pinned_as_well(name):
    installed = re.findall(r"apt-get install ([^&]+)", " && ".join(instructions(DOCKERFILES[name])))
    assert installed == ["--yes --no-install-recommends ${PACKAGES} "] * len(installed)
    pinned = re.findall(r'^ARG PACKAGES="(.+)"$', DOCKERFILES[name], re.MULTILINE)
    assert len(pinned) == len(installed)
    assert all(re.fullmatch(r"[a-z0-9+-]+=[\w.+:~-]+", each) for each in " ".join(pinned).split())
    assert not pinned or f'"{pinned[0]}"' in DOCKERFILES["vllm"]


@every_image
def test_nothing_is_fetched_by_the_builder_and_nothing_floats(name):
    for line in instructions(DOCKERFILES[name]):
        assert not line.startswith("ADD "), line
        assert not re.search(r"\b(curl|wget)\b|:latest\b", line), line


@every_image
def test_the_context_has_what_is_copied(name):
    let_in = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in instructions(DOCKERFILES[name]):
        if line.startswith("COPY ") and "--from=" not in line:
            for source in line.split()[1:-1]:
                above = {source, *map(str, PurePosixPath(source).parents)}
                assert let_in & above or any(each.startswith(f"{source}/") for each in let_in), source


@every_image_with_torch
def test_the_layer_of_torch_is_the_same_in_all_images_that_have_it(name):
    def until_torch(text):
        lines = text[text.index("ARG BASE") :].splitlines()
        (end,) = [number for number, line in enumerate(lines) if line.endswith("-r /opt/torch.lock")]
        return lines[: end + 1]

    assert until_torch(DOCKERFILES[name]) == until_torch(DOCKERFILES["trl"])


@every_image_with_torch
def test_a_command_of_a_job_is_taken_as_it_is(name):
    lines = instructions(DOCKERFILES[name])
    assert not [line for line in lines if line.startswith("ENTRYPOINT")]
    assert lines[-1].startswith("CMD [")


@every_image_with_torch
def test_what_is_written_is_written_to_tmp(name):
    lines = instructions(DOCKERFILES[name])
    (environment,) = [line for line in lines if line.startswith("ENV PATH=")]
    assert "WORKDIR /tmp" in lines
    assert {"HOME=/tmp", "HF_HOME=/tmp/huggingface", "PYTHONDONTWRITEBYTECODE=1"} <= set(environment.split())


@pytest.mark.parametrize("name", ["trl", "torchtune", "rl"])
def test_an_image_that_trains_has_the_guard_and_asks_it_when_it_is_built(name):
    text = DOCKERFILES[name]
    assert "COPY images/guard /opt/guard\n" in text
    assert "/opt/guard/. " not in text, "sitecustomize.py is for other images, where it has a folder of its own"
    assert re.search(r"RUN site=.+-m muster_guard \w+", " ".join(instructions(text)))


every_file_of_pins = pytest.mark.parametrize("path", locks.pinned(), ids=lambda path: str(path.relative_to(REPOSITORY)))


@every_file_of_pins
def test_every_package_is_pinned_once(path):
    written = pins(path)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in written)
    names = [_name(line) for line in written]
    assert len(names) == len(set(names))


@every_file_of_pins
def test_the_lock_has_each_pin_with_the_hashes_of_its_wheels(path):
    """`make pins` writes it."""
    lines = [line.split() for line in pins(path.with_suffix(".lock"))]
    assert {(_name(pin), pin.partition("==")[2]) for pin, *_ in lines} == {
        (_name(pin), pin.partition("==")[2]) for pin in pins(path)
    }
    for pin, *hashes in lines:
        assert hashes, pin
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", each) for each in hashes), pin


def test_every_file_of_requirements_has_a_lock():
    written = {
        *REPOSITORY.glob("requirements/*.txt"),
        *REPOSITORY.glob("*/**/requirements*.txt"),
        *IMAGES.rglob("*.txt"),
    }
    assert {each for each in written if "build" not in each.parts} <= set(locks.pinned())


def test_what_make_installs_has_the_hash_that_is_in_a_lock():
    installs = re.findall(r"pip install (.+)", (REPOSITORY / "Makefile").read_text())
    for each in installs:
        from_checkout = each.endswith(("--editable .", "--no-deps ./images/vllm/cpu"))
        assert from_checkout or (
            "--no-deps --require-hashes" in each and ".txt " not in f"{each} ".replace(":.txt=.lock", "")
        )
    assert len(installs) == 9


def test_torch_is_pinned_in_one_place_for_trl():
    shared = {line.partition("==")[0] for line in pins(IMAGES / "torch.txt")}
    assert not shared & {line.partition("==")[0] for line in pins(IMAGES / "trl" / "requirements.txt")}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_image_of_both_roles_has_the_vllm_of_one_image_and_the_trl_of_the_other(device):
    trl, vllm = (
        {_name(pin): pin for pin in pins(IMAGES / name)}
        for name in ("trl/requirements.txt", f"vllm/requirements-{device}.txt")
    )
    added = {_name(pin): pin for pin in pins(IMAGES / "rl" / "requirements.txt")}
    assert added == {name: pin for name, pin in trl.items() if name not in vllm and name != "bitsandbytes"}
    upto = "-r /opt/requirements.lock"
    ours, theirs = (instructions(DOCKERFILES[name]) for name in ("rl", "vllm"))
    (last,) = [index for index, line in enumerate(theirs) if line.endswith(upto)]
    assert ours[: last + 1] == theirs[: last + 1], "a node stores the layers once"


def _name(pin):
    return re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower()


def test_the_extra_of_the_package_is_of_the_versions_of_the_image():
    assert set(PROJECT["optional-dependencies"]["trl"]) <= set(pins(IMAGES / "trl" / "requirements.txt"))


def test_the_contract_tests_run_on_what_the_images_of_trainings_hold():
    makefile = (REPOSITORY / "Makefile").read_text()
    (files,) = re.findall(r"^TRL_PINS := (.+)$", makefile, re.MULTILINE)
    assert files.split() == ["images/torch.txt", *(f"images/{name}/requirements.txt" for name in ("trl", "torchtune"))]
    assert "$(addprefix -r ,$(TRL_PINS:.txt=.lock))" in makefile
    versions = {}
    for line in (line for file in files.split() for line in pins(REPOSITORY / file)):
        name, _, version = line.partition("==")
        assert versions.setdefault(name, version) == version, line


@pytest.mark.parametrize(
    ("name", "others"),
    [
        (
            "gateway/requirements.txt",
            ["engine/requirements.txt", "../requirements/run.txt", "../requirements/sessions.txt"],
        ),
        ("engine/requirements.txt", ["trl/requirements.txt", "../requirements/sessions.txt"]),
        ("engine/requirements-vllm.txt", ["gateway/requirements.txt"]),
    ],
)
def test_sessions_run_on_the_versions_that_they_are_tested_with(name, others):
    versions = dict(line.split("==") for line in pins(IMAGES / name))
    for other in others:
        theirs = dict(line.split("==") for line in pins(IMAGES / other))
        assert versions.keys() & theirs.keys()
        assert {each: theirs[each] for each in versions.keys() & theirs.keys()}.items() <= versions.items(), other


def test_torch_and_what_comes_with_it_is_not_pinned_again_for_the_engine_and_is_not_in_the_gateway():
    for name in ("engine", "gateway"):
        ours = {line.partition("==")[0] for line in pins(IMAGES / name / "requirements.txt")}
        assert not ours & {"torch", "triton", "vllm", "trl"}
    shared = {line.partition("==")[0] for line in pins(IMAGES / "torch.txt")}
    assert not shared & {line.partition("==")[0] for line in pins(IMAGES / "engine" / "requirements.txt")}


def test_the_image_of_engines_has_all_that_a_gateway_needs():
    """A Gateway that starts engines on its own machine runs in it."""
    there = {*pins(IMAGES / "torch.txt"), *pins(IMAGES / "engine" / "requirements.txt")}
    assert set(pins(IMAGES / "gateway" / "requirements.txt")) <= there
