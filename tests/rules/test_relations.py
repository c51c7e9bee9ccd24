"""Rows: what each relation finds, what is never judged, and that a wrong row is said to be wrong."""

import json

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.rules import UNKNOWN, from_json, judge, member, relations
from tests.support import row_problems


class Settings:
    """A view of plain values."""

    def __init__(self, written, defaults=()):
        self._written, self._values = dict(written), {**dict(defaults), **dict(written)}

    @property
    def written(self):
        return self._written

    def value(self, name):
        if name not in self._values and "." in name:
            first, _, rest = name.partition(".")
            return member(self.value(first), rest)
        return self._values.get(name)

    def shown(self, name, value):
        return f"--{name} {value}"

    def field(self, name):
        return f"args.{name}"


def row(**members):
    return {"flag": "x", "rule": "a/b", "message": "is wrong", "source": "s", "refused": "r", "taken": "t", **members}


def found(written, *rows, **defaults):
    return list(judge(relations.Rows("".join(map(toml, rows))), Settings(written, defaults)))


def toml(members):
    return "\n[[row]]\n" + "".join(f"{name} = {inline(value)}\n" for name, value in members.items())


def inline(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{name}" = {inline(each)}' for name, each in value.items()) + " }"
    return f"[{', '.join(map(inline, value))}]" if isinstance(value, list) else json.dumps(value)


# relation, a value of x that breaks it, one that keeps it; y is 4, words is ["a", "b"]
RELATIONS = [
    ({"one_of": ["a", "b"]}, "c", "a"),
    ({"one_of": ["a", "b"]}, ["a", "c"], ["b"]),
    ({"none_of": [0, "no"]}, "no", "yes"),
    ({"none_of": [1]}, 1, True),
    ({"min": 2}, 1, 2),
    ({"max": 1}, 1.5, 1),
    ({"above": 0}, 0, 0.1),
    ({"below": "y"}, 4, 3),
    ({"divides": "y * 3"}, 5, 6),
    ({"multiple_of": "y"}, 6, 8),
    ({"multiple_of": "y + 1"}, 6, 10),
    ({"length": "len(words)"}, ["1"], ["1", "2"]),
    ({"same_as": "y"}, 3, 4),
    ({"matches": "[a-z]+"}, "A", "a"),
    ({"whole": True}, 1.5, 2.0),
    ({"json": True}, "{x", from_json('{"x": 1}')),
    ({"members": ["a"]}, {"b": 1}, {"a": 1}),
    ({"needs": {"y": 5}}, True, False),
    ({"needs": {"missing": {"set": True}}}, 1, None),
    ({"excludes": {"y": 4, "words": {"has": "a"}}}, True, False),
]


@pytest.mark.parametrize(("relation", "broken", "kept"), RELATIONS, ids=str)
def test_a_relation_finds_the_value_that_breaks_it_and_no_other(relation, broken, kept):
    others = {"y": 4, "words": ["a", "b"]}

    assert [each.rule for each in found({"x": broken}, row(**relation), **others)] == ["a/b"]
    assert found({"x": kept}, row(**relation), **others) == []


@pytest.mark.parametrize(("relation", "broken", "kept"), RELATIONS, ids=str)
def test_what_cannot_be_read_is_never_judged(relation, broken, kept):
    assert found({"x": UNKNOWN}, row(**relation), y=UNKNOWN, words=UNKNOWN, missing=UNKNOWN) == []


@pytest.mark.parametrize("operand", ["min", "max", "above", "below", "divides", "multiple_of", "same_as"])
def test_a_comparison_with_what_cannot_be_read_is_never_judged(operand):
    assert found({"x": 7}, row(**{operand: "y * 2"}), y=UNKNOWN) == []


def test_a_row_is_judged_only_where_its_flag_is_written_or_always():
    assert found({}, row(min=2), x=1) == []
    assert len(found({}, row(min=2, always=True), x=1)) == 1


@pytest.mark.parametrize(
    ("when", "judged"),
    [
        ({"y": 4}, True),
        ({"y": [3, 4]}, True),
        ({"y": {"not": 4}}, False),
        ({"y": 4, "z": 1}, False),
        ([{"y": 5}, {"y": 4}], True),
        ({"y": {"min": 4, "max": 4}}, True),
        ({"y": {"written": True}}, False),
        ({"unread": 4}, False),
        ({"unread": {"not": 4}}, False),
        ({"o.p.q": 1}, True),
        ({"o.p.r": {"set": False}}, True),
        ({"none": {"min": 1}}, False),
    ],
    ids=str,
)
def test_conditions_say_whether_a_row_is_judged(when, judged):
    made = found({"x": 1}, row(min=2, when=when), y=4, unread=UNKNOWN, o={"p": {"q": 1}}, none=None)

    assert bool(made) is judged


def test_a_message_names_the_value_other_settings_and_what_they_come_to():
    (made,) = found({"x": ["b", "c"]}, row(one_of=["b"], message="{value} is wrong beside {y * n} of {y}"), y=4, n=2)

    assert made.message.startswith("c is wrong beside 8 of 4")


def test_a_misspelt_word_gets_the_one_that_may_be_meant():
    (made,) = found({"x": "sigmiod"}, row(one_of=["sigmoid", "hinge"]))

    assert made.message.endswith("did you mean sigmoid?")


def test_a_finding_stands_at_the_first_flag_of_at_that_is_written():
    rows = row(min=2, always=True, at=["n", "y"], level="warning")

    (made,) = found({"y": 4}, rows, x=1)

    assert (made.field, made.value, made.severity) == ("args.y", "--y 4", Severity.WARNING)


def test_one_row_may_be_about_several_flags():
    assert [each.field for each in found({"x": 1, "y": 1}, row(flag=["x", "y"], min=2))] == ["args.x", "args.y"]


@pytest.mark.parametrize(
    "wrong",
    [
        row(),
        row(min=1, max=2),
        row(mim=1),
        row(min=1, when={"y": {"atleast": 1}}),
        row(needs="y"),
        row(one_of="y"),
        row(whole=1),
        row(min=1, level="error"),
        row(min=1, refused=""),
        row(min=1, proof="none"),
        {**row(min=1), "rule": ""},
        row(min=1, message=3),
    ],
    ids=str,
)
def test_a_row_that_says_what_no_engine_reads_is_a_problem(wrong):
    assert list(row_problems.of_row(wrong))


@pytest.mark.parametrize(("relation", "_", "__"), RELATIONS, ids=str)
def test_a_right_row_is_no_problem(relation, _, __):
    assert not list(row_problems.of_row(row(**relation, when={"y": {"min": 1}})))
