"""`python -m e2e.cluster up|down|status|logs|stop|start|restart`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from e2e.cluster import bringups, places, processes, sites
from e2e.cluster.errors import ClusterError

_DEFAULT = "dev"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 1 with a message when it fails."""
    options = _parser().parse_args(arguments)
    try:
        where = places.named(options.name, options.state)
        _COMMANDS[options.command](where, options)
    except ClusterError as error:
        print(f"muster: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    parser.add_argument("command", choices=_COMMANDS)
    parser.add_argument("component", nargs="?", help="for logs, stop, start and restart")
    parser.add_argument("--name", default=_DEFAULT, help="name of the cluster (default: %(default)s)")
    parser.add_argument("--state", type=Path, help="folder of the cluster (default: clusters/NAME in the cache folder)")
    parser.add_argument("--tier", choices=("control-plane", "node"), default="control-plane")
    parser.add_argument(
        "--images", type=lambda text: text.split(","), default=[], metavar="NAME,...",
        help="up: of trainings, for pods of the node tier: trl, torchtune, vllm; also into a cluster that is up",
    )  # fmt: skip
    parser.add_argument("--kill", action="store_true", help="stop, restart: by SIGKILL at once")
    parser.add_argument("--env", action="append", default=[], metavar="KEY=VALUE", help="start: for this start only")
    return parser


def _up(where: places.Places, options: argparse.Namespace) -> None:
    bringups.up(where, options.tier, options.images)
    print(f"export KUBECONFIG={where.kubeconfig}")


def _down(where: places.Places, _: argparse.Namespace) -> None:
    bringups.down(where)


def _status(where: places.Places, _: argparse.Namespace) -> None:
    site = sites.load(where)
    alive = processes.running(where)
    print(f"{site.tier} tier at {site.server}, state {where.state}")
    for file in sorted((where.state / "components").glob("*.json")):
        pids = [str(pid) for pid, name in alive.items() if name == file.stem]
        print(f"  {file.stem:28} {'running ' + ' '.join(pids) if pids else 'stopped'}")


def _logs(where: places.Places, options: argparse.Namespace) -> None:
    if options.component is None:
        raise ClusterError(f"logs: name a component; the files are in {where.state / 'logs'}")
    path = where.log(options.component)
    if not path.exists():
        raise ClusterError(f"{path}: this log does not exist")
    sys.stdout.write(path.read_text(errors="replace"))


def _stop(where: places.Places, options: argparse.Namespace) -> None:
    processes.end(where, _component(where, options), kill=options.kill)


def _start(where: places.Places, options: argparse.Namespace) -> None:
    processes.again(where, _component(where, options), dict(each.split("=", 1) for each in options.env))


def _restart(where: places.Places, options: argparse.Namespace) -> None:
    _stop(where, options)
    _start(where, options)


def _component(where: places.Places, options: argparse.Namespace) -> str:
    if options.component is None:
        raise ClusterError(f"{options.command}: name a component; `status` lists them")
    return processes.Component.load(where, options.component).name


_COMMANDS = {
    "up": _up,
    "down": _down,
    "status": _status,
    "logs": _logs,
    "stop": _stop,
    "start": _start,
    "restart": _restart,
}


if __name__ == "__main__":
    sys.exit(main())
