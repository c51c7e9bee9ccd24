"""Readings: every launch that a command line makes, also through wrappers and a shell's text.

A strategy rewrites only the bare launch of a site (`Site.launch`). What it says about a job is judged by the reading.

A plain program of Python that runs beside a launcher prepares something or looks at the result, and is not a launch of
its own: it is in `Reading.beside`. Where only such programs run, the last one is the launch.

Programs: which of those that a shell runs prepare a training, and which launch it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from muster.strategies import shell
from muster.strategies.launches import accelerate_files, launches, quotes, spawns, wrappers
from muster.strategies.launches.launches import SHELLS, Launch, Launcher, program
from muster.strategies.launches.options import split, table
from muster.strategies.shell import (
    BEHIND,
    PROGRAMS,
    Allowance,
    Choice,
    Command,
    Invocation,
    Loose,
    Loss,
    Scope,
    invoked,
)

__all__ = ["FILES", "Reading", "is_preparation", "is_training", "read", "runs_nothing"]


_MAX_CACHED = 16 * 1024
_MAX_CACHED_LONG = 64 * 1024
_MAX_PROGRAMS = 64
_DEPTH = 6
_MAX_WRAPPERS = 64


_NOTHING = Launch(Launcher.NONE)


class Reading(Struct, frozen=True):
    """What a command line starts.

    Attributes:
        launches: the launches in the order in which they run; empty where none was recognised.
        unread: what could not be read, each as a clause: `the file run.sh cannot be seen`. Where it is not empty, more
            may run than `launches` names.
        beside: plain programs that run before or after the launches.
        faults: why a program starts nothing, each as a clause.
        torn: lines of a shell's text that a backslash does not continue, each with the word that begins the next one.
        bare: the launch of the words as they stand: the first one decides, and wrappers and shells are not looked into.
    """

    launches: tuple[Launch, ...] = ()
    unread: tuple[str, ...] = ()
    beside: tuple[Launch, ...] = ()
    faults: tuple[str, ...] = ()
    torn: tuple[tuple[int, str], ...] = ()
    bare: Launch = _NOTHING

    @property
    def only(self) -> Launch | None:
        """The launch, where exactly one runs, for certain, and everything was read; else None."""
        if self.unread or len(self.launches) != 1 or not self.launches[0].certain:
            return None
        return self.launches[0]

    @property
    def training(self) -> Launch | None:
        """The launch of the training, where all was read: the last one, since what runs before it prepares it."""
        return self.visible if not self.unread else None

    @property
    def visible(self) -> Launch | None:
        """The last launch that was read; a plain program beside a launcher is not the training."""
        launchers = [each for each in self.launches if each.launcher is not Launcher.PYTHON] or self.launches
        return launchers[-1] if launchers else None


def read(argv: Sequence[str]) -> Reading:
    """Read a command line (`command` followed by `args`)."""
    words = tuple(argv)
    length = sum(map(len, words))
    if length <= _MAX_CACHED:
        return _cached(words)
    return _cached_long(words) if length <= _MAX_CACHED_LONG else _few(words)


def _read(words: tuple[str, ...]) -> Reading:
    if not words:
        return Reading()
    bare = launches.parse(words)
    if len(words) > launches.MAX_WORDS:
        return Reading(unread=("the command line has more words than Muster reads",), bare=bare)
    if bare.launcher not in (Launcher.SHELL, Launcher.OTHER, Launcher.PYTHON):
        return Reading((bare,), bare=bare)
    reader = _Reader(sum(map(len, words)))
    if launches.program(words[0]) in SHELLS or wrappers.known(words[0]):
        words = tuple(re.sub(_ESCAPED, "$", word) for word in words)  # as Kubernetes does
    reader.command(_Around(), words, launch=bare)
    return replace(reader.result(), bare=bare)


_cached = functools.lru_cache(maxsize=256)(_read)
_cached_long = functools.lru_cache(maxsize=64)(_read)  # parts of one training are read again after each change
_few = functools.lru_cache(maxsize=2)(_read)  # still longer ones: a decision asks some seven times


class _Around(Struct, frozen=True):
    """What stands around a command line."""

    through: tuple[str, ...] = ()
    env: Mapping[str, str | None] | None = None
    assigned: Mapping[str, str | None] | None = None
    cleared: bool = False
    shells: int = 0
    inner: bool = False
    stdin: str | None = None
    files: Mapping[str, str] | None = None
    text: str = ""

    def sets(self, env: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Return the variables that are set, with these on top."""
        return {**(self.env or {}), **env}


class _Reader:
    """Collects the launches of one command line of `length` characters."""

    def __init__(self, length: int) -> None:
        self._found: list[tuple[Launch, Command]] = []
        self._is_host = False
        self._allowance = Allowance(length)
        self._unread: list[str] = []
        self._faults: list[str] = []
        self._unseen = False
        self._torn: list[tuple[int, str]] = []

    def command(
        self, around: _Around, words: tuple[str, ...], command: Command | None = None, launch: Launch | None = None
    ) -> None:
        """Read one command line, of which `launch` is the bare launch, through its wrappers."""
        command = command or Command(words)
        self._torn += [command.torn] if command.torn is not None else ()
        count = 0
        if len(words) > launches.MAX_WORDS:
            self._say("a command has more words than Muster reads")
            return
        while words:
            launch = launch or launches.parse(words)
            peeled = wrappers.peel(words, launch)
            if peeled is None:
                self._program(around, words, launch, command)
                return
            count += 1
            name = peeled.name
            if peeled.caveat:
                self._say(peeled.caveat)
            around = replace(
                around,
                through=(*around.through, name) if len(around.through) < 16 else around.through,
                env=peeled.env if peeled.cleared else around.sets(peeled.env),
                cleared=around.cleared or peeled.cleared,
            )
            if peeled.fault and command.certain:
                self._faults.append(peeled.fault)
            if peeled.unread:
                self._say(peeled.unread)
                return
            if peeled.detached and not around.shells:
                command.lost = (Loss.LEFT, "")
            if peeled.text is not None:
                self._text(around, peeled.text, Invocation(peeled.text), command)
                return
            words, launch = peeled.words, None
            if count > _MAX_WRAPPERS:
                self._say("the command line has more programs around each other than Muster reads")
                return

    def _program(self, around: _Around, words: tuple[str, ...], launch: Launch, command: Command) -> None:
        name = launches.program(words[0])
        if name in SHELLS:
            self._shell(replace(around, through=(*around.through, name)), words, command)
        elif name == "xargs":
            self._given(around, words, command)
        elif around.shells and name in ("source", "."):
            self._sourced(words)
        elif around.shells and name in shell.PROGRAMS["declaring"]:
            self._unseen = True
        elif around.shells and name == "unset":
            self._say("which variables the shell takes away is known only in the pod")
        elif around.files and words[0].removeprefix("./") in around.files:
            text = around.files[words[0].removeprefix("./")]
            self._text(around, text, Invocation(text, None, words[0], words[1:]), command)
        else:
            self._launch(around, words, launch, command)

    def _given(self, around: _Around, words: tuple[str, ...], command: Command) -> None:
        """Read what xargs starts with the words of its standard input, where the shell itself has printed them."""
        found = split(_XARGS, words[1:])
        if around.stdin is None or found.values or found.unknown or not found.rest:
            self._say("xargs gives a program words that Muster cannot see")
            return
        self.command(replace(around, stdin=None), (*found.rest, *around.stdin.split()), command)

    def _launch(self, around: _Around, words: tuple[str, ...], launch: Launch, command: Command) -> None:
        if launch.launcher is Launcher.OTHER:
            if around.inner or (around.shells and is_preparation(words)):
                self._is_host = self._is_host or launches.program(words[0]) == "sshd" or words[:2] == _SSH
                return
            self._say(_unknown(words[0]))
            return
        if around.shells and runs_nothing(launch):
            return
        if launch.target[:1].isspace() and launch.target.lstrip()[:1] == "-" and command.certain:
            option = quotes.flag(launch.target.strip())
            self._faults.append(f"a quoted blank makes {option} the name of a program, as a \\ before a blank does")
        if len(self._found) >= _MAX_PROGRAMS:
            self._say("the command line starts more programs than Muster reads")
            return
        hidden = _hidden(launch)
        if hidden is not None:
            self._say(f"the words of {quotes.variable(hidden)} are known only in the pod")
            command = replace(command, certain=False)
        written = _written(launch, around)
        starter = spawns.find(launch, written.get(launch.target))
        self._found.append(
            (
                replace(
                    _stripped(replace(launch, values=starter) if starter else launch),
                    unknown=tuple(word for word in launch.unknown if not _is_vague(word)),
                    env=dict(around.env or {}),
                    assigned=dict(around.assigned or {}),
                    cleared=around.cleared,
                    unseen=self._unseen,
                    through=around.through,
                    written=written,
                ),
                command,
            )
        )

    def _shell(self, around: _Around, words: tuple[str, ...], command: Command) -> None:
        called = invoked(words)
        fault = _misread(called)
        if fault and command.certain:
            self._faults.append(fault)
        if called.text is not None:
            self._text(around, called.text, called, command)
        elif called.file is not None:
            files = around.files or {}
            name = called.file.removeprefix("./")
            if name in files or called.file in files:
                self._text(around, files.get(called.file, files.get(name, "")), called, command)
            else:
                self._say(f"the file {quotes.program(called.file)} cannot be seen")
        elif around.stdin is not None:
            self._text(around, around.stdin, called, command)
        else:
            self._say("a shell reads its commands from its standard input")

    def _sourced(self, words: tuple[str, ...]) -> None:
        file = words[1] if len(words) > 1 else ""
        self._unseen = self._unseen or launches.program(file) not in _HARMLESS
        if launches.program(file) not in _HARMLESS and not file.startswith("/etc/profile"):
            self._say(f"the file {quotes.program(file)} is read by the shell and cannot be seen")

    def _text(self, around: _Around, text: str, called: Invocation, outer: Command) -> None:
        if around.shells >= _DEPTH:
            self._say("the shell's text nests deeper than Muster reads")
            return
        if "$" in text and re.fullmatch(_WHOLE, text):
            self._say("the shell's text is known only in the pod")
            return
        if "$$" in text and not around.shells:
            text = re.sub(_ESCAPED, "$", text)
        env = dict(around.env or {})
        scope = Scope(
            variables={**dict.fromkeys(around.assigned or {}), **env},
            exported=set(env),
            name=called.name,
            arguments=list(called.arguments),
            options=called.options,
        )

        commands, why = shell.run(text, scope, allowance=self._allowance, depth=around.shells)
        for command in commands:
            command.certain = command.certain and outer.certain
            command.ways = (*outer.ways, *command.ways)
            command.lost = command.lost or outer.lost
            command.wave = command.wave or outer.wave
            inside = replace(
                around,
                env=command.env,
                assigned=command.assigned,
                shells=around.shells + 1,
                inner=around.inner or command.inner,
                stdin=command.stdin,
                files=command.files,
                text=text,
            )
            self.command(inside, command.words, command)

        if why:
            self._say(why)

    def _say(self, clause: str) -> None:
        if clause not in self._unread and len(self._unread) < 8:
            self._unread.append(clause)

    def result(self) -> Reading:
        """Return what was read, with preparations apart from launches."""
        deciding = {} if self._is_host else _deciding([command for _, command in self._found])
        every = [
            replace(
                launch,
                certain=command.certain,
                lost=command.lost,
                wave=command.wave,
                chosen=frozenset().union(*(deciding.get(choice, ()) for choice, _ in command.ways))
                if launch.launcher not in _REMOTE
                else frozenset(),
            )
            for launch, command in self._found
        ]
        chosen = _chosen(every)
        known = set(map(id, chosen))
        beside = tuple(launch for launch in every if id(launch) not in known)
        return Reading(tuple(chosen), tuple(self._unread), beside, tuple(self._faults), tuple(self._torn))


def _deciding(commands: Sequence[Command]) -> dict[Choice, frozenset[str]]:
    """Return the choices by which some nodes come to no launch at all, each with its variables."""
    taken: dict[Choice, set[int]] = {}
    met: Counter[Choice] = Counter()
    for command in commands:
        for choice, way in dict(command.ways).items():
            taken.setdefault(choice, set()).add(way)
            met[choice] += 1
    return {
        choice: choice.names
        for choice, ways in taken.items()
        # Where not all commands stand under the choice, all nodes come by another launch.
        if met[choice] == len(commands) and (choice.left if BEHIND in ways else set(range(choice.ways))) - ways
    }


_XARGS = table("0 t r x p: a: d: E: I: i? L: l? n: P: s:", abbreviated=False)
_SSH = ("service", "ssh")
_REMOTE = frozenset({Launcher.MPI, Launcher.RAY, Launcher.DEEPSPEED, Launcher.VLLM, Launcher.SHELL})
"""Launchers that one node uses to start processes on others."""
_HARMLESS = frozenset(
    {"activate", "conda.sh", "mamba.sh", ".bashrc", "bashrc", ".profile", ".bash_profile", "setvars.sh"}
)
_WHOLE = r"\s*\$\([A-Za-z_][A-Za-z0-9_]*\)\s*"


_ESCAPED = r"\$\$(?!\([A-Za-z_][A-Za-z0-9_]*\))"
"""What Kubernetes makes a single $ of before a shell runs; `$$(NAME)`, a program of that name, is left as it is."""
_WRITTEN_AND_READ = 2
_OF_PYTHON = frozenset({Launcher.PYTHON, Launcher.TORCHRUN, Launcher.ACCELERATE})
FILES = ("config_file", "accelerate_config", "hostfile")
"""Options of launchers that name a file which decides what they start."""


def _written(launch: Launch, around: _Around) -> dict[str, str]:
    """Return the files that a launch reads and its own shell has written, each under the name that the launch uses.

    One whose name stands elsewhere in the text may have been changed since, and is left out.
    """
    files, text, target = around.files or {}, around.text, str(launch.target)
    found, bare = {}, target.removeprefix("./")
    if launch.launcher in _OF_PYTHON and target.endswith(".py") and text.count(bare) == _WRITTEN_AND_READ:
        name = next((each for each in (bare, f"./{bare}") if each in files), "")
        found = {target: files[name]} if name else {}
    elif launch.launcher is Launcher.PYTHON and target in ("", "-") and around.stdin is not None:
        found = {target: around.stdin}
    if not files:
        return found
    names = {str(launch.values[option]) for option in FILES if option in launch.values}
    names |= {after for word, after in itertools.pairwise(launch.rest) if word == "--config"}
    found |= {name: files[name] for name in names if name in files and text.count(name) == _WRITTEN_AND_READ}
    place = accelerate_files.DEFAULT_PLACE
    default = next((name for name in files if name.endswith(place) and text.count(name) == 1), None)
    if default is not None and launch.launcher in (Launcher.ACCELERATE, Launcher.TRL):
        found.setdefault(place, files[default])
    return found


def _misread(called: Invocation) -> str:
    """Return why a shell does not run the launcher that stands in its command line, as a clause; "" where it may."""
    if called.text is None:
        first = (called.file or "").split()
        if (called.file or "").endswith(".py"):
            return f"the shell would read {first[-1]}, a script of python, as one of its own"
        is_line = len(first) > 1 and launches.parse(first[:2]).launcher not in _NO_LAUNCHER
        return f"the shell takes a whole line for the name of a file, which begins with {first[0]}" if is_line else ""
    whole = called.text.split()
    if len(whole) == 1 and called.words and launches.parse(whole).launcher not in _NO_LAUNCHER:
        return f"the shell runs {whole[0]} without its arguments, since only the first word behind -c is its text"
    return ""


_NO_LAUNCHER = frozenset({Launcher.OTHER, Launcher.NONE, Launcher.SHELL})


def _hidden(launch: Launch) -> str | None:
    """Return the first word that may hide options: a variable without quotes, or one in a flag's name."""
    if launch.launcher is Launcher.PYTHON:
        return None
    if isinstance(launch.target, Loose):
        return launch.target
    if launch.launcher in (Launcher.TRL, Launcher.VLLM):
        before = ("", *launch.rest)
        pairs = zip(before, launch.rest, strict=False)
        return next((word for previous, word in pairs if isinstance(word, Loose) and not _takes(previous)), None)
    return next((word for word in launch.unknown if _is_vague(word)), None)


def _is_vague(word: str) -> bool:
    return "$" in word or isinstance(word, Loose)


def _takes(word: str) -> bool:
    """Whether the next word may be the value of this one."""
    return word.startswith("--") and "=" not in word


def _chosen(every: Sequence[Launch]) -> list[Launch]:
    """Return the launches among what runs: launchers, else the last plain program."""
    real = [launch for launch in every if is_training(launch)]
    if any(launch.certain for launch in real):
        return real
    if real:
        return list(every)
    if every and every[-1].certain:
        return [every[-1]]
    return list(every)


def _stripped(launch: Launch) -> Launch:
    """Make plain text of all words."""
    return replace(
        launch,
        head=tuple(map(str, launch.head)),
        options=tuple(map(str, launch.options)),
        values={name: str(value) for name, value in launch.values.items()},
        target=str(launch.target),
        rest=tuple(map(str, launch.rest)),
    )


def _unknown(word: str) -> str:
    if "$" in word:
        return f"the program {quotes.variable(word)} is known only in the pod"
    return f"the program {quotes.program(word)} is not one that Muster reads"


_SAYING = frozenset({"-V", "-VV", "--version", "-h", "--help"})
_SERVERS = frozenset({"vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server"})


def is_preparation(words: Sequence[str]) -> bool:
    """Tell whether a program neither trains nor starts another that does."""
    name = program(words[0])
    return name in PROGRAMS["preparing"] and not (name == "find" and any(word.startswith("-exec") for word in words))


def runs_nothing(launch: Launch) -> bool:
    """Tell whether a launcher or Python is called only to install, to configure or to say something."""
    asked = {"help", "version"} & set(launch.values)
    if launch.launcher is Launcher.PYTHON:
        if launch.module:
            return launch.target in PROGRAMS["preparing_modules"]
        return not launch.target and bool(_SAYING & set(launch.head[1:]))
    if launch.launcher in (Launcher.ACCELERATE, Launcher.TUNE, Launcher.FABRIC):
        return not is_training(launch)
    if launch.launcher in (Launcher.TRL, Launcher.VLLM):
        return launch.target in ("", "env", "collect-env")
    return bool(asked) and not launch.target


def is_training(launch: Launch) -> bool:
    """Tell whether a launch is made by a launcher, rather than a program that somebody may run by the way."""
    head = launch.head
    trains = {
        Launcher.PYTHON: launch.module and launch.target in _SERVERS,
        Launcher.TUNE: "run" in head,
        Launcher.FABRIC: "run" in head,
        Launcher.ACCELERATE: head[-1].endswith("launch") and launch.target != "launch",
        Launcher.VLLM: launch.target == "serve",
        Launcher.RAY: "submit" in head,
    }
    return trains.get(launch.launcher, True)
