"""Selections: which rules `muster check` reports, by their ids and groups."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from muster.strategies.plugins.registry import Registry
from muster.webhook.cli.problems import CommandError, one_line

__all__ = ["ALL", "Selection", "select"]


class Selection(Struct, frozen=True):
    """The rules that are reported.

    Attributes:
        selected: ids (`trl/launch`) and groups (`trl`); empty for all.
        ignored: ids and groups that are left out, also of those selected.
    """

    selected: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def wants(self, rule: str) -> bool:
        """Whether findings of a rule are reported."""
        names = {rule, rule.partition("/")[0]}
        return (not self.selected or bool(names & self.selected)) and not names & self.ignored


ALL = Selection()
"""Every rule."""


def select(selected: Sequence[str], ignored: Sequence[str], registry: Registry) -> Selection:
    """Return the selection that `--select` and `--ignore` ask for.

    Args:
        selected: values of `--select`, each with ids and groups between commas.
        ignored: values of `--ignore`, in the same form.
        registry: the strategies; one that does not come with Muster may report any rule in the group of its framework.

    Raises:
        CommandError: there is no such rule or group.
    """
    return Selection(
        frozenset(_known("--select", selected, registry)), frozenset(_known("--ignore", ignored, registry))
    )


def _known(option: str, values: Sequence[str], registry: Registry) -> Iterator[str]:
    if not values:
        return
    from muster.webhook import catalogue  # noqa: PLC0415  # takes as long to read as a job, and few ask for rules

    groups = {each.partition("/")[0] for each in catalogue.load()}
    foreign = {each.strategy.framework for each in registry} - groups
    for name in (each.strip() for value in values for each in value.split(",")):
        if name in groups or name.partition("/")[0] in foreign or catalogue.find(name) is not None:
            yield name
        else:
            raise CommandError(
                one_line(f"{option}: {name[:100]!r} is no rule or group of rules; {_meant(name, groups)}")
            )


def _meant(name: str, groups: Iterable[str]) -> str:
    from muster.webhook import catalogue  # noqa: PLC0415  # as above

    near = catalogue.closest(name) if "/" in name else difflib.get_close_matches(name[:100], list(groups), 3)
    return f"did you mean {' or '.join(near[:3])}?" if near else "`muster rule` lists them"
