"""A sentence of Muster keeps its own words: what is hidden in it is a secret that it quotes."""

from __future__ import annotations

import dataclasses
import re

import pytest

from muster.strategies import warning
from muster.webhook.admission import answers
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.audit.redaction import doors, texts, walks
from tests.corpus import cases
from tests.support import admissions, jobs

SAMPLE = [
    name
    for name in cases.names()
    if re.search(r"(?i)token|auth|secret|passw|api.?key", cases.path_of(name).read_text())
]


def told(message, document, field="spec.a"):
    (found,), _ = doors.findings([warning(field, None, message, rule="a/b")], (), document)
    return found.message


@pytest.mark.parametrize(
    "message",
    [
        "volumeMounts[/root/.ssh].name: 'mpi-ssh-auth': the pod has no volume of this name; add it",
        "the flag --hub_token has no value; write one",
        "--api_key is not a flag of trl sft; did you mean --api_base?",
        "'HF_TOKEN', which is set twice, is one variable; remove one",
        'the Secret "ssh-key": no Secret of this name was found',
        "token: the label must be a string; quote it",
        "spec.mlPolicy.mpi.sshAuthMountPath is /root/.ssh, where no volume is",
    ],
)
def test_words_of_muster_beside_a_name_stay(message):
    document = {"spec": {"mlPolicy": {"mpi": {"sshAuthMountPath": "/root/.ssh"}}, "args": ["--other"]}}
    assert told(message, document) == message


@pytest.mark.parametrize(
    ("message", "secret"),
    [
        ("the argument '--hub_token=abc12' is unknown", "abc12"),
        ('the text "export HF_TOKEN=abc12" is not read', "abc12"),
        ("the word --password=hunter is unknown", "hunter"),
        ("--hub_token hunter is unknown", "hunter"),
        ("the address https://me:geheim@example.org is not read", "geheim"),
        ("hf_abcdefghij0123456789 is not a flag", "hf_abcdefghij0123456789"),
    ],
)
def test_a_secret_that_a_sentence_quotes_is_hidden(message, secret):
    document = {"args": ["--hub_token", "hunter"]}
    shown = told(message, document)
    assert secret not in shown
    assert texts.MARK in shown


def test_in_mode_warn_a_finding_keeps_its_words_behind_its_value():
    decision = admissions.decide(jobs.make_trainjob(), phase="validate", policy=Policy(mode=Mode.WARN))
    found = (warning("volumes[a].name", "mpi-ssh-auth", "the pod has no volume of this name", rule="a/b"),)
    assert answers.warnings(dataclasses.replace(decision, findings=found)) == [
        "volumes[a].name: 'mpi-ssh-auth': the pod has no volume of this name"
    ]


@pytest.mark.parametrize("name", SAMPLE[:: max(len(SAMPLE) // 40, 1)])
def test_what_is_hidden_in_a_finding_about_the_corpus_stands_in_its_documents(name, monkeypatch):
    pairs, plain = [], walks.Walk.sentence

    def noted(walk, sentence):
        shown = plain(walk, sentence)
        pairs.append((sentence, shown))
        return shown

    monkeypatch.setattr(walks.Walk, "sentence", noted)
    cases.outcome.__wrapped__(name)
    written = cases.path_of(name).read_text()
    for sentence, shown in pairs:
        kept = set(shown.split())
        assert [word for word in sentence.split() if word not in kept and word.strip("'\",;:.") not in written] == []
