"""What is held of one kind, up to a number of bytes that the namespaces share.

Anyone who may create objects in one namespace can create many, and each can be as large as etcd takes. So what is held
has a limit in bytes, and where it is reached, the namespace that takes most gives way, its newest object first: whoever
fills a namespace pushes out what is in that namespace only. What is not held is known to be missing, so that nobody
takes what is here for all that there is.
"""

from __future__ import annotations

import sys
from typing import Generic, NamedTuple, TypeVar

from muster.webhook.cluster import readers, sizes

__all__ = ["LARGEST", "MARKED", "OVERHEAD", "Shelf"]

LARGEST = 128 * 1024
"""Bytes above which one object is not held; runtimes have 1 to 30 thousand, a TrainJob with a long script 40."""
OVERHEAD = 400
"""Bytes that each object takes beside its own: names, tuples and places in tables (measured: 330 to 390)."""
MARKED = 50_000
"""Objects that are known one by one to be left out, at about 70 bytes each."""

Value = TypeVar("Value")


class _Kept(NamedTuple, Generic[Value]):
    value: Value
    size: int
    text: str


class _Space(Generic[Value]):
    """What is held of one namespace. Equal texts are one string, which is counted once."""

    __slots__ = ("kept", "texts", "used")

    def __init__(self) -> None:
        self.kept: dict[str, _Kept[Value]] = {}
        self.texts: dict[str, tuple[str, int]] = {}  # the string that all share, and how many do
        self.used = 0

    def cost(self, size: int, text: str) -> int:
        return size if text in self.texts else size + _weight(text)

    def add(self, name: str, value: Value, size: int, text: str) -> None:
        self.used += self.cost(size, text)
        shared, count = self.texts.get(text, (text, 0))
        if text:
            self.texts[shared] = (shared, count + 1)
        self.kept[name] = _Kept(value, size, shared)

    def take(self, name: str) -> None:
        kept = self.kept.pop(name)
        self.used -= kept.size
        shared, count = self.texts.pop(kept.text, ("", 0))
        if count > 1:
            self.texts[shared] = (shared, count - 1)
        else:
            self.used -= _weight(shared)


class Shelf(Generic[Value]):
    """Values by `Ref`, within a number of bytes.

    Args:
        room: bytes that all values together may take.

    Attributes:
        used: bytes that they take.
        unmarked: how often an object was left out for which there was no mark.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._spaces: dict[str, _Space[Value]] = {}
        self._left: set[int] = set()  # hashes of the Refs that are left out
        self.unmarked = 0
        self._sizes = sizes.Sizes()  # of the namespaces
        self._count = 0
        self.used = 0

    def __len__(self) -> int:
        return self._count

    @property
    def left_out(self) -> int:
        """How many objects are left out; beyond `MARKED`, about that many."""
        return len(self._left) + self.unmarked

    def get(self, ref: readers.Ref) -> tuple[Value, str] | None:
        """Return a value and its text; None when it is not held."""
        space = self._spaces.get(ref.namespace)
        kept = space.kept.get(ref.name) if space else None
        return (kept.value, kept.text) if kept else None

    def names(self) -> list[tuple[str, str]]:
        """Return namespace and name of all values that are held now."""
        # Lists of whole tables are made in one step, also while another thread changes the tables.
        return [(namespace, name) for namespace, space in list(self._spaces.items()) for name in list(space.kept)]

    def in_namespace(self, namespace: str) -> list[Value]:
        """Return the values of a namespace."""
        space = self._spaces.get(namespace)
        return [each.value for each in list(space.kept.values())] if space else []

    def put(self, ref: readers.Ref, value: Value, size: int, text: str = "") -> list[tuple[str, Value]]:
        """Hold a value, in place of the one before; or leave it out, when there is no room for it.

        Args:
            ref: the object.
            value: what is held.
            size: bytes of it, without its text.
            text: held with it, and shared with the equal texts of its namespace.

        Returns:
            What gave way to it: each namespace with a value.
        """
        self.pop(ref)
        size += OVERHEAD + len(ref.name)
        space = self._spaces.get(ref.namespace) or _Space[Value]()
        cost = space.cost(size, text)
        gone = self._make_room(ref, space, cost) if size + _weight(text) <= LARGEST else []
        if size + _weight(text) > LARGEST or self.used + cost > self._room:
            self._leave(ref)
            return gone
        self.used -= space.used
        space.add(ref.name, value, size, text)
        self.used += space.used
        self._count += 1
        self._spaces[ref.namespace] = space
        self._sizes.set(ref.namespace, space.used)
        return gone

    def pop(self, ref: readers.Ref) -> Value | None:
        """Forget an object, whether it is held or left out; return what was held."""
        self._left.discard(hash(ref))
        space = self._spaces.get(ref.namespace)
        kept = space.kept.get(ref.name) if space else None
        if space is None or kept is None:
            return None
        self._take(ref.namespace, space, ref.name)
        return kept.value

    def leave(self, ref: readers.Ref) -> None:
        """Note that an object exists and is not held."""
        self.pop(ref)
        self._leave(ref)

    def is_known(self, ref: readers.Ref) -> bool:
        """Whether an object is held, or known to be left out."""
        return self.get(ref) is not None or hash(ref) in self._left

    def keep_only(self, known: set[int], unmarked: int = 0) -> None:
        """Forget what is left out and not among these hashes of Refs, and so many that have no mark."""
        self._left &= known
        self.unmarked -= unmarked

    def _leave(self, ref: readers.Ref) -> None:
        if len(self._left) < MARKED:
            self._left.add(hash(ref))
        else:
            self.unmarked += 1

    def _make_room(self, ref: readers.Ref, space: _Space[Value], cost: int) -> list[tuple[str, Value]]:
        """Take from whoever takes most, while that is more than this namespace would then take."""
        gone: list[tuple[str, Value]] = []
        while self.used + cost > self._room:
            name = self._sizes.largest() or ""
            most = self._spaces.get(name, space)
            if most.used <= space.used + cost:
                break
            while self.used + cost > self._room and most.used > space.used + cost:
                last = next(reversed(most.kept))
                gone.append((name, most.kept[last].value))
                self._take(name, most, last)
                self._leave(readers.Ref(ref.kind, name, last))
        return gone

    def _take(self, namespace: str, space: _Space[Value], name: str) -> None:
        self.used -= space.used
        space.take(name)
        self.used += space.used
        self._count -= 1
        self._sizes.set(namespace, space.used)
        if not space.kept:
            del self._spaces[namespace]


def _weight(text: str) -> int:
    return sys.getsizeof(text) if text else 0
