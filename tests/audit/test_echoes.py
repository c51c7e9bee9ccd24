"""Secrets that a record repeats: every one goes, and nothing else does."""

from __future__ import annotations

import pytest

from muster.webhook.audit.redaction.echoes import Echoes


@pytest.mark.parametrize("count", [1, 2, 500])
def test_a_text_keeps_all_but_the_secrets_however_many_there_are(count):
    secrets = [f"{number:04}-planted" for number in range(count)]
    echoes = Echoes(secrets)
    assert echoes.text(f"first {secrets[0]}, last {secrets[-1]} end") == "first <redacted>, last <redacted> end"
    text = "0-planted is nothing that was planted"
    assert echoes.text(text) is text
