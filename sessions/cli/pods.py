"""Options of `serve` that say where engines run: as processes of this machine, or as pods."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.sessions.platforms.manifests import Volume
    from muster.sessions.runs.config import OnPods

__all__ = ["PLATFORMS", "add", "chosen"]

PLATFORMS = ("processes", "kubernetes")
_OPTIONS = {
    "namespace": ("NAME", "of the pods of engines"),
    "image": ("NAME", "of the engines (images/engine)"),
    "sampler_image": ("NAME", "of the sampler, where it is another, such as one with vLLM"),
    "volume": ("CLAIM[:FOLDER]", "PersistentVolumeClaim, or a folder of it, that is --root for this Gateway"),
    "base_volume": ("CLAIM[:FOLDER]", "the same for --base; without it the image holds the base model"),
    "profile": (
        "NAME[,NAME...]",
        "claim profile of both pods, whose device they share, and those taken while it is full; no device by default",
    ),
    "memory": ("AMOUNT", "that each pod asks of its host, such as 16Gi; what the profile says by default"),
    "gateway": ("NAME", "of this Gateway, which its replicas share; gateway by default"),
    "gateway_namespace": ("NAME", "of this Gateway, from which alone the pods are reached; its account's by default"),
    "account": ("FOLDER", "token, ca.crt and namespace of a ServiceAccount; where pods have them by default"),
}
_NEEDED = ("namespace", "image", "volume")


def add(serve: argparse.ArgumentParser) -> None:
    """Add the options."""
    what = "where engines run: processes on this machine (default), or pods of a kubernetes cluster"
    serve.add_argument("--platform", choices=PLATFORMS, default=PLATFORMS[0], help=what)
    pods = serve.add_argument_group("with --platform kubernetes")
    for name, (shown, text) in _OPTIONS.items():
        pods.add_argument(_flag(name), metavar=shown, help=text)


def chosen(args: argparse.Namespace) -> OnPods | None:
    """Return how engines run as pods, None for processes. Raises `ValueError` for options that do not go together."""
    given = [name for name in _OPTIONS if getattr(args, name) is not None]
    if args.platform != "kubernetes":
        if given:
            raise ValueError(f"{_flag(given[0])}: is for --platform kubernetes: pass that too, or leave it out")
        return None
    for name in ("trainer_python", "sampler_python"):
        if getattr(args, name):
            raise ValueError(f"{_flag(name)}: engines run in the image of their pods: leave it out")
    if args.ranks != 1:
        raise ValueError(f"--ranks: {args.ranks}: engines in pods have one rank: leave it out")
    if lacking := [name for name in _NEEDED if getattr(args, name) is None]:
        raise ValueError(f"{_flag(lacking[0])}: is missing: --platform kubernetes needs it")
    from muster.kube.authentication import ACCOUNT, address, of_account  # noqa: PLC0415  # other commands need no TLS
    from muster.sessions.platforms.api import namespace_of  # noqa: PLC0415  # as above
    from muster.sessions.platforms.manifests import Settings  # noqa: PLC0415  # as above
    from muster.sessions.runs.config import OnPods  # noqa: PLC0415  # as above

    profiles = args.profile.split(",") if args.profile is not None else []
    account = Path(args.account) if args.account else ACCOUNT
    access = of_account(address(), account)
    settings = Settings(
        gateway=args.gateway or "gateway",
        namespace=args.namespace,
        peers=args.gateway_namespace or namespace_of(account),
        image=args.image,
        volume=_volume("volume", args.volume),
        root=args.root.resolve(),
        base=args.base.resolve(),
        base_volume=_volume("base_volume", args.base_volume) if args.base_volume else None,
        sampler_image=args.sampler_image,
        profile=next(iter(profiles), None),
        spill=tuple(profiles[1:]),
        memory=args.memory,
        lease=args.device_lease,
    )
    return OnPods(settings, access)


def _volume(name: str, text: str) -> Volume:
    from muster.sessions.platforms.manifests import Volume  # noqa: PLC0415  # as above

    try:
        return Volume.parsed(text)
    except ValueError as error:
        raise ValueError(f"{_flag(name)}: {error}") from error


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
