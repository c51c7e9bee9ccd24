"""Endings: findings about a shell that ends otherwise than the training, or the server, that it starts.

The kubelet sees the status of the container's first process alone. Where a shell loses the status of the launch, the
pod succeeds although the training failed, and no policy of Job, JobSet or Trainer starts it again. A pipe into `tee` is
so common that it is a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from muster.strategies.documents.findings import Finding, beginning, error, note, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import endless, quotes, sites
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site
from muster.strategies.shell import Loss

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
    """Report a command line that starts nothing, that never ends, or that ends without the status of its launch."""
    site = sites.find_site(job) if job.owner is None else None
    if site is None:
        return
    for fault in site.reading.faults[:1]:
        place = site.locate_option(Launch(Launcher.NONE), "")
        yield error(place, beginning(" ".join(site.argv), 80), f"{fault}; correct the command", rule="core/no-start")
    for line, word in () if site.reading.faults else site.reading.torn[:1]:
        place = next((site.locate(index) for index, text in enumerate(site.argv) if _TORN.search(text)), site.place)
        what = quotes.flag(word) if word.startswith("-") else quotes.program(word)
        message = (
            f"is not an argument of the command before it, which ends in line {line} of the shell's text: a \\ "
            "continues a line only where the line ends directly behind it, and a comment ends the command; remove the "
            "comment or the blanks"
        )
        yield warning(place, what, message, rule="core/torn-line")
    if site.reading.launches and site.reading.launches[0].through:
        yield from _endless(job, site)
    lost = next((launch for launch in site.reading.launches if launch.lost is not None), None)
    if lost is None or lost.lost is None:
        return
    loss, program = lost.lost
    report = note if loss is Loss.PIPE else warning
    if loss is Loss.LEFT and not site.reading.unread:
        report = error
    message = _MESSAGES[loss].format(by=f" ({quotes.program(program)})" if program else "")
    yield report(site.locate_option(lost, ""), quotes.launch(lost), message, rule=_RULE)


_TORN = re.compile(r"\\[ \t\r]")


def _endless(job: Job, site: Site) -> Iterator[Finding]:
    """Report a training behind which the container waits for ever, so that the pod never ends."""
    training = next((launch for launch in site.reading.launches if launch.launcher in _TRAINING), None)
    if training is not None and endless.of_job(job).never_ends(site.argv):
        message = (
            "the container waits for ever behind it, so the job never completes and keeps its devices; end with the "
            "training, or keep the pods by ttlSecondsAfterFinished"
        )
        yield warning(site.locate_option(training, ""), quotes.launch(training), message, rule="core/endless-training")


_TRAINING = frozenset(Launcher) - {Launcher.VLLM, Launcher.RAY, Launcher.NONE, Launcher.OTHER, Launcher.SHELL}
