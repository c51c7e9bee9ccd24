"""What findings quote of a document is looked for in it, however large it is."""

from __future__ import annotations

import pytest

from muster.strategies import error
from muster.webhook.audit.redaction import doors, echoes, secret_names, texts, walks

SECRET = "planted-here-0001"
QUOTING = error("spec.trainer.args[2]", SECRET, f"does not belong to a flag: '{SECRET}'", rule="trl/arguments")


def document(*padding):
    """A job whose flag says that a word is secret, after entries that have many words."""
    env = [{"name": f"V{number}", "value": text} for number, text in enumerate(padding)]
    return {"spec": {"trainer": {"env": env, "args": ["--hub_token", SECRET]}}}


@pytest.mark.parametrize("padding", [(), ("some words of one value " * 400,) * 100], ids=["small", "large, repeating"])
def test_a_secret_of_the_document_is_hidden_where_a_finding_quotes_it(padding):
    (told,), _ = doors.findings([QUOTING], [], document(*padding))
    assert (told.value, SECRET in told.message) == (texts.MARK, False)


def test_where_a_document_has_more_text_than_is_read_no_finding_quotes_it():
    """Else an author would only have to write much for a quote to be shown."""
    large = document(*(f"{number} some words " * 400 for number in range(100)))
    count = error("spec.trainer.numNodes", 0, "must be at least 1", rule="core/numbers")
    (told, kept), _ = doors.findings([QUOTING, count], [], large)
    assert (told.value, SECRET in told.message) == (texts.MARK, False)
    assert kept == count


def test_a_walk_reads_each_text_once_and_no_more_than_it_may():
    walk = walks.Walk(secret_names.is_secret, most=1000)
    assert walk.value(["x " * 400] * 50) == ["x " * 400] * 50
    with pytest.raises(walks.TooMuchError):
        walk.value("y " * 400)


def test_a_walk_returns_the_very_text_that_it_was_given():
    walk = walks.Walk(secret_names.is_secret)
    one, other = (f"some words {each}"[:10] for each in "ab")
    assert walk.text(one) is one
    assert walk.text(other) is other


BESIDE = error("spec.trainer.args[2]", None, f"stands beside --x {SECRET}, at 0.5", rule="trl/flag-twice")
LARGE = document(*(f"{number} some words " * 400 for number in range(100)))


@pytest.mark.parametrize("job", [document(), LARGE], ids=["small", "large"])
def test_a_secret_that_a_message_quotes_beside_the_value_is_hidden(job):
    (told,), [line] = doors.findings([BESIDE], [f"it failed at {SECRET}"], job)
    assert (SECRET in told.message, SECRET in line) == (False, False)
    assert (told.message.startswith("stands beside --x "), line[:13]) == (True, "it failed at ")


@pytest.mark.parametrize("job", [document(), LARGE], ids=["small", "large"])
@pytest.mark.parametrize("mark", ["…", "...", "…' is odd", "...' is odd"])
@pytest.mark.parametrize("kept", [5, 10, 15])
def test_the_beginning_of_a_secret_that_a_quote_cuts_is_hidden(job, mark, kept):
    cut = error("spec.x", f"see {SECRET[:kept]}{mark}", f"has '{SECRET[:kept]}{mark}", rule="x/y")
    (told,), _ = doors.findings([cut], [], job)
    assert SECRET[:kept] not in f"{told}"


def test_many_secrets_and_many_cuts_are_looked_at_once():
    cut = " ".join(f"s{number:07}-x…" for number in range(2000))
    shown = echoes.Echoes(f"s{number:07}-xyz" for number in range(0, 4000, 2)).text(cut)
    assert shown.split()[:3] == [f"{texts.MARK}…", "s0000001-x…", f"{texts.MARK}…"]


@pytest.mark.parametrize("mark", ["…", "..."])
def test_user_and_password_of_an_address_that_was_cut_are_hidden(mark):
    assert doors.text(f"not found: https://bob:hunter2{mark}") == f"not found: https://{texts.MARK}{mark}"
    assert doors.text(f"not found: https://host.example:8080{mark}") == f"not found: https://host.example:8080{mark}"
