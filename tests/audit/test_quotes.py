"""What findings quote of a document is looked for in it, however large it is."""

from __future__ import annotations

import pytest

from strategies import error
from webhook.audit.redaction import doors, secret_names, texts, walks

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
