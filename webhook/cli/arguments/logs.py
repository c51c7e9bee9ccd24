"""Arguments of `muster audit` and of its actions."""

from __future__ import annotations

import argparse
from pathlib import Path

from muster.webhook.cli.arguments import options

__all__ = ["DECISIONS", "audit"]

DECISIONS = ("patched", "unchanged", "allowed", "denied", "error", "skipped")
"""The decisions of audit records, as in `muster.audit.record_schema.Decision`."""


def audit(add: options.Adder) -> None:
    """Add `muster audit`."""
    audit = add("audit", help="list, show, verify or serve the log of decisions", allow_abbrev=False)
    audit.set_defaults(command="audit")
    actions = audit.add_subparsers(title="actions", metavar="ACTION", dest="action")
    listing = actions.add_parser("ls", help="list records, one line each", allow_abbrev=False)
    options.output(listing, "text", "json")
    for option, what in [(each, "name") for each in ("job", "namespace", "user", "framework", "rule")]:
        listing.add_argument(f"--{option}", metavar=what.upper(), help=f"only this {option}; * and ? are wildcards")
    listing.add_argument("--decision", choices=DECISIONS, help="only this decision")
    listing.add_argument("--kind", choices=("TrainJob", "JobSet"), help="only jobs of this kind")
    listing.add_argument(
        "--text", metavar="WORDS", help="only records with these words in a reason, a message or a field"
    )
    listing.add_argument("--follow", action="store_true", help="wait for new records, across rotation")
    listing.add_argument(
        "--since", metavar="TIME", help="only at this time or later: 2026-03-01T08:00:00Z, 15m, 2h, 1d"
    )
    listing.add_argument("--until", metavar="TIME", help="only before this time")
    show = actions.add_parser("show", help="show records in full", allow_abbrev=False)
    options.output(show, "yaml", "json")
    which = show.add_mutually_exclusive_group(required=True)
    which.add_argument("--uid", help="uid of the admission request")
    which.add_argument("--seq", type=int, metavar="NUMBER", help="number of the record in its log")
    verify = actions.add_parser("verify", help="find lines that were edited, removed or inserted", allow_abbrev=False)
    verify.add_argument("--restarts", action="store_true", help="accept chains that start again (several processes)")
    _anchors(verify)
    serve = actions.add_parser("serve", help="serve read-only web pages about the log", allow_abbrev=False)
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to bind; everyone who can reach it can read the log"
    )
    serve.add_argument("--port", type=int, default=8099, help="TCP port, 8099 by default; 0 chooses a free one")
    serve.add_argument(
        "--auth",
        choices=("none", "cluster"),
        default="none",
        help="cluster: by TLS, and only for tokens that may get auditlogs.muster.dev in the namespace of Muster",
    )
    serve.add_argument(
        "--tls", type=Path, metavar="FOLDER", help="folder with tls.crt, tls.key and ca.crt; without, they are made"
    )
    serve.add_argument(
        "-n", "--namespace", default="muster-system", help="namespace of Muster; muster-system by default"
    )
    options.kubeconfig(serve)
    options.context(serve)
    for action in (listing, show, verify, serve):
        action.add_argument("file", nargs="+", metavar="FILE", help="log, together with its rotated files; - is stdin")


def _anchors(verify: argparse.ArgumentParser) -> None:
    verify.add_argument(
        "--anchor",
        action="append",
        default=[],
        metavar="SEQ:HASH",
        help="number and hash of a record that must be there, noted earlier; may be repeated",
    )
    verify.add_argument(
        "--anchors", type=Path, metavar="FILE", help="anchors or records, one a line, or Muster's ConfigMap as JSON"
    )
    verify.add_argument(
        "--anchors-from-cluster", action="store_true", help="the anchors that Muster noted in its ConfigMap"
    )
    options.kubeconfig(verify)
    options.context(verify)
    verify.add_argument(
        "-n", "--namespace", default="muster-system", help="namespace of Muster; muster-system by default"
    )
    verify.add_argument("--pod", metavar="NAME", help="only the anchors of this pod of Muster")
    verify.add_argument(
        "--copied", metavar="TIME", help="when the log was copied: later anchors of the cluster are not expected"
    )
