"""`python -m e2e.run`: brings clusters up for each tier, runs the suites in them, and takes them down again.

By itself it runs everything, two clusters side by side (`lanes`); with `--quick` what `make test` runs (`plans`). With
`--tier` or `--suite` it is one cluster for each tier, one after the other; with `--own` it is the cluster that
KUBECONFIG names, whatever that is. `--prepare` builds what clusters need, and brings none up.

Suites that only use the installation run in parallel, each test in its namespace; those that change it (stop Muster,
swap it, load it) run after them, one test at a time.

What a machine cannot run is said in one line, at the start and at the end, and never counted as passed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from e2e import lanes, plans
from e2e.cluster import bringups, builds, commands, node, places, sites
from e2e.cluster.errors import ClusterError

_SUITES = places.REPOSITORY / "e2e" / "suites"
_LOGS = places.REPOSITORY / "build" / "e2e"


def main(arguments: list[str] | None = None) -> int:
    """Run what was asked for; 0 when all that ran passed."""
    # As Ctrl-C does: the cluster is taken down on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options, extra = _parser().parse_known_args(arguments)
    if options.own:
        return _suites("own", dict(os.environ), options.suite, [*_marks("own", options), *extra])
    lacking = node.missing()
    if options.say:
        print(_node_tier(lacking))
        return 0
    tiers: list[sites.Tier] = ["control-plane", "node"] if options.tier == "all" else [options.tier]
    if "node" in tiers and lacking:
        print(_node_tier(lacking))
        tiers.remove("node")
    if options.prepare:
        return _prepare(tiers, options)
    code = _run(tiers, options, extra)
    if options.tier == "all":
        print(_node_tier(lacking))
    return code


def _run(tiers: list[sites.Tier], options: argparse.Namespace, extra: list[str]) -> int:
    if options.tier != "all" or options.suite or options.keep:
        return max((_tier(tier, options, extra) for tier in tiers), default=1)
    code = lanes.run(_planned(tiers, options), extra)
    if options.quick:
        print("muster: tests that are marked thorough, and the suites of which all are, NOT run; `make test-all` does")
    else:
        names = plans.BY_NAME
        print(f"muster: suite {' and '.join(names)} NOT run; it is asked for by name: --tier node --suite {names[0]}")
    return code


def _planned(tiers: list[sites.Tier], options: argparse.Namespace) -> list[plans.Run]:
    return plans.quick(tiers) if options.quick else plans.everything(tiers)


def _prepare(tiers: list[sites.Tier], options: argparse.Namespace) -> int:
    """Build what all of the planned runs need, and the tests of packaging; several would wait for one another."""
    planned = _planned(tiers, options)
    suites = {suite for run in planned for suite in run.suites}
    try:
        if options.prepare == "binaries":
            tests = () if options.quick else plans.PACKAGING
            modules = {module for tier in tiers for module in bringups.MODULES[tier]}
            builds.binaries({*modules, *plans.modules(suites, quick=options.quick), *tests})
        elif "node" in tiers:
            tests = () if options.quick else plans.PACKAGING_IMAGES
            node.build(list(dict.fromkeys([*plans.images(suites, quick=options.quick), *tests])))
    except ClusterError as error:
        commands.say(str(error))
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.run", description=__doc__)
    parser.add_argument("--tier", choices=("control-plane", "node", "all"), default="all")
    parser.add_argument(
        "--suite", action="append", choices=(*plans.TOGETHER, *plans.ALONE), help="only this one; repeatable"
    )
    parser.add_argument("--quick", action="store_true", help="without the tests that are marked thorough")
    parser.add_argument("--own", action="store_true", help="against the cluster of KUBECONFIG")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    parser.add_argument("--prepare", choices=("binaries", "images"), help="only build what the clusters need")
    parser.add_argument("--say", action="store_true", help="only say which tiers this machine can run")
    return parser


def _node_tier(lacking: list[str]) -> str:
    if lacking:
        missed = ", ".join(suite for suite in plans.NEEDS_NODES if suite not in plans.BY_NAME)
        return f"muster: node tier NOT run on this machine (no pods, no suites {missed}): missing {', '.join(lacking)}"
    return "muster: this machine runs both tiers, control plane and node"


def _tier(tier: sites.Tier, options: argparse.Namespace, extra: list[str]) -> int:
    where = places.named(f"test-{os.getpid()}-{tier[:4]}")
    code = 1
    try:
        chosen = _chosen(tier, options)
        wanted = _wanted(tier, chosen)
        images = plans.images(wanted, quick=options.quick) if tier == "node" else ()
        bringups.up(where, tier, images, plans.modules(wanted, quick=options.quick))
        environment = {**os.environ, **_env(where.env)}
        code = _suites(tier, environment, chosen, [*_marks(tier, options), *extra])
    except ClusterError as error:
        commands.say(f"{tier} tier: {error}")
    finally:
        if code:
            _keep_logs(where, f"{tier}-{(options.suite or plans.TOGETHER)[0]}")
        if options.keep:
            commands.say(f"left up: `python -m e2e.cluster down --state {where.state}` ends it")
        else:
            bringups.down(where)
    return code


def _chosen(tier: sites.Tier, options: argparse.Namespace) -> list[str] | None:
    """Return the suites that were asked for, None for all: without names those of `make test`, if it is to be quick."""
    if options.suite or not options.quick:
        return list(options.suite) if options.suite else None
    return [suite for run in plans.quick([tier]) for suite in run.suites]


def _marks(tier: str, options: argparse.Namespace) -> list[str]:
    return ["-m", plans.marks(tier)] if options.quick else []


def _suites(tier: str, environment: dict[str, str], chosen: list[str] | None, extra: list[str]) -> int:
    wanted = _wanted(tier, chosen)
    together = [suite for suite in wanted if suite in plans.TOGETHER]
    alone = [suite for suite in wanted if suite in plans.ALONE]
    code = _pytest(tier, environment, together, ["-n", "4", *extra]) if together else 0
    # A broken installation would only fail again, slowly.
    return code or (_pytest(tier, environment, alone, ["-p", "no:randomly", *extra]) if alone else 0)


def _wanted(tier: str, chosen: list[str] | None) -> list[str]:
    known = (*plans.TOGETHER, *plans.ALONE)
    wanted = [suite for suite in known if (suite not in plans.BY_NAME if chosen is None else suite in chosen)]
    return [suite for suite in wanted if tier != "control-plane" or suite not in plans.NEEDS_NODES]


def _pytest(tier: str, environment: dict[str, str], suites: list[str], arguments: list[str]) -> int:
    commands.say(f"suites on {tier}: {', '.join(suites)}")
    begun = time.monotonic()
    paths = [str(_SUITES / suite) for suite in suites]
    command = [sys.executable, "-m", "pytest", "-q", "--durations=8", *arguments, *paths]
    code = subprocess.run(command, cwd=places.REPOSITORY, env=environment, check=False).returncode
    commands.say(
        f"suites on {tier}: {', '.join(suites)}: {'passed' if not code else 'FAILED'} "
        f"in {time.monotonic() - begun:.0f} s"
    )
    return code


def _env(path: Path) -> dict[str, str]:
    words = shlex.split(path.read_text())
    return dict(word.split("=", 1) for word in words)


def _keep_logs(where: places.Places, name: str) -> None:
    target = _LOGS / name
    shutil.rmtree(target, ignore_errors=True)
    if (where.state / "logs").exists():
        shutil.copytree(where.state / "logs", target)
        commands.say(f"the logs of the cluster are in {target}")


if __name__ == "__main__":
    sys.exit(main())
