"""`muster doctor`: what is wrong with a live installation and what to do, one line each, worst first."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence

from muster.webhook.cli import cluster_connections, problems
from muster.webhook.cli.problems import CommandError
from muster.webhook.doctor import examination, expected_state
from muster.webhook.doctor.diagnoses import Diagnosis, Severity
from muster.webhook.doctor.live_installation import Installation, Options
from muster.webhook.kubeyaml import jsons

__all__ = ["SCHEMA", "run"]

SCHEMA = "muster.dev/doctor/v1"
"""Version of the JSON, to which members may be added."""
_CODES = {
    Severity.ERROR: problems.FOUND,
    Severity.UNKNOWN: problems.UNREADABLE,
    Severity.WARNING: problems.CLEAN,
    Severity.OK: problems.CLEAN,
}
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def run(args: argparse.Namespace) -> int:
    """Examine an installation; see `commandline.json` for the arguments."""
    options = _options(args)
    try:
        base = expected_state.read(expected_state.places())
    except expected_state.ExpectationError as error:
        raise CommandError(str(error)) from error
    found = cluster_connections.ask(_examined(args, options, base), "the API server")
    verdict = examination.verdict(found)
    if args.output == "json":
        print(jsons.dump(_object(options, verdict, found)))
    else:
        for each in found:
            print(_line(each))
    problems.warn([_summary(options, found)])
    return _CODES[verdict]


async def _examined(args: argparse.Namespace, options: Options, base: expected_state.ExpectedState) -> list[Diagnosis]:
    async with cluster_connections.connected(args) as sender:
        return await examination.examine(Installation(sender, options, base))


def _options(args: argparse.Namespace) -> Options:
    """Return what to check.

    Raises:
        CommandError: a name is not valid in Kubernetes, or an address is not valid.
    """
    for option in ("namespace", "name", "probe_namespace"):
        value = getattr(args, option)
        if not _NAME.fullmatch(value):
            text = "is not a valid name; use lower-case letters, digits and dashes, at most 63"
            raise CommandError(f"--{option.replace('_', '-')}: {value!r} {text}")
    dial = _address(args.dial)
    return Options(args.namespace, args.name, args.probe_namespace, dial, args.timeout, guard=args.guard)


def _address(text: str | None) -> tuple[str, int] | None:
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise CommandError(f"--dial: {text!r} is not an address; give HOST:PORT, such as 127.0.0.1:8443")
    return host.strip("[]"), int(port)


def _line(each: Diagnosis) -> str:
    todo = f"; {each.todo}" if each.todo else ""
    return f"{each.severity.value:<8}{problems.one_line(f'{each.check}: {each.what}{todo}')}"


def _summary(options: Options, found: Sequence[Diagnosis]) -> str:
    counts = Counter(each.severity for each in found)
    shown = ", ".join(f"{counts[severity]} {severity.value}" for severity in Severity)
    return f"muster: {options.namespace}/{options.name}: {shown}"


def _object(options: Options, verdict: Severity, found: Sequence[Diagnosis]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "namespace": options.namespace,
        "name": options.name,
        "verdict": verdict.value,
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.value,
                "what": each.what,
                "todo": each.todo or None,
                "figures": dict(each.figures),
            }
            for each in found
        ],
    }
