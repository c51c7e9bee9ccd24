"""`muster claims`: shows which devices the profiles offer, who has them, and who waits, once, from a cluster."""

from __future__ import annotations

import argparse
import datetime
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import to_builtins

from muster.strategies.frameworks import builtin
from muster.strategies.platform.profiles import Profile
from muster.webhook import configs
from muster.webhook.cli import cluster_connections, observed, problems, terminal
from muster.webhook.cli.problems import CommandError
from muster.webhook.controllers import surveys
from muster.webhook.controllers.surveys import Holding
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]

_SILENT = 150.0  # seconds without a word after which an agent is said to be silent; it writes each 60


def run(args: argparse.Namespace) -> int:
    """Show profiles, claims, seats and waiting pods; see `commandline.json` for the arguments."""
    try:
        config = configs.load(args.config)
        profiles = config.policy(builtin.load()).profiles
    except configs.ConfigError as error:
        raise CommandError(str(error)) from error
    survey = cluster_connections.ask(_survey(args, config.cluster.kubeconfig, profiles))
    if args.output == "json":
        offered = {name: to_builtins(each) for name, each in profiles.items()}
        print(jsons.dump({"schema": problems.schema("claims"), "profiles": offered, **to_builtins(survey)}))
    else:
        for line in _lines(profiles, survey, datetime.datetime.now(datetime.UTC)):
            print(line)
    return problems.CLEAN


async def _survey(args: argparse.Namespace, kubeconfig: Path | None, profiles: Mapping[str, Profile]) -> surveys.Survey:
    async with cluster_connections.connected(args, args.kubeconfig or kubeconfig) as api:
        return await surveys.take(api, profiles, args.namespace)


def _lines(profiles: Mapping[str, Profile], survey: surveys.Survey, now: datetime.datetime) -> Iterator[str]:
    if profiles:
        yield from _table(("PROFILE", "SHARING", "CLASS", "DEVICES", "SEATS", "CLAIMS", "WHEN FULL"), _offers(profiles))
        yield ""
    else:
        print("muster: without profiles (--config FILE) the limits are not known", file=sys.stderr)
    if not survey.claims and not survey.templates:
        yield "there are no claims or templates of Muster"
    if survey.claims:
        headers = ("NAMESPACE", "CLAIM", "SEATS", "STATE", "DEVICES", "HELD BY", "WAITING")
        yield from _table(headers, [_claim(each) for each in survey.claims])
    leases = [(each, each.lease) for each in survey.claims if each.lease is not None]
    if leases:
        yield ""
        columns = ("NAMESPACE", "CLAIM", "DEVICE HELD BY", "FOR", "CHANGES", "TURNS", "WAITING", "TOLD")
        yield from _table(columns, [_lease(each, lease, now) for each, lease in leases])
    if survey.templates:
        yield from [""] * bool(survey.claims)
        rows = [(each.namespace, each.name, each.profile, ", ".join(each.pods) or "-") for each in survey.templates]
        yield from _table(("NAMESPACE", "TEMPLATE", "PROFILE", "PODS"), rows)


def _offers(profiles: Mapping[str, Profile]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, each in sorted(profiles.items()):
        shared = (str(each.max_sessions), str(each.claims), each.when_full) if each.is_shared else ("-", "-", "-")
        rows.append((name, each.sharing, each.device_class, str(each.count), *shared))
    return rows


def _claim(row: surveys.ClaimRow) -> tuple[str, ...]:
    holders = Counter(seat.job or f"pod {seat.pod}" for seat in row.seats)
    held = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in holders.items())
    limit = "?" if row.limit is None else str(row.limit)
    seats, devices, waiting = f"{len(row.seats)}/{limit}", ", ".join(row.devices), ", ".join(row.waiting)
    return (row.namespace, row.name, seats, row.state, devices or "-", held or "-", waiting or "-")


def _lease(row: surveys.ClaimRow, lease: Holding, now: datetime.datetime) -> tuple[str, ...]:
    held = f"{lease.holder} ({lease.phase})" if lease.holder else f"- ({lease.phase})"
    since = problems.age(observed.seconds_since(lease.since, now)) if lease.since else "-"
    turns = ", ".join(
        f"{session.removeprefix(f'{row.namespace}/')} {count}" for session, count in sorted(lease.turns.items())
    )
    silence = observed.seconds_since(lease.at, now)
    told = f"{problems.age(silence)} ago{'; its agent is silent' if silence > _SILENT else ''}" if lease.at else "-"
    waiting = ", ".join(lease.waiting)
    return (row.namespace, row.name, held, since, str(lease.changes), turns or "-", waiting or "-", told)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from terminal.layout(headers, rows, terminal.terminal_width())
