"""Whether a regular expression is linear on every text: its automaton is built and looked through, nothing is timed.

A backtracking engine takes more than linear time where one text can be read in many ways. With the positions of a
pattern as the states of an automaton, these are exactly:

* exponential: from a state two different ways lead back to it over the same text, as in `(a+)+`;
* polynomial: a state and a later one can both go round over the same text that also leads from one to the other, as in
  `a*a*`. For `search` and its kin one more state goes before the pattern, which reads anything: a repeat that begins
  anywhere in the text that it reads begins again at each character, as in `a+b`.

Where nothing can fail behind a repeat, the engine never comes back to it. What looks at one character before or behind
is respected; of what looks further, only its own work. Finite repeats count as two at most, since they are a constant.

Source of the criteria: Weideman et al., Analyzing Matching Time Behavior of Backtracking Regular Expression Matchers by
Using Ambiguity of NFA (2016).
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from dataclasses import dataclass, field
from re import _constants, _parser

__all__ = ["UnsupportedError", "worst"]

_SOME = [*map(chr, range(128)), "\x85", "\xa0", "É", "é", "ß", "٣", "\u2028", "漢", "\U0001f600"]
_FINITE = 1000  # a repeat of more is as good as endless
_BEGIN, _END, _UNKNOWN = 1, 2, 4  # beside the characters: before the first, behind the last, and what is not followed
_FIRST_BIT = 3
_CATEGORIES = {
    _constants.CATEGORY_DIGIT: r"\d",
    _constants.CATEGORY_NOT_DIGIT: r"\D",
    _constants.CATEGORY_SPACE: r"\s",
    _constants.CATEGORY_NOT_SPACE: r"\S",
    _constants.CATEGORY_WORD: r"\w",
    _constants.CATEGORY_NOT_WORD: r"\W",
}


class UnsupportedError(ValueError):
    """The pattern has something that no automaton has, such as a reference to a group."""


@dataclass(frozen=True)
class _Guard:
    """Which characters may stand before and behind a boundary between two positions."""

    before: int
    behind: int

    def __and__(self, other):
        return _Guard(self.before & other.before, self.behind & other.behind)


@dataclass
class _Part:
    """A part of a pattern: its first and last positions, and the guard under which it reads nothing, if it can."""

    first: list = field(default_factory=list)
    last: list = field(default_factory=list)
    empty: _Guard | None = None


def worst(pattern, flags=0, *, searched=True, whole=False):
    """Return why a pattern is not linear, "" where it is.

    Args:
        pattern: text or bytes.
        flags: as of `re.compile`.
        searched: whether a match may begin anywhere.
        whole: whether a match has to end where the text ends.

    Raises:
        UnsupportedError: no automaton can be made.
    """
    return _Automaton(pattern, flags, searched=searched, whole=whole).worst()


class _Automaton:
    def __init__(self, pattern, flags, *, searched, whole):
        tree = _parser.parse(pattern, flags)
        self._flags = tree.state.flags
        self._alphabet = sorted({*_SOME, *_literals(tree)})
        if isinstance(pattern, bytes):
            self._alphabet = [each for each in self._alphabet if ord(each) < 256]
        self._text = (1 << len(self._alphabet)) - 1 << _FIRST_BIT
        self._any = _Guard(self._text | _BEGIN, self._text | _END | _UNKNOWN)
        self._masks, self._names = [_BEGIN, self._text], ["", "any text before"]
        self._edges = defaultdict(list)
        made = self._sequence(tree)
        entries = (0, 1) if searched else (0,)
        if searched:
            self._join([(0, self._any), (1, self._any)], [(1, self._any)])
        self._join([(each, self._any) for each in entries], made.first)
        self._ends = {at for at, guard in made.last if self._always(at, guard, whole=whole)}
        self._close()

    def _always(self, at, guard, *, whole):
        """Whether nothing can fail behind a last position: also where it reads on until the text ends."""
        reads_on = self._masks[at] == self._text and self._any in self._edges[at, at]
        if reads_on and guard.before == self._any.before and guard.behind & _END:
            return True
        return not whole and guard == self._any

    # -- the automaton

    def _position(self, mask, name):
        self._masks.append(mask)
        self._names.append(name)
        place = [(len(self._masks) - 1, self._any)]
        return _Part(place, place)

    def _join(self, last, first):
        for (one, out), (other, into) in itertools.product(last, first):
            guard = out & into
            if self._masks[one] & guard.before and self._masks[other] & guard.behind:
                self._edges[one, other].append(guard)

    def _sequence(self, nodes):
        made = _Part(empty=self._any)
        for operation, argument in nodes:
            made = self._behind(made, self._node(operation, argument))
        return made

    def _behind(self, one, other):
        self._join(one.last, other.first)
        first, last, empty = list(one.first), list(other.last), None
        if one.empty is not None:
            first += [(at, one.empty & guard) for at, guard in other.first]
        if other.empty is not None:
            last += [(at, guard & other.empty) for at, guard in one.last]
            empty = one.empty & other.empty if one.empty is not None else None
        return _Part(first, last, empty)

    def _node(self, operation, argument):
        name = str(operation)
        made = {
            "MAX_REPEAT": lambda: self._repeat(*argument),
            "MIN_REPEAT": lambda: self._repeat(*argument),
            "POSSESSIVE_REPEAT": lambda: self._repeat(*argument),
            "SUBPATTERN": lambda: self._group(*argument),
            "ATOMIC_GROUP": lambda: self._sequence(argument),
            "BRANCH": lambda: self._branch(argument[1]),
            "AT": lambda: _Part(empty=self._at(argument)),
            "ASSERT": lambda: self._look(*argument, denied=False),
            "ASSERT_NOT": lambda: self._look(*argument, denied=True),
        }.get(name)
        return made() if made else self._position(self._mask(operation, argument), _shown(operation, argument))

    def _repeat(self, least, most, nodes):
        if most is not _constants.MAXREPEAT and most <= _FINITE:
            made = _Part(empty=self._any)
            for number in range(min(most, 2)):
                made = self._behind(made, self._maybe(self._sequence(nodes), least <= number))
            return made
        made = self._sequence(nodes)
        self._join(made.last, made.first)
        return self._maybe(made, least == 0)

    def _maybe(self, made, optional):
        return _Part(made.first, made.last, self._any) if optional else made

    def _group(self, _number, more, fewer, nodes):
        before, self._flags = self._flags, (self._flags | more) & ~fewer
        made = self._sequence(nodes)
        self._flags = before
        return made

    def _branch(self, ways):
        made = [self._sequence(each) for each in ways]
        empty = next((each.empty for each in made if each.empty is not None), None)
        return _Part([at for each in made for at in each.first], [at for each in made for at in each.last], empty)

    def _at(self, where):
        newline = self._bit("\n") if self._flags & re.MULTILINE else 0
        if where in (_constants.AT_BEGINNING, _constants.AT_BEGINNING_STRING):
            return _Guard(_BEGIN | (newline if where is _constants.AT_BEGINNING else 0), self._any.behind)
        if where is _constants.AT_END_STRING:
            return _Guard(self._any.before, _END)
        if where is _constants.AT_END:
            return _Guard(self._any.before, _END | self._bit("\n"))
        return self._some  # a boundary of words

    @property
    def _some(self):
        """The guard of what may fail, and nobody says where."""
        return _Guard(self._any.before, self._any.behind & ~_UNKNOWN)

    def _look(self, direction, nodes, *, denied):
        only = self._only(nodes)
        if direction < 0:
            guard = self._some
            if only is not None:
                guard = _Guard((self._any.before & ~only) if denied else only, self._some.behind)
            elif not denied and (last := self._only(nodes[-1:])) is not None:
                guard = _Guard(last, self._some.behind)
            return _Part(empty=guard)
        body = self._sequence(nodes)
        if denied:
            behind = self._any.behind & ~only & ~_UNKNOWN if only is not None else self._some.behind
        else:
            begins = 0 if body.empty is None else self._some.behind
            for at, guard in body.first:
                begins |= self._masks[at] & guard.behind
            behind = begins
        return _Part(first=body.first, empty=_Guard(self._any.before, behind))

    def _only(self, nodes):
        """The characters of nodes that read exactly one, None of others."""
        if len(nodes) != 1 or str(nodes[0][0]) not in ("LITERAL", "NOT_LITERAL", "IN", "ANY"):
            return None
        return self._mask(*nodes[0])

    # -- characters

    def _bit(self, character):
        return 1 << self._alphabet.index(character) + _FIRST_BIT

    def _mask(self, operation, argument):
        found = 0
        for number, character in enumerate(self._alphabet):
            if self._reads(operation, argument, character):
                found |= 1 << number + _FIRST_BIT
        return found

    def _reads(self, operation, argument, character):
        name = str(operation)
        alike = {character, character.lower(), character.upper()} if self._flags & re.IGNORECASE else {character}
        if name == "ANY":
            return bool(self._flags & re.DOTALL) or character != "\n"
        if name in ("LITERAL", "NOT_LITERAL"):
            return (chr(argument) in alike) == (name == "LITERAL")
        if name != "IN":
            raise UnsupportedError(f"{name} is not followed")
        denied = any(str(kind) == "NEGATE" for kind, _ in argument)
        return denied != any(self._has(kind, value, alike) for kind, value in argument)

    def _has(self, kind, value, alike):
        name = str(kind)
        if name == "LITERAL":
            return chr(value) in alike
        if name == "RANGE":
            return any(value[0] <= ord(each) <= value[1] for each in alike if len(each) == 1)
        if name == "CATEGORY":
            ascii_only = re.NOFLAG if self._flags & re.UNICODE else re.ASCII
            return any(re.fullmatch(_CATEGORIES[value], each, ascii_only) for each in alike)
        return False

    # -- what is wrong with it

    def _close(self):
        """Find out which positions lead where; those that lead back to each other make a circle."""
        count = len(self._masks)
        self._next = [[] for _ in range(count)]
        reach = [0] * count
        for (one, other), guards in self._edges.items():
            self._next[one] += [(other, guard) for guard in guards]
            reach[one] |= 1 << other
        for middle in range(count):
            for one in range(count):
                if reach[one] >> middle & 1:
                    reach[one] |= reach[middle]
        self._reach = reach
        self._circles = [
            frozenset(other for other in range(count) if reach[one] >> other & 1 and reach[other] >> one & 1)
            for one in range(count)
        ]

    def worst(self):
        """Return why the pattern is not linear."""
        turning = [at for at in range(len(self._masks)) if at in self._circles[at]]
        for at in turning:
            if not self._circles[at] & self._ends and self._exponential(at):
                return f"nested repeats over {self._names[at]}"
        for one, other in itertools.permutations(turning, 2):
            apart = other not in self._circles[one] and self._reach[one] >> other & 1
            if apart and not self._circles[other] & self._ends and self._polynomial(one, other):
                return f"repeats that read the same: {self._names[one]}, then {self._names[other]}"
        return ""

    def _exponential(self, at):
        circle = self._circles[at]
        if any(len(self._edges[one, other]) > 1 for one in circle for other in circle if (one, other) in self._edges):
            return True
        there = self._walked((at, at), (circle, circle))
        return any(one != other and (at, at) in self._walked((one, other), (circle, circle)) for one, other in there)

    def _polynomial(self, one, other):
        between = {
            at
            for at in range(len(self._masks))
            if (at == one or self._reach[one] >> at & 1) and (at == other or self._reach[at] >> other & 1)
        }
        rooms = self._circles[one], between, self._circles[other]
        return (one, other, other) in self._walked((one, one, other), rooms)

    def _walked(self, start, rooms):
        """The tuples of positions that can be reached in step, over the same text, by one step or more."""
        seen, waiting = set(), [start]
        if not self._shared(start):
            return seen
        while waiting:
            at = waiting.pop()
            ways = [[way for way in self._next[each] if way[0] in room] for each, room in zip(at, rooms, strict=True)]
            for taken in itertools.product(*ways):
                there = tuple(to for to, _ in taken)
                if there not in seen and self._agree(at, there, taken):
                    seen.add(there)
                    waiting.append(there)
        return seen

    def _shared(self, places, mask=-1):
        for each in places:
            mask &= self._masks[each]
        return mask

    def _agree(self, at, there, taken):
        before, behind = self._shared(at), self._shared(there)
        for _, guard in taken:
            before &= guard.before
            behind &= guard.behind
        return before and behind


def _literals(tree):
    """The characters that a pattern names, and their neighbours."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if (
            isinstance(node, int) and not isinstance(node, bool) and 127 < node < 0x10FFFF
        ):  # more than needed is no harm
            yield from (chr(node - 1), chr(node), chr(node + 1))
        elif isinstance(node, (list, tuple, _parser.SubPattern)):
            waiting.extend(node)


def _shown(operation, argument):
    if str(operation) == "LITERAL":
        return repr(chr(argument))
    if str(operation) != "IN":
        return str(operation)
    return (
        "["
        + " ".join(
            chr(value)
            if str(kind) == "LITERAL"
            else "-".join(map(chr, value))
            if str(kind) == "RANGE"
            else str(value or kind)
            for kind, value in argument
        )
        + "]"
    )
