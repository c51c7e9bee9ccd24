from pathlib import Path

import pytest

from tools.mutants import mutations


def changes(source, kind):
    found = [each for each in mutations.mutants("a.py", source.encode()) if each.kind == kind]
    return [each.planted(source.encode()).decode() for each in found]


@pytest.mark.parametrize(
    ("kind", "source", "planted"),
    [
        ("comparison", "a < b", ["(a <= b)"]),
        ("comparison", "a < b == c", ["(a <= b == c)", "(a < b != c)"]),
        ("comparison", "a is b, c in d", ["(a is not b), c in d", "a is b, (c not in d)"]),
        ("and-or", "x = a and b or c", ["x = ((a and b) and c)", "x = (a or b) or c"]),
        ("negation", "a if b else c", ["a if (not (b)) else c"]),
        ("negation", "[a for a in b if a.c]", ["[a for a in b if (not (a.c))]"]),
        ("negation", "a if b == c else d", []),
        ("not", "not (a or b) and c", ["(a or b) and c"]),
        ("constant", "a[0]", ["a[1]"]),
        ("constant", "a = 2", ["a = 3", "a = 1"]),
        ("constant", "a = True", ["a = False"]),
        ("arithmetic", "a - b * c", ["(a + b * c)", "a - (b // c)"]),
        ("arithmetic", "'x' + a + [b]", []),
        ("string", "a = 'core/rank'", ["a = 'core/rank~'"]),
        ("string", "a = f'{b}/{c}'", ["a = (f'{b}/{c}' \"~\")"]),
        ("statement", "a = 1\na.b = 2\nc(a)", ["a = 1\npass\nc(a)", "a = 1\na.b = 2\npass"]),
        ("statement", "for a in b:\n    continue", ["for a in b:\n    pass"]),
        ("statement", "if a:\n    raise", ["if a:\n    pass"]),
        ("return", "def f() -> bool:\n    return a", ["def f() -> bool:\n    return not (a)"]),
        ("return", "def f() -> list[int]:\n    return a", ["def f() -> list[int]:\n    return []"]),
        ("return", "def f(a):\n    return a", ["def f(a):\n    return None"]),
        ("return", "def f(a):\n    return None", []),
        ("return", "def f() -> int:\n    return 0", []),
        ("return", "def f() -> int:\n    return 2", ["def f() -> int:\n    return 0"]),
        ("keyword", "f(a, b=c, d=e)", ["f(a,  d=e)", "f(a, b=c, )"]),
        ("keyword", "f(b=c,)", ["f()"]),
        ("decorator", "@register\ndef f(): ...", ["\ndef f(): ..."]),
        ("decorator", "@property\ndef f(self): ...", []),
    ],
)  # fmt: skip
def test_a_fault_is_one_change_of_the_source(kind, source, planted):
    assert sorted(changes(source, kind)) == sorted(planted)


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring."""',
        "from a import b",
        "__all__ = ['a']",
        "x: Literal['a']",
        "def f(a: 'int') -> 'str': ...",
        "X = Literal['a', 'b']",
        "_log.info('said', extra={'a': 1})",
        "raise Refused",
        "x = 'a text of words'",
        "x = f'{a} is wrong'",
        "@dataclass(frozen=True)\nclass A: ...",
    ],
)
def test_what_no_program_reads_is_left_alone(source):
    assert [each for each in mutations.mutants("a.py", source.encode()) if each.kind != "statement"] == []


def test_what_is_said_with_an_exception_is_left_alone_and_its_numbers_are_not():
    source = "raise Refused('oh', f'{a}', 404)"
    assert changes(source, "string") == []
    assert changes(source, "constant") == ["raise Refused('oh', f'{a}', 405)", "raise Refused('oh', f'{a}', 403)"]


def test_columns_are_counted_in_bytes():
    assert changes("a = 'ä', b < c", "comparison") == ["a = 'ä', (b <= c)"]


def test_a_fault_knows_its_lines_and_says_what_goes_and_comes():
    source = b"a = 1\nb = f(\n    c=1,\n    d=2,\n)\n"
    (fault,) = [each for each in mutations.mutants("a.py", source) if each.kind == "keyword" and each.lines == (4, 4)]
    assert fault.difference(source) == ("-    d=2,", "+    ")


def test_every_fault_of_this_repositorys_own_tool_is_python():
    source = Path(mutations.__file__).read_bytes()
    found = list(mutations.mutants("a.py", source))
    assert {each.kind for each in found} >= {"comparison", "and-or", "negation", "string", "statement", "return"}
    for each in found:
        compile(each.planted(source), "a.py", "exec")
