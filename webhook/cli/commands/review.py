"""`muster review`: prints the answer of the webhook, for scripts, bug reports and the parity test.

It calls the same three functions as the HTTPS handler, so it prints the same bytes. Where the handler answers with a
4xx, this command ends with a message and exit code 2.
"""

from __future__ import annotations

import argparse
import sys

from muster.webhook.admission import answers
from muster.webhook.admission import reviews as wire
from muster.webhook.cli import cases, gathering, problems
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import sources

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Answer the AdmissionReview on standard input; see `commandline.json` for the arguments."""
    body = sys.stdin.buffer.read(sources.MAX_BYTES + 1)
    if len(body) > sources.MAX_BYTES:
        raise CommandError(f"stdin: is larger than {sources.MAX_BYTES // 1024**2} MiB")
    try:
        request = wire.parse(body, args.phase)
    except wire.ReviewError as error:
        if error.uid:
            _write(wire.deny(error.uid, str(error), code=400, reason="BadRequest"))
        raise CommandError(f"stdin: {error}") from error
    cluster = gathering.gather([], args.runtimes, namespace=args.namespace, whole=True)
    settings = cases.policy(args.config)
    cluster.reader.trainer = args.trainer or settings.trainer
    _write(answers.answer(cases.evaluate(request, cluster.reader, settings)))
    return problems.CLEAN


def _write(response: wire.Response) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(wire.dumps(response))
    sys.stdout.buffer.flush()
