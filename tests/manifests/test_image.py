"""The image is what the Deployment expects, and holds what the package says."""

from __future__ import annotations

import re
import tomllib

from e2e.cluster.node import images
from tests.manifests import bases

DOCKERFILE = (bases.ROOT / "images" / "webhook" / "Dockerfile").read_text()
PROJECT = tomllib.loads((bases.ROOT / "pyproject.toml").read_text())


def test_the_image_runs_as_the_user_of_the_pod_given_as_a_number():
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    context = bases.pod()["spec"]["securityContext"]
    assert [int(part) for part in user] == [context["runAsUser"], context["runAsGroup"]] == [65532, 65532]
    assert context["fsGroup"] == 65532


def test_the_image_starts_as_the_deployment_starts_it():
    assert 'ENTRYPOINT ["muster"]' in DOCKERFILE
    assert f"CMD {bases.container()['args']}".replace("'", '"') in DOCKERFILE
    assert "command" not in bases.container()


def test_image_and_manifests_are_of_the_version_of_the_package():
    version = PROJECT["project"]["version"]
    (image,) = bases.kustomization()["images"]
    assert image == {"name": bases.container()["image"], "newTag": version}
    assert re.findall(r"^ARG VERSION=(\S+)$", DOCKERFILE, re.MULTILINE) == [version]


def test_every_package_of_ours_is_copied_into_the_image_and_let_into_the_build():
    let_in = (bases.ROOT / ".dockerignore").read_text().splitlines()
    links = {each.name for each in (bases.ROOT / "muster").iterdir() if each.is_symlink()}
    assert PROJECT["tool"]["setuptools"]["packages"]["find"]["include"] == ["muster*"]
    for folder in {"muster", *links} - {"sessions"}:  # a service of its own, which the webhook never imports
        assert f"COPY {folder} {folder}\n" in DOCKERFILE
        assert f"!{folder}" in let_in
    assert let_in.index("*") < let_in.index("!webhook")


def test_both_ways_to_make_the_probe_give_it_the_same_launchers():
    dockerfile = (bases.ROOT / "e2e" / "kind" / "probe.Dockerfile").read_text()
    (launchers,) = re.findall(r"for name in (.+?); do", dockerfile)
    assert tuple(launchers.split()) == images._LAUNCHERS
