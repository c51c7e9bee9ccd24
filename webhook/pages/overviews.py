"""The overview above the list: jobs corrected, warned and refused by day and by namespace, and the rules behind it.

The picture is drawn here as SVG, with classes of the style sheet and without a script. Each of its numbers is in a
table too, for those who do not see it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.webhook.pages import asked, layouts
from muster.webhook.pages.asked import Asked
from muster.webhook.pages.markup import Child, Markup, element
from muster.webhook.pages.tallies import OUTCOMES, Outcome, Tally

__all__ = ["section"]

_DAYS, _NAMESPACES, _RULES = 14, 8, 8
_WIDTH, _HEIGHT = 560, 120  # of the bars, in units of the picture
_LABELS = 18  # below and above the bars
_LONGEST = 60
_DECISIONS: Mapping[Outcome, str] = {"corrected": "patched", "refused": "denied"}


def section(question: Asked, tally: Tally) -> Child:
    """Return the overview of what the filters found; None when nothing was found."""
    if not tally.decisions:
        return None
    days = list(tally.days.items())[-_DAYS:]
    return element(
        "section",
        element("h2", "Overview", id="overview"),
        element("p", _reach(tally), class_="quiet"),
        element("div", _days(days), _namespaces(question, tally), _rules(question, tally), class_="overview"),
        aria_labelledby="overview",
    )


def _reach(tally: Tally) -> str:
    until = f"back to {tally.reached[:19].replace('T', ' ')} UTC"
    whole = "all decisions in the logs" if tally.is_whole else f"the newest {tally.decisions} decisions"
    return f"The jobs of {whole}, {until}. A job counts once for each outcome; dry runs are not counted."


def _days(days: list[tuple[str, Counter[Outcome]]]) -> Child:
    if not days:
        return element("p", "No job was corrected, warned or refused.", class_="quiet")
    span = days[0][0] if len(days) == 1 else f"{days[0][0]} to {days[-1][0]}"
    left_out = "" if len(days) == 1 else "; days without such a job are left out"
    numbers = element("details", element("summary", "As numbers"), _numbers("Day", days))
    return element(
        "figure",
        element("figcaption", "By day", _legend()),
        _picture(days),
        element("p", f"{span} (UTC){left_out}", class_="quiet"),
        numbers,
    )


def _legend() -> Markup:
    return element("span", *(element("span", each, class_=f"key {each}") for each in OUTCOMES), class_="legend")


def _picture(days: list[tuple[str, Counter[Outcome]]]) -> Markup:
    highest = max(sum(counts.values()) for _, counts in days)
    step = _WIDTH / max(len(days), 7)
    return element(
        "svg",
        *(_bar(each, number * step, step, highest) for number, each in enumerate(days)),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT + 2 * _LABELS}",
        role="img",
        aria_label=f"Jobs by day, at most {highest} on one day; the numbers are below",
    )


def _bar(each: tuple[str, Counter[Outcome]], left: float, step: float, highest: int) -> Markup:
    day, counts = each
    total, top, parts = sum(counts.values()), float(_HEIGHT + _LABELS), []
    for outcome in OUTCOMES:
        height = counts[outcome] * _HEIGHT / highest
        top -= height
        parts.append(_rectangle(left + step * 0.15, top, step * 0.7, height, outcome) if height else None)
    middle = f"{left + step / 2:.1f}"
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES)
    return element(
        "g",
        element("title", f"{day}: {told}"),
        *parts,
        element("text", total, x=middle, y=f"{top - 4:.1f}"),
        element("text", day[8:], x=middle, y=_HEIGHT + 2 * _LABELS - 4),
    )


def _rectangle(left: float, top: float, width: float, height: float, outcome: Outcome) -> Markup:
    return element(
        "rect", x=f"{left:.1f}", y=f"{top:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", class_=outcome
    )


def _namespaces(question: Asked, tally: Tally) -> Child:
    if not tally.namespaces:
        return None
    every = sorted(tally.namespaces.items(), key=lambda each: (-_weight(each[1]), each[0]))
    rest = Counter[Outcome]()
    for _, counts in every[_NAMESPACES:]:
        rest.update(counts)
    shown = [(_linked(question, name), counts, name) for name, counts in every[:_NAMESPACES]]
    others = [(f"{len(every) - _NAMESPACES} others", rest, None)] if rest else []
    rows = [_row(question, *each) for each in [*shown, *others]]
    return element("div", element("h3", "By namespace"), _table("Namespace", rows))


def _weight(counts: Counter[Outcome]) -> int:
    return sum(counts.values())


def _linked(question: Asked, namespace: str) -> Child:
    if not namespace:
        return "no namespace"
    return element("a", _cut(namespace), href=_narrowed(question, namespace=asked.literal(namespace)))


def _numbers(name: str, rows: list[tuple[str, Counter[Outcome]]]) -> Markup:
    return _table(name, [_row(None, day, counts, None) for day, counts in rows])


def _table(name: str, rows: list[Markup]) -> Markup:
    heads = (element("th", each, scope="col") for each in (name, *OUTCOMES))
    return element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="counts")


def _row(question: Asked | None, name: Child, counts: Counter[Outcome], namespace: str | None) -> Markup:
    cells = (element("td", _number(question, counts[outcome], outcome, namespace)) for outcome in OUTCOMES)
    return element("tr", element("th", name, scope="row"), *cells)


def _number(question: Asked | None, count: int, outcome: Outcome, namespace: str | None) -> Child:
    decision = _DECISIONS.get(outcome)
    if question is None or not (count and namespace and decision):
        return count
    return element("a", count, href=_narrowed(question, namespace=asked.literal(namespace), decision=decision))


def _rules(question: Asked, tally: Tally) -> Child:
    items = [element("li", *_rule(question, rule, count)) for rule, count in tally.rules.most_common(_RULES)]
    return element("div", element("h3", "Top rules"), element("ol", *items, class_="rules")) if items else None


def _rule(question: Asked, rule: str, count: int) -> Iterator[Child]:
    yield element("a", _cut(rule), href=layouts.rule_path(rule), class_="rule", title="What this rule means")
    jobs = f"{count} job{'' if count == 1 else 's'}"
    yield element("a", jobs, href=_narrowed(question, rule=asked.literal(rule)), title="The decisions with this rule")


def _narrowed(question: Asked, **values: str) -> str:
    return asked.query(**{**question.linked, **values})


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
