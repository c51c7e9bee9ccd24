"""Shells: the commands that a shell's text runs, in the order in which it runs them.

The text is walked as a shell would run it: quotes, variables that the text itself sets, functions, branches. Nothing is
executed, so a value that only the pod knows stays a reference. A text that cannot be parsed, or that is too long, too
deep or runs too many commands, is not read at all.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from muster.strategies.launches import outputs, questions, statuses, syntax, trees
from muster.strategies.launches.allowances import Allowance
from muster.strategies.launches.commands import BEHIND, Choice, Command
from muster.strategies.launches.cursors import Unreadable
from muster.strategies.launches.invocations import set_options
from muster.strategies.launches.statuses import Loss, Status
from muster.strategies.launches.trees import Part, Script
from muster.strategies.launches.words import Scope, Value, Words

__all__ = ["DECLARING", "walk"]

MAX_TEXT = 32 * 1024
MAX_COMMANDS = 512
_DEPTH = 60
_BRIEF = frozenset({"date", "sync", "nvidia-smi", "free", "uptime", "hostname", "env", "ls", "touch", "mkdir"})
DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_READERS = frozenset({"read", "mapfile", "readarray", "getopts"})


def walk(
    text: str, scope: Scope, emit: Callable[[Command], None], *, allowance: Allowance | None = None, depth: int = 0
) -> str:
    """Walk a text, and call `emit` with each command.

    Args:
        text: the text.
        scope: its variables and arguments; changed as the text changes them.
        emit: called with each command, in order.
        allowance: what is left for this text and for all others of the command line; None for a new one.
        depth: number of texts around this one; with the outermost one the container ends.

    Returns:
        Why the text was not read to its end, as a clause; "" where it was.
    """
    if len(text) > MAX_TEXT:
        return "the shell's text is longer than Muster reads"
    allowance = allowance or Allowance(len(text))
    try:
        allowance.text(len(text))
        script = syntax.parse(text)
        walker = _Walker(scope, emit, allowance, depth)
        unknown = statuses.reads_statuses(text)
        with contextlib.suppress(_Ended, _Returned):
            walker.body(script, _Context(status=Status(unknown=unknown)))
        if not (depth or unknown):
            walker.leave()
    except Unreadable as error:
        return str(error)
    return ""


class _Ended(Exception):  # noqa: N818  # no error: the shell, or a function, ends here
    """The shell runs no more commands."""


class _Returned(Exception):  # noqa: N818  # no error either
    """The function runs no more commands."""


@dataclass(frozen=True, slots=True)
class _Context:
    """Where a statement stands.

    Attributes:
        certain: whether it runs exactly once.
        failing: whether it only runs because another command failed.
        inner: whether its output is only taken as a word.
        depth: statements around it.
        ways: the choices around it that depend on variables.
        status: what becomes of its status.
    """

    certain: bool = True
    failing: bool = False
    inner: bool = False
    depth: int = 0
    ways: tuple[tuple[Choice, int], ...] = ()
    status: Status = field(default_factory=Status)

    def deeper(
        self,
        *,
        certain: bool = True,
        failing: bool = False,
        inner: bool = False,
        way: tuple[Choice, int] | None = None,
        status: Status | None = None,
    ) -> _Context:
        """Return the context of a statement inside this one."""
        if self.depth >= _DEPTH:
            raise Unreadable("the shell's text nests deeper than Muster reads")
        ways = self.ways if way is None or not way[0].names else (*self.ways, way)
        status = self.status if status is None else status
        return _Context(
            self.certain and certain, self.failing or failing, self.inner or inner, self.depth + 1, ways, status
        )


class _Walker:
    """One walk over one text."""

    def __init__(self, scope: Scope, emit: Callable[[Command], None], allowance: Allowance, depth: int) -> None:
        self._scope, self._emit, self._allowance, self._depth = scope, emit, allowance, depth
        self._functions: dict[str, trees.Statement] = {}
        self._files: dict[str, str] = {}
        self._waiting: list[Command] = []
        self._unwaited: list[Command] = []
        self._wave = 1
        self._piped: str | None = None
        self._here: str | None = None
        self._is_behind = False
        self._context = _Context()
        self._doubt = False
        self._left: tuple[tuple[Choice, int], ...] = ()
        self._count = 0
        self._words = Words(scope, self._substituted, allowance, self._functions)

    def leave(self) -> None:
        """End the shell: what it left in the background ends with the container."""
        for command in self._unwaited:
            command.lost = (Loss.LEFT, "")

    def body(self, script: Script, context: _Context) -> None:
        """Run the statements of a script."""
        for statement, last in zip(script.statements, statuses.deciders(script.statements), strict=False):
            if statement.background:
                self._background(statement, context)
                continue
            status = context.status.before(last, errexit="errexit" in self._scope.options)
            self._and_or(statement, context if status is context.status else replace(context, status=status))

    def _and_or(self, statement: trees.AndOr, context: _Context) -> None:
        """Run `a && b || c`: what follows a failure, or a test, is not certain to run."""
        sure = True
        choice: Choice | None = None
        for (sign, pipeline), follower in zip(statement.items, statuses.followers(statement.items), strict=True):
            test = questions.is_test(pipeline)
            status = context.status.within(follower)
            way = None if sure or choice is None else (choice, int(sign == "||"))
            if sign == "||":
                self._pipeline(pipeline, context.deeper(certain=False, failing=sure, way=way, status=status))
                sure = sure or not test
            else:
                self._pipeline(pipeline, context.deeper(certain=sure, way=way, status=status))
                sure = sure and not test
            if test:
                choice = choice or Choice(frozenset(), 2)
                choice.names |= self._deciding(pipeline.written)

    def _deciding(self, test: str) -> frozenset[str]:
        """Return the variables that a test reads, and those that their values come from."""
        found = questions.names(test)
        for name in found & self._scope.variables.keys():
            value = self._scope.variables[name]
            found = (found - {name}) | (questions.names(value[:240]) if isinstance(value, str) else frozenset())
        return found

    def _pipeline(self, pipeline: trees.Pipeline, context: _Context) -> None:
        if pipeline.negated:
            context = replace(context, status=_ASKED)
        if len(pipeline.parts) == 1:
            self._statement(pipeline.parts[0], context)
            return
        pipefail = "pipefail" in self._scope.options
        self._piped = None
        for part in pipeline.parts:
            last = pipeline.parts[-1] if part is not pipeline.parts[-1] else None
            inside = replace(context, status=context.status.piped(last, pipefail=pipefail))
            self._apart(lambda part=part, inside=inside: self._statement(part, inside))  # type: ignore[misc]  # bound now
        self._piped = None

    def _apart(self, run: Callable[[], None]) -> None:
        """Run statements in a subshell: their variables, and their exit, end with it."""
        held = (self._scope, self._words)
        self._allowance.variables(len(self._scope.variables) + len(self._scope.arguments))
        self._scope = self._scope.inner()
        self._words = Words(self._scope, self._substituted, self._allowance, self._functions)
        try:
            run()
        except (_Ended, _Returned):
            pass
        finally:
            self._scope, self._words = held

    def _background(self, statement: trees.AndOr, context: _Context) -> None:
        """Run a statement that the shell does not wait for, unless `wait` follows."""
        emit = self._emit

        def later(command: Command) -> None:
            if command.certain:
                self._waiting.append(command)
                self._unwaited.append(command)
                command.certain = False
            emit(command)

        self._emit, held = later, self._is_behind
        self._is_behind = True
        try:
            self._apart(lambda: self._and_or(statement, context))
        finally:
            self._emit, self._is_behind = emit, held

    def _statement(self, statement: trees.Statement, context: _Context) -> None:
        self._count += 1
        if self._count > MAX_COMMANDS:
            raise Unreadable("the shell's text runs more commands than Muster reads")
        self._allowance.command()
        context = context.deeper()
        if isinstance(statement, trees.Command):
            self._command(statement, context)
        elif isinstance(statement, trees.Group):
            self._group(statement, context)
        elif isinstance(statement, trees.Branches):
            self._branches(statement, context)
        elif isinstance(statement, trees.Loop):
            self._loop(statement, context)
        elif isinstance(statement, trees.Function):
            self._functions[statement.name] = statement.body
        elif not statement.test:
            self._forget(syntax.assigned(statement.text))

    # -- groups and branches

    def _group(self, group: trees.Group, context: _Context) -> None:
        self._redirected(group.redirects)
        if group.subshell:
            held = (self._doubt, self._left)
            self._apart(lambda: self.body(group.body, context))
            self._doubt, self._left = held
        else:
            self.body(group.body, context)

    def _branches(self, branches: trees.Branches, context: _Context) -> None:
        self._redirected(branches.redirects)
        if branches.first is not None:
            self.body(branches.first, replace(context, status=_ASKED))
        before = self._copied()
        arms = len(branches.bodies) - len(branches.conditions)
        choice, arm = Choice(self._deciding(branches.test), arms + branches.open), 0
        for index, body in enumerate(branches.bodies):
            condition = index in branches.conditions
            status, way = (_ASKED, None) if condition else (context.status, (choice, arm))
            self.body(body, context.deeper(certain=False, way=way, status=status))
            arm += not condition
        self._doubtful(before)

    def _loop(self, loop: trees.Loop, context: _Context) -> None:
        self._stay()
        self._redirected(loop.redirects)
        for word in loop.words:
            self._words.expand(word)
        before = self._copied()
        self._forget(loop.names)
        for body in loop.bodies:
            self.body(body, context.deeper(certain=False, status=_ASKED))
        self._doubtful(before)

    def _stay(self) -> None:
        """Note that the shell may be there as long as what it left in the background."""
        if not self._is_behind:
            self._unwaited.clear()

    def _copied(self) -> dict[str, Value]:
        self._allowance.variables(len(self._scope.variables))
        return dict(self._scope.variables)

    def _doubtful(self, before: Mapping[str, object]) -> None:
        """Forget the values that a branch may have set."""
        variables = self._scope.variables
        for name, value in variables.items():
            if name not in before or value != before[name]:
                variables[name] = None

    def _forget(self, names: Sequence[str]) -> None:
        self._scope.variables.update(dict.fromkeys(names))

    def _redirected(self, redirects: Sequence[trees.Redirect]) -> None:
        """Run the substitutions in redirections: `> >(tee log)`."""
        for redirect in redirects:
            self._words.expand(redirect.target)

    # -- commands

    def _command(self, command: trees.Command, context: _Context) -> None:
        self._context = context
        if command.torn is not None:
            self._emit(Command((), torn=command.torn))
        words = [each for word in command.words for each in self._words.expand(word)]
        self._redirected([each for each in command.redirects if each.here is None])
        stdin = next((self._words.one(each.here) for each in command.redirects if each.here is not None), None)
        name = command.words[0].plain if command.words else None
        if name in DECLARING:
            self._declare(name or "", words[1:], command.settings)
        elif not words:
            for setting in command.settings:
                self._assign(setting)
        else:
            prefix = {setting.name: self._words.one(setting.value) for setting in command.settings}
            self._start(words, prefix, context, stdin, command.redirects)

    def _assign(self, setting: trees.Assignment) -> None:
        variables, name = self._scope.variables, setting.name
        held: Value = variables.get(name, f"$({name})") if setting.added else ""
        if setting.indexed:
            variables[name] = None
        elif setting.items is not None:
            items = [word for item in setting.items for word in self._words.expand(item)]
            variables[name] = [*held, *items] if isinstance(held, list) else items
        elif held is None or isinstance(held, list):
            variables[name] = None
        else:
            text = held + self._words.one(setting.value)
            if len(text) > MAX_TEXT:
                raise Unreadable("a variable grows longer than Muster reads")
            variables[name] = text

    def _declare(self, name: str, words: Sequence[str], settings: Sequence[trees.Assignment]) -> None:
        """Run `export NAME=value`, `declare -x`, `local` and the like."""
        flags = "".join(word for word in words if word.startswith("-"))
        exported = name == "export" or "x" in flags
        for setting in settings:
            self._assign(setting)
            value = self._scope.variables[setting.name]
            if "i" in flags and not (isinstance(value, str) and value.isdecimal()):
                self._scope.variables[setting.name] = None  # the shell computes it
        if exported and "n" not in flags:
            self._scope.exported.update(setting.name for setting in settings)
            self._scope.exported.update(words)
        if any("$" in word for word in words):  # `export $(cat FILE)`: the names are known only in the pod
            self._emit(Command((name, *words), inner=self._context.inner))

    def _start(
        self,
        words: list[str],
        prefix: Mapping[str, str | None],
        context: _Context,
        stdin: str | None,
        redirects: Sequence[trees.Redirect],
    ) -> None:
        """Run a command: a builtin of the shell, a function, or a program."""
        words, replaces = _unwrapped(words)
        if not words:
            return
        name = words[0]
        stdin = self._piped if stdin is None and name in _READING else stdin
        self._piped = outputs.printed(words, stdin) if name in _PRINTING else None
        builtin, self._here = self._builtins.get(name), stdin
        if redirects or name == "tee":
            self._note_files(words, stdin, redirects)
        if name in self._functions and not replaces:
            self._call(self._functions[name], words, context)
        elif builtin is not None:
            builtin(self, words, context)
        else:
            detached = _is_detached(words)
            if name not in _BRIEF and not detached:
                self._stay()
            self._allowance.variables(len(self._scope.variables))
            command = Command(
                tuple(words),
                {**self._scope.env(), **prefix},
                self._scope.assigned(),
                context.certain and not self._doubt,
                (*context.ways, *self._left),
                context.inner,
                stdin,
                self._files,
                _lost(context.status, replaces=replaces),
            )
            if self._waiting or self._is_behind:
                command.wave = self._wave
            if detached:
                self._unwaited.append(command)
            self._emit(command)
        if replaces:
            self._end(context)

    def _note_files(self, words: Sequence[str], stdin: str | None, redirects: Sequence[trees.Redirect]) -> None:
        """Remember what is written to files: `cat > FILE << EOF`, `echo TEXT >> FILE`, `tee FILE << EOF`."""
        texts: dict[str, str | None] = {}
        if words[0] == "tee" and len(words) == 2:
            texts[words[1]] = stdin
        for redirect in redirects:
            if redirect.here is None and redirect.operator in (">", ">|", ">>"):
                name, text = self._words.one(redirect.target), outputs.printed(words, stdin)
                before = self._files.get(name) if redirect.operator == ">>" else ""
                texts[name] = None if text is None or before is None else before + text
        for name, text in texts.items():
            self._allowance.variables(len(self._files))
            held = {each: known for each, known in self._files.items() if each != name}
            self._files = held if text is None or len(text) > MAX_TEXT else {**held, name: text}

    def _call(self, body: trees.Statement, words: Sequence[str], context: _Context) -> None:
        arguments = self._scope.arguments
        self._scope.arguments = list(words[1:])
        try:
            self._statement(body, context)
        except _Returned:
            pass
        finally:
            self._scope.arguments = arguments

    def _end(self, context: _Context) -> None:
        if context.certain and not self._doubt:
            raise _Ended
        self._doubt = True
        for choice, way in context.ways:
            choice.left.add(way)
            self._left = (*self._left, (choice, BEHIND))[:16]

    # -- builtins

    def _exit(self, words: Sequence[str], context: _Context) -> None:
        """End the shell; where it may not end, and would be content, what follows is not certain to run."""
        code = words[1] if len(words) > 1 else ""
        if context.failing or (code.isdecimal() and int(code[:9]) > 0):
            if not context.certain:
                return
            raise _Ended
        if words[0] == "return":
            self._return(context)
        self._end(context)

    def _return(self, context: _Context) -> None:
        if context.certain and not self._doubt:
            raise _Returned

    def _wait(self, _words: Sequence[str], context: _Context) -> None:
        self._stay()
        if context.certain and not self._doubt:
            for command in self._waiting:
                command.certain = True
            self._waiting.clear()
            self._wave += 1

    def _set(self, words: Sequence[str], _context: _Context) -> None:
        for at, word in enumerate(words):
            if word[:1] in ("-", "+") and word != "--":
                self._scope.options = set_options(self._scope.options, word, words[at + 1 :])
        if "--" in words:
            self._scope.arguments = list(words[words.index("--") + 1 :])

    def _shift(self, words: Sequence[str], _context: _Context) -> None:
        count = int(words[1]) if len(words) > 1 and words[1].isdecimal() else 1
        del self._scope.arguments[:count]

    def _read(self, words: Sequence[str], _context: _Context) -> None:
        self._stay()
        whole = words[0] == "read" and set(words[1:-1]) <= {"-r", "-d", "", "-rd"} and "" in words[1:-1]
        for word in words[1:]:
            if re.fullmatch(
                r"[A-Za-z_][A-Za-z0-9_]*", word
            ):  # `read -r -d '' NAME` reads all, without blanks around it
                self._scope.variables[word] = self._here.strip(" \t\n") if whole and self._here else None

    def _printf(self, words: Sequence[str], _context: _Context) -> None:
        if words[1:2] == ["-v"] and len(words) > 2:
            self._scope.variables[words[2]] = None

    def _let(self, words: Sequence[str], _context: _Context) -> None:
        self._forget(syntax.assigned(" ".join(words[1:])))

    def _eval(self, words: Sequence[str], context: _Context) -> None:
        """Run the words once more as a text."""
        self._stay()
        if self._depth >= 4:
            raise Unreadable("the shell's text nests deeper than Muster reads")
        text = " ".join(words[1:])
        if text.startswith(("$(conda ", "$(mamba ", "$(micromamba ", "$(ssh-agent")):
            return
        if text.startswith("$"):
            self._emit(Command(("export", text), inner=context.inner))
        emit, certain = self._emit, context.certain and not self._doubt

        def inside(command: Command) -> None:
            command.certain = command.certain and certain
            command.ways = (*context.ways, *self._left, *command.ways)
            command.lost = command.lost or context.status.lost
            emit(command)

        why = walk(text, self._scope, inside, allowance=self._allowance, depth=self._depth + 1)
        if why:
            raise Unreadable(why)

    def _ignored(self, _words: Sequence[str], _context: _Context) -> None:
        """Run a builtin that starts nothing and sets nothing."""

    def _unset(self, words: Sequence[str], context: _Context) -> None:
        names = [word for word in words[1:] if not word.startswith("-")]
        if any("$" in name for name in names):
            self._emit(Command(("unset", *names), inner=context.inner))
            return
        self._scope.variables.update(dict.fromkeys(names, ""))
        self._scope.exported.update(names)

    def _substituted(self, part: Part) -> None:
        """Run the commands of a substitution."""
        context, script = self._context, part.script
        if script is not None:
            inside = context.deeper(inner=part.kind == "substitution", status=_ASKED)
            self._apart(lambda: self.body(script, inside))
        self._context = context

    _builtins: ClassVar[Mapping[str, Callable[[_Walker, Sequence[str], _Context], None]]] = {
        "exit": _exit,
        "return": _exit,
        **dict.fromkeys(("wait", "fg"), _wait),
        "set": _set,
        "shift": _shift,
        "printf": _printf,
        "let": _let,
        "eval": _eval,
        "unset": _unset,
        **dict.fromkeys(_READERS, _read),
        **dict.fromkeys(
            (
                *(":", "true", "false", "[", "test", "cd", "pushd", "popd", "dirs", "echo", "trap", "ulimit", "umask"),
                *(
                    "alias",
                    "unalias",
                    "break",
                    "continue",
                    "hash",
                    "type",
                    "jobs",
                    "kill",
                    "disown",
                    "bg",
                    "times",
                ),
                *("enable", "shopt", "history", "pwd", "compgen", "complete", "bind", "help", "logout", "suspend"),
            ),
            _ignored,
        ),
    }


_ASKED = Status(unknown=True)


def _lost(status: Status, *, replaces: bool) -> tuple[Loss, str] | None:
    """Return how the status of a program is lost; nothing follows one that replaces the shell."""
    lost = status.lost
    return None if lost is None or (replaces and lost[0] is not Loss.PIPE) else lost


_PRINTING = frozenset({"echo", "printf"})
_READING = frozenset({"xargs", "sh", "bash"})


def _is_detached(words: Sequence[str]) -> bool:
    """Whether a program ends before what it starts."""
    if words[0] not in ("tmux", "screen", "setsid"):
        return False
    flags = [word for word in words[1:6] if word[:1] == "-"]
    if words[0] == "setsid":
        return any(word in ("-f", "--fork") for word in flags) and not any(word in ("-w", "--wait") for word in flags)
    return any("d" in word[1:] and not word.startswith("--") for word in flags)


def _unwrapped(words: list[str]) -> tuple[list[str], bool]:
    """Take `exec`, `command` and `builtin` off; tell whether the program replaces the shell."""
    replaces, at = False, 0
    while at < len(words) and (taken := words[at]) in ("exec", "command", "builtin"):
        replaces = replaces or taken == "exec"
        at += 1
        while at < len(words) and words[at].startswith("-"):
            if taken == "command" and words[at][1:2] in ("v", "V"):
                return [], False
            at += 2 if taken == "exec" and words[at] == "-a" else 1
    return words[at:], replaces and at < len(words)
