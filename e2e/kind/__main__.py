"""`python -m e2e.kind images|install`: what `up.sh` does without kind and Docker.

`images` prints the names of Muster's and the probe's image. `install` installs everything on the cluster whose
`kubeconfig` is in the state folder, and writes into the file `env` there how the suites reach it.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import yaml

from e2e.cluster import builds, commands, upstream
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import images, workloads
from e2e.cluster.places import Places
from e2e.kind import fakes

__all__ = ["install", "main"]


def main(arguments: list[str] | None = None) -> int:
    """Run; return 2 with a message when it fails."""
    options = _parser().parse_args(arguments)
    if options.action == "images":
        print(images.MUSTER, images.PROBE)
        return 0
    try:
        install(Places(options.state.resolve()))
    except ClusterError as error:
        print(f"muster: {error}", file=sys.stderr)
        return 2
    return 0


def install(places: Places) -> None:
    """Install or update JobSet, Trainer, Muster, KWOK, fake nodes and runtimes.

    Raises:
        ClusterError: kubectl or the cluster is missing, or a part does not come up.
    """
    found = shutil.which("kubectl")
    if found is None:
        raise ClusterError("kubectl is not on PATH; install it")
    if not places.kubeconfig.exists():
        raise ClusterError(f"{places.kubeconfig}: this file does not exist; e2e/kind/up.sh makes it")
    kubectl = Path(found)
    manifests = workloads.rendered(places, kubectl)
    workloads.install(places, kubectl, replace(manifests, jobset=_released(manifests.jobset)))
    upstream.apply(kubectl, [*fakes.documents(kubectl), *fakes.nodes()], places.kubeconfig)
    upstream.apply(kubectl, upstream.runtimes(kubectl, places.state / "upstream" / "runtimes"), places.kubeconfig)
    names = [f"node/{node['metadata']['name']}" for node in fakes.nodes()]
    reached: list[str | Path] = [kubectl, "--kubeconfig", places.kubeconfig]
    commands.run([*reached, "wait", "--for=condition=Ready", "--timeout=180s", *names], timeout=200)
    values = {"KUBECONFIG": places.kubeconfig, "MUSTER_E2E_KUBECTL": kubectl}
    places.env.write_text("".join(f"{key}={shlex.quote(str(value))}\n" for key, value in values.items()))
    commands.say(f"installed; for the suites: {places.env}")


def _released(jobset: list[upstream.Document]) -> list[upstream.Document]:
    """JobSet's manifests name the place where images wait for their release; Trainer's say where released ones are."""
    folder = builds.module_folder("kubernetes", upstream.TRAINER) / "manifests" / "third-party" / "jobset"
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    released = {image["name"]: image["newName"] for image in kustomization.get("images") or () if "newName" in image}
    for document in jobset:
        if document["kind"] == "Deployment":
            for container in document["spec"]["template"]["spec"]["containers"]:
                name, _, tag = container["image"].rpartition(":")
                container["image"] = f"{released.get(name, name)}:{tag}"
    return jobset


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.kind", description=__doc__)
    parser.add_argument("action", choices=("images", "install"))
    parser.add_argument("--state", type=Path, default=Path(), metavar="DIR", help="the folder of the kubeconfig")
    return parser


if __name__ == "__main__":
    sys.exit(main())
