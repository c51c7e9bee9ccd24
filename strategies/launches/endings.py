"""Endings: findings about a shell that ends otherwise than the training, or the server, that it starts.

The kubelet sees the status of the container's first process alone. Where a shell loses the status of the launch, the
pod succeeds although the training failed, and no policy of Job, JobSet or Trainer starts it again. A pipe into `tee` is
so common that it is a note.
"""

from __future__ import annotations

from collections.abc import Iterator

from strategies.documents.findings import Finding, error, note, warning
from strategies.jobs.jobs import Job
from strategies.launches import quotes, sites
from strategies.launches.statuses import Loss

__all__ = ["check"]

_RULE = "core/lost-status"
_MESSAGES = {
    Loss.PIPE: (
        "the pod succeeds although this failed: a pipe ends with the status of its last command{by}; run the text with "
        "bash and begin it with `set -o pipefail`"
    ),
    Loss.OR: (
        "the pod succeeds although this failed: what follows || succeeds{by}; remove it, or let it end with `exit 1`"
    ),
    Loss.NEXT: (
        "the pod succeeds although this failed: the shell goes on, and ends with the status of what follows{by}; begin "
        "the text with `set -e`, or put && between them"
    ),
    Loss.LEFT: (
        "runs in the background, and the shell ends without waiting for it, which ends the container; remove the &, or "
        "end the text with `wait $!`"
    ),
}


def check(job: Job) -> Iterator[Finding]:
    """Report the first launch of a training with whose status its container does not end."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None:
        return
    lost = next((launch for launch in site.reading.launches if launch.lost is not None), None)
    if lost is None or lost.lost is None:
        return
    loss, program = lost.lost
    report = note if loss is Loss.PIPE else warning
    if loss is Loss.LEFT and not site.reading.unread:
        report = error
    message = _MESSAGES[loss].format(by=f" ({quotes.program(program)})" if program else "")
    yield report(site.locate_option(lost, ""), quotes.launch(lost), message, rule=_RULE)
