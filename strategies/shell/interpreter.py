"""The interpreter: the commands that a shell's text runs, in the order in which the shell runs them.

The text is walked as a shell would run it: quotes, variables that the text itself sets, functions, branches. Nothing is
executed, so a value that only the pod knows stays a reference. A text that cannot be parsed, or that is too long, too
deep or runs too many commands, is not read at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from muster.strategies.shell import grammar, trees
from muster.strategies.shell.shell_builtins import PROGRAMS, is_detached, printed, set_options, unwrapped
from muster.strategies.shell.shell_commands import BEHIND, Choice, Command, Loss, Place, deciders, names_in
from muster.strategies.shell.word_expansion import MAX_TEXT, Allowance, Expander, Scope
from muster.strategies.shell.word_parser import Unreadable

__all__ = ["run"]

_MAX_EVALS = 4
_READ_STATUSES = ("$?", "PIPESTATUS", "trap ", "${?")
_ENVIRONMENTS = ("$(conda ", "$(mamba ", "$(micromamba ", "$(ssh-agent")


def run(text: str, scope: Scope, allowance: Allowance | None = None, depth: int = 0) -> tuple[Sequence[Command], str]:
    """Walk a text.

    Args:
        text: the text.
        scope: its variables and arguments; changed as the text changes them.
        allowance: what is left for this text and for all others of the command line; None for a new one.
        depth: number of texts around this one; with the outermost one the container ends.

    Returns:
        The commands in order, and why the text was not read to its end, as a clause; "" where it was.
    """
    if len(text) > MAX_TEXT:
        return (), "the shell's text is longer than Muster reads"
    interpreter = _Interpreter(scope, allowance or Allowance(len(text)), depth)
    try:
        interpreter.whole(text)
    except Unreadable as error:
        return interpreter.commands, str(error)
    return interpreter.commands, ""


class _Ended(Exception):  # noqa: N818  # no error: the shell, or a function, ends here
    """The shell runs no more commands."""


class _Returned(_Ended):
    """The function runs no more commands."""


class _Interpreter(Expander):
    """One walk over one text, which collects `commands`."""

    def __init__(self, scope: Scope, allowance: Allowance, depth: int) -> None:
        super().__init__(scope, allowance)
        self.commands: list[Command] = []
        self._depth = depth
        self._files: Mapping[str, str] = {}
        self._waiting: list[Command] = []
        self._unwaited: list[Command] = []
        self._wave = 1
        self._piped: str | None = None
        self._is_behind = False  # what runs now is in the background
        self._place = Place()
        self._doubt = False  # the shell may have ended
        self._left: tuple[tuple[Choice, int], ...] = ()

    def whole(self, text: str) -> None:
        """Run a whole text, and end; what the outermost shell left in the background ends with the container."""
        self.allowance.pay("text", len(text))
        unknown = any(sign in text for sign in _READ_STATUSES)
        with contextlib.suppress(_Ended):
            self._script(grammar.parse(text), Place(unknown=unknown))
        for command in () if self._depth or unknown else self._unwaited:
            command.lost = (Loss.LEFT, "")

    def substitute(self, part: trees.Part) -> None:
        """Run the commands of a substitution."""
        place = self._place
        with self._apart():
            self._script(part.script, place.asked().deeper(inner=part.kind == "substitution"))
        self._place = place

    def _emit(self, command: Command) -> None:
        if self._is_behind and command.certain:
            self._waiting.append(command)
            self._unwaited.append(command)
            command.certain = False
        self.commands.append(command)

    def _is_sure(self, place: Place) -> bool:
        return place.certain and not self._doubt

    # -- lists and pipelines

    def _script(self, script: trees.Script, place: Place) -> None:
        for statement, last in zip(script, deciders(script), strict=False):
            if statement.background:  # the shell does not wait for it, unless `wait` follows
                held, self._is_behind = self._is_behind, True
                with self._apart():
                    self._and_or(statement, place)
                self._is_behind = held
            else:
                self._and_or(statement, place.before(last, errexit="errexit" in self.scope.options))

    def _and_or(self, statement: trees.AndOr, place: Place) -> None:
        """Run `a && b || c`: what follows a failure, or a test, is not certain to run."""
        sure = True
        choice: Choice | None = None
        for sign, pipeline, inside in place.chained(statement):
            way = None if sure or choice is None else (choice, int(sign == "||"))
            is_or = sign == "||"
            self._pipeline(pipeline, inside.deeper(certain=sure and not is_or, failing=sure and is_or, way=way))
            sure = (sure or not pipeline.is_test) if is_or else (sure and not pipeline.is_test)
            if pipeline.is_test:
                choice = choice or Choice(frozenset(), 2)
                choice.names |= self._deciding(pipeline.written)

    def _deciding(self, test: str) -> frozenset[str]:
        """Return the variables that a test reads, and those that their values come from."""
        found = names_in(test)
        for name in found & self.scope.variables.keys():
            value = self.scope.variables[name]
            found = (found - {name}) | names_in(value[:240] if isinstance(value, str) else "")
        return found

    def _pipeline(self, pipeline: trees.Pipeline, place: Place) -> None:
        place = place.asked() if pipeline.negated else place
        if len(pipeline.parts) == 1:
            self._statement(pipeline.parts[0], place)
            return
        pipefail, last = "pipefail" in self.scope.options, pipeline.parts[-1]
        self._piped = None
        for part in pipeline.parts:
            inside = place if pipefail or part is last else place.piped(last)
            with self._apart():
                self._statement(part, inside)
        self._piped = None

    @contextlib.contextmanager
    def _apart(self) -> Iterator[None]:
        """Run what is inside in a subshell: its variables, and its exit, end with it."""
        held = self.scope, self._doubt, self._left
        self.allowance.pay("variables", len(self.scope.variables) + len(self.scope.arguments))
        self.scope = self.scope.inner()
        with contextlib.suppress(_Ended):
            yield
        self.scope, self._doubt, self._left = held

    @contextlib.contextmanager
    def _doubtful(self) -> Iterator[None]:
        """Forget afterwards the values that a branch may have set."""
        self.allowance.pay("variables", len(self.scope.variables))
        before = dict(self.scope.variables)
        yield
        now = self.scope.variables
        self._forget([name for name in now if name not in before or now[name] != before[name]])

    # -- statements

    def _statement(self, statement: trees.Statement, place: Place) -> None:
        self.allowance.pay("commands")
        place = place.deeper()
        match statement:
            case trees.SimpleCommand():
                self._command(statement, place)
            case trees.Group():
                self._redirected(statement.redirects)
                with self._apart() if statement.subshell else contextlib.nullcontext():
                    self._script(statement.body, place)
            case trees.Branches():
                self._branches(statement, place)
            case trees.Loop():
                self._loop(statement, place)
            case trees.Function():
                self.functions[statement.name] = statement.body
            case trees.Arithmetic():
                self._forget(statement.names)

    def _branches(self, branches: trees.Branches, place: Place) -> None:
        self._redirected(branches.redirects)
        arms = branches.arms
        self._script(arms[0][0] if arms else (), place.asked())
        with self._doubtful():
            # Without an `else` no arm may run; the arms of several conditions may be all that there are.
            choice = Choice(self._deciding(branches.test), len(arms) + (len(arms) < 2))
            for arm, (condition, body) in enumerate(arms):
                if arm:
                    self._script(condition, place.asked().deeper(certain=False))
                self._script(body, place.deeper(certain=False, way=(choice, arm)))

    def _loop(self, loop: trees.Loop, place: Place) -> None:
        self._stay()
        self._redirected(loop.redirects)
        for word in loop.words:
            self.expand(word)
        with self._doubtful():
            self._forget(loop.names)
            for body in loop.bodies:
                self._script(body, place.asked().deeper(certain=False))

    def _stay(self) -> None:
        """Note that the shell may be there as long as what it left in the background."""
        if not self._is_behind:
            self._unwaited.clear()

    def _forget(self, names: Sequence[str]) -> None:
        self.scope.variables.update(dict.fromkeys(names))

    def _redirected(self, redirects: Sequence[trees.Redirect]) -> None:
        """Run the substitutions in redirections: `> >(tee log)`."""
        for redirect in redirects:
            self.expand(redirect.target)

    # -- simple commands

    def _command(self, command: trees.SimpleCommand, place: Place) -> None:
        self._place = place
        if command.torn is not None:
            self._emit(Command((), torn=command.torn))
        words = [each for word in command.words for each in self.expand(word)]
        self._redirected([each for each in command.redirects if each.here is None])
        stdin = next((self.one(each.here) for each in command.redirects if each.here is not None), None)
        if (name := trees.name_of(command)) in PROGRAMS["declaring"]:
            self._declare(name, words[1:], command.settings)
        elif not words:
            for setting in command.settings:
                self.assign(setting)
        else:
            prefix = {setting.name: self.one(setting.value) for setting in command.settings}
            self._start(words, prefix, stdin, command.redirects)

    def _declare(self, name: str, words: Sequence[str], settings: Sequence[trees.Assignment]) -> None:
        """Run `export NAME=value`, `declare -x`, `local` and the like."""
        flags = "".join(word for word in words if word.startswith("-"))
        for setting in settings:
            self.assign(setting)
            if "i" in flags and not str(self.scope.variables[setting.name]).isdecimal():
                self.scope.variables[setting.name] = None  # the shell computes it
        if (name == "export" or "x" in flags) and "n" not in flags:
            self.scope.exported.update((setting.name for setting in settings), words)
        if any("$" in word for word in words):  # `export $(cat FILE)`: the names are known only in the pod
            self._emit(Command((name, *words), inner=self._place.inner))

    def _start(
        self, words: list[str], prefix: Mapping[str, str], stdin: str | None, redirects: Sequence[trees.Redirect]
    ) -> None:
        """Run a command: a builtin of the shell, a function, or a program."""
        place = self._place
        words, replaces = unwrapped(words)
        if not words:
            return
        name = words[0]
        stdin = self._piped if stdin is None and name in ("xargs", "sh", "bash") else stdin
        self._piped = printed(words, stdin) if name in ("echo", "printf") else None
        if redirects or name == "tee":
            self._note_files(words, stdin, redirects)
        if name in self.functions and not replaces:
            self._call(self.functions[name], words, place)
        elif not self._builtin(words, place, stdin):
            detached = is_detached(words)
            if name not in PROGRAMS["brief"] and not detached:
                self._stay()
            self.allowance.pay("variables", len(self.scope.variables))
            lost = None if replaces and place.lost and place.lost[0] is not Loss.PIPE else place.lost  # nothing follows
            command = Command(
                words=tuple(words),
                env={**self.scope.env(), **prefix},
                assigned=self.scope.assigned(),
                certain=self._is_sure(place),
                ways=(*place.ways, *self._left),
                inner=place.inner,
                stdin=stdin,
                files=self._files,
                lost=lost,
                wave=self._wave if self._waiting or self._is_behind else 0,
            )
            self._unwaited += [command] if detached else ()
            self._emit(command)
        if replaces:
            self._end(place)

    def _note_files(self, words: Sequence[str], stdin: str | None, redirects: Sequence[trees.Redirect]) -> None:
        """Remember what is written to files: `cat > FILE << EOF`, `echo TEXT >> FILE`, `tee FILE << EOF`."""
        texts = {words[1]: stdin} if words[0] == "tee" and len(words) == 2 else {}
        for redirect in redirects:
            if redirect.here is None and redirect.operator in (">", ">|", ">>"):
                name, text = self.one(redirect.target), printed(words, stdin)
                before = self._files.get(name) if redirect.operator == ">>" else ""
                texts[name] = None if text is None or before is None else before + text
        for name, text in texts.items():
            self.allowance.pay("variables", len(self._files))
            held = {each: known for each, known in self._files.items() if each != name}
            self._files = held if text is None or len(text) > MAX_TEXT else {**held, name: text}

    def _call(self, body: trees.Statement, words: Sequence[str], place: Place) -> None:
        held, self.scope.arguments = self.scope.arguments, list(words[1:])
        with contextlib.suppress(_Returned):
            self._statement(body, place)
        self.scope.arguments = held

    # -- builtins

    def _builtin(self, words: Sequence[str], place: Place, stdin: str | None) -> bool:
        """Run a builtin; tell whether the words are one."""
        name, *rest = words
        match name:
            case "exit" | "return":
                self._exit(words, place)
            case "wait" | "fg":
                self._wait(place)
            case "set":
                self._set(words)
            case "shift":
                del self.scope.arguments[: int(rest[0]) if rest and rest[0].isdecimal() else 1]
            case "printf":
                self._forget(rest[1:2] if rest[:1] == ["-v"] else ())
            case "let":
                self._forget(grammar.assigned(" ".join(rest)))
            case "eval":
                self._eval(" ".join(rest), place)
            case "unset":
                self._unset([word for word in rest if not word.startswith("-")], place)
            case _ if name in PROGRAMS["reading"]:
                self._read(words, stdin)
            case _:
                return name in PROGRAMS["idle"]
        return True

    def _set(self, words: Sequence[str]) -> None:
        for at, word in enumerate(words):
            if word[:1] in ("-", "+") and word != "--":
                self.scope.options = set_options(self.scope.options, word, words[at + 1 :])
        if "--" in words:
            self.scope.arguments = list(words[words.index("--") + 1 :])

    def _unset(self, names: Sequence[str], place: Place) -> None:
        if any("$" in name for name in names):
            self._emit(Command(("unset", *names), inner=place.inner))
            return
        self.scope.variables.update(dict.fromkeys(names, ""))
        self.scope.exported.update(names)

    def _read(self, words: Sequence[str], stdin: str | None) -> None:
        self._stay()  # `read -r -d '' NAME` reads all, without blanks around it
        whole = words[0] == "read" and set(words[1:-1]) <= {"-r", "-d", "", "-rd"} and "" in words[1:-1]
        value = stdin.strip(" \t\n") if whole and stdin else None
        self.scope.variables.update({word: value for word in words[1:] if grammar.NAME.fullmatch(word)})

    def _exit(self, words: Sequence[str], place: Place) -> None:
        """End the shell; where it may not end, and would be content, what follows is not certain to run."""
        code = "".join(words[1:2])
        if place.failing or (code.isdecimal() and int(code[:9]) > 0):
            if place.certain:
                raise _Ended
        elif words[0] == "return" and self._is_sure(place):
            raise _Returned
        else:
            self._end(place)

    def _end(self, place: Place) -> None:
        if self._is_sure(place):
            raise _Ended
        self._doubt = True
        for choice, way in place.ways:
            choice.left.add(way)
            self._left = (*self._left, (choice, BEHIND))[:16]

    def _wait(self, place: Place) -> None:
        self._stay()
        if self._is_sure(place):
            for command in self._waiting:
                command.certain = True
            self._waiting.clear()
            self._wave += 1

    def _eval(self, text: str, place: Place) -> None:
        """Run words once more as a text."""
        self._stay()
        if self._depth >= _MAX_EVALS:
            raise Unreadable("the shell's text nests deeper than Muster reads")
        if text.startswith(_ENVIRONMENTS):
            return
        if text.startswith("$"):
            self._emit(Command(("export", text), inner=place.inner))
        sure, left = self._is_sure(place), self._left
        commands, why = run(text, self.scope, allowance=self.allowance, depth=self._depth + 1)
        for command in commands:
            command.certain = command.certain and sure
            command.ways = (*place.ways, *left, *command.ways)
            command.lost = command.lost or place.lost
            self._emit(command)
        if why:
            raise Unreadable(why)
