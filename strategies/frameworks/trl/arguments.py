"""Arguments: the flags of one invocation with the defaults of their method, where no file can hold them."""

from __future__ import annotations

from muster.strategies.frameworks.trl import flags, numbers, parsing

__all__ = ["Arguments"]


class Arguments:
    """The arguments of one invocation.

    Args:
        method: the method of TRL.
        parsed: its arguments.

    Attributes:
        method: the method of TRL.
        values: the values that are given, by name.
        hidden: whether a file or a variable may hold others.
    """

    def __init__(self, method: str, parsed: parsing.ParsedArgs) -> None:
        self.method, self.values = method, parsed.values
        self.hidden = parsed.config_file is not None or bool(parsed.opaque)

    def text(self, name: str) -> str | None:
        """Return the value of a flag or its default; None where it is not known, "" for none."""
        spec = flags.spec(self.method, f"--{name}")
        if name in self.values:
            value = str(self.values[name])
            return None if "$" in value else value
        return None if self.hidden or spec is None else "" if spec.default is None else str(spec.default)

    def number(self, name: str) -> int | None:
        """Return the value of a flag as a whole number; None where it is none, or not known."""
        return numbers.whole(self.text(name))

    def words(self, name: str) -> list[str] | None:
        """Return the values of a flag that takes several, or its default; None where they are not known."""
        given = self.values.get(name)
        if given is None:
            spec = flags.spec(self.method, f"--{name}")
            default = spec.default if spec is not None else None
            return None if self.hidden or spec is None else [str(each) for each in _listed(default)]
        words = [str(each) for each in _listed(given)]
        return None if any("$" in word for word in words) else words


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]
