"""Conflicts: a flag that is given more than once, with values that differ.

Job and runtime may both give it (`authors`). TRL's parser takes the last value (argparse),
but the first `--config` and the first `--accelerate_config`, and it stops at a second one (trl
`trl/scripts/utils.py`, `trl/cli/accelerate_config.py`). What the job writes is meant to win over its runtime. Two
values of the same author cannot be told apart, so they are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.strategies.documents.findings import Finding, beginning, error, warning
from muster.strategies.frameworks.authors import Authors
from muster.strategies.frameworks.flag_tables import FlagSpec
from muster.strategies.frameworks.trl import flags, invocations
from muster.strategies.frameworks.trl.flags import Given
from muster.strategies.frameworks.trl.invocations import Invocation
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches.sites import Site

__all__ = ["Settled", "check", "check_within", "settle"]

_FIRST_WINS = frozenset({"config", "accelerate_config"})
_ADDED_UP = frozenset({"vm", "env"})
"""Flags of accelerate whose values add up (TPU pods)."""
_SHOWN = 40
_NAMED = 6


class Settled(Struct, frozen=True):
    """A site in which nothing of the runtime stands against the job's own words.

    Attributes:
        site: the site to plan with.
        needed: whether TRL would take the runtime's value, or stop, without the change.
        reason: which flags of the runtime were left out; "" for none.
    """

    site: Site
    needed: bool = False
    reason: str = ""


def settle(site: Site, job: Job) -> Settled:
    """Leave out the runtime's flags that the job's own part of the command line also gives."""
    found = invocations.read(site, job) or invocations.within(site.launch)
    author = _Author(site, job, found) if found else None
    if found is None or author is None or not author.mixed:
        return Settled(site)
    parsed = flags.parse(found.method, found.args)
    dropped: list[Given] = []
    for every in _groups(parsed).values():
        own = [given for given in every if author.owns(given.words[0])]
        dropped += [given for given in every if own and not author.owns(given.words[0])]
    gone = {author.offset + index for given in dropped for index in given.words} | author.method()
    if not gone:
        return Settled(site)
    last_wins = all(given.name not in _FIRST_WINS | parsed.launcher_values.keys() for given in dropped)
    written = ", ".join(dict.fromkeys(f"--{given.name}" for given in dropped)) or "the method"
    return Settled(
        site=_without(site, gone, author.offset),
        needed=site.own_command or not last_wins,
        reason=f"the job's own words win over its runtime, which also gives {written}",
    )


def check(found: Invocation, parsed: flags.ParsedArgs, site: Site, job: Job) -> Iterator[Finding]:
    """Refuse flags that one author gives twice with different values."""
    author = _Author(site, job, found)
    counted = site.launch.repeated  # flags of a launcher, which the check of all launches reports
    yield from _two_files(parsed, author)
    for name, every in _groups(parsed).items():
        if name in counted:
            continue
        own = [given for given in every if author.owns(given.words[0])]
        judged = own or every
        if len(judged) > 1:
            yield from _differing(name, judged, author, flags.spec(found.method, f"--{name}"))


def check_within(found: Invocation, parsed: flags.ParsedArgs, site: Site) -> Iterator[Finding]:
    """Refuse flags with two values in a shell's text, where the runtime's words cannot be told from the job's.

    Args:
        found: the invocation, in which a value with a `$` is known only in the pod.
        parsed: its arguments.
        site: where the command line is written.
    """
    field = f"{site.place}.{'command' if site.command else 'args'}"
    for name, every in _groups(parsed).items():
        spec, last = flags.spec(found.method, f"--{name}"), every[-1]
        other = next((given for given in every if not _same(given.value, last.value, spec)), None)
        if other is not None and name not in site.launch.repeated and "$" not in f"{other.value}{last.value}":
            message = f"stands behind {_shown(name, other.value)}, and TRL would take the last of the two; remove one"
            yield error(field, _shown(name, last.value), message, rule="trl/flag-twice")


class _Author(Authors):
    """Who wrote which word of an invocation's arguments."""

    def __init__(self, site: Site, job: Job, found: Invocation) -> None:
        super().__init__(site, job, found.args)
        self.site, self.job, self.found = site, job, found

    def method(self) -> set[int]:
        """Return the place of the runtime's first argument where it names a method beside the job's own command."""
        first = len(self.site.command)
        behind = not self.own_args and first >= self.offset and not self.found.said_by
        return {first} if behind and self.site.args[0] in flags.methods() else set()

    def place(self, given: Given) -> str:
        written = self.site.locate(self.offset + given.words[0])
        return written if self.owns(given.words[0]) else "spec.runtimeRef.name"


def _two_files(parsed: flags.ParsedArgs, author: _Author) -> Iterator[Finding]:
    """Refuse a file of accelerate beside TRL's own name for one, which then has no effect (`accelerate_config.py`)."""
    given = {each.name: each for each in parsed.given if each.name in ("accelerate_config", "config_file")}
    if len(given) > 1 and author.owns(given["accelerate_config"].words[0]) == author.owns(
        given["config_file"].words[0]
    ):
        file, named = given["config_file"], given["accelerate_config"]
        message = f"would be read instead of {_shown('accelerate_config', named.value)}; remove one of the two"
        yield error(author.place(file), _shown("config_file", file.value), message, rule="trl/flag-twice")


def _groups(parsed: flags.ParsedArgs) -> Mapping[str, Sequence[Given]]:
    """Return the flags that are given more than once."""
    every: dict[str, list[Given]] = {}
    for given in parsed.given:
        every.setdefault(given.name, []).append(given)
    return {name: places for name, places in every.items() if len(places) > 1 and name not in _ADDED_UP}


def _differing(name: str, every: Sequence[Given], author: _Author, spec: FlagSpec | None) -> Iterator[Finding]:
    """Report the first place whose value is not that of the last, which TRL would take."""
    last = every[-1]
    other = next((given for given in every if not _same(given.value, last.value, spec)), None)
    if other is None and name not in _FIRST_WINS:
        return
    first = other or every[0]
    where, mine = author.place(first), author.owns(last.words[0])
    one, two = _shown(name, first.value), _shown(name, last.value)
    if name in _FIRST_WINS:
        message = f"stands beside {one} ({where}), and TRL stops at a second --{name}; remove one"
    else:
        message = f"stands beside {one} ({where}), and TRL would take the last of the two; remove one"
    if not mine:
        message = f"gives {one} and {two}, and the job neither; remove one of them there, or give --{name} in the job"
    unseen = any("$" in str(given.value) for given in (first, last)) and name not in _FIRST_WINS
    report = warning if unseen else error
    value = two if mine else author.job.runtime.name if author.job.runtime else None
    yield report(author.place(last), value, message, rule="trl/flag-twice")


def _same(one: flags.Value | None, two: flags.Value | None, spec: FlagSpec | None) -> bool:
    if one == two or spec is None or spec.kind.partition("|")[0] not in ("int", "float"):
        return one == two
    try:
        return float(str(one)) == float(str(two))
    except ValueError:
        return False


def _shown(name: str, value: flags.Value | None) -> str:
    if isinstance(value, bool):
        return f"--{name} {str(value).lower()}"
    text = " ".join(value) if isinstance(value, list) else str(value or "")
    return f"--{name} {beginning(text, _SHOWN)}".rstrip()


def _without(site: Site, gone: set[int], offset: int) -> Site:
    """Return the site without some words; args that would be empty take the script's arguments from the command."""
    command = tuple(word for index, word in enumerate(site.command) if index not in gone)
    start = len(site.command)
    args = tuple(word for index, word in enumerate(site.args) if start + index not in gone)
    if not args and site.args:
        return replace(site, command=command[:offset], args=command[offset:])
    return replace(site, command=command, args=args)
