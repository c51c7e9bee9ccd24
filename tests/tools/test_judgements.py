from tools.mutants import judgements, reports
from tools.mutants.mutations import Mutant
from tools.mutants.trials import Outcome, Result

TEXT = """\
[[equivalent]]
before = "if a > 0:"
after = "if (a >= 0):"
why = "a is never 0 here"
"""


def judged(outcome, why=None):
    result = Result(Mutant("a.py", "not", (1, 1), (0, 0), ""), outcome, 1, "", 0.1, {})
    return reports.Judged("a", result, ("-a", "+b"), why)


def test_a_judgement_is_known_by_its_lines_wherever_they_stand(tmp_path):
    (tmp_path / "equivalents.toml").write_text(TEXT)
    known = judgements.load(tmp_path / "equivalents.toml")
    assert judgements.why(known, ("-    if a > 0:", "+    if (a >= 0):")) == "a is never 0 here"
    assert judgements.why(known, ("-    if a > 0:", "+    if (a >= 1):")) is None


def test_every_judgement_of_the_repository_has_a_reason():
    assert all(len(why) > 10 for why in judgements.load(judgements.PLACE).values())


def test_what_is_no_fault_does_not_count():
    results = [
        judged(Outcome.KILLED),
        judged(Outcome.TIMED_OUT),
        judged(Outcome.SURVIVED),
        judged(Outcome.SURVIVED, "same"),
    ]
    assert reports.share(results) == 2 / 3
    assert reports.share([]) == 1


def test_what_broke_is_no_success():
    assert reports.share([judged(Outcome.BROKEN), judged(Outcome.KILLED)]) == 0.5


def test_the_table_counts_each_folder_and_all():
    *_, one, everything = reports.lines([judged(Outcome.KILLED), judged(Outcome.SURVIVED)], {"a": 7})
    assert one.split() == ["a", "7", "2", "1", "0", "0", "1", "50.0%"]
    assert everything.split()[0] == "all"
