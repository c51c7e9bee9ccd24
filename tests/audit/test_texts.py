from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.webhook.audit.redaction import texts

REDACTED = [
    ("HF_TOKEN=abc python x.py --lr 1", "HF_TOKEN=<redacted> python x.py --lr 1"),
    ("python x.py --hub_token 'q r' --lr 1", "python x.py --hub_token <redacted> --lr 1"),
    ("--hub_token=a b;c", "--hub_token=<redacted>"),
    ("wandb.api_key=abc", "wandb.api_key=<redacted>"),
    ("export A_SECRET=x;run", "export A_SECRET=<redacted>;run"),
    ("env \"HF_TOKEN=a b\" 'A_SECRET=c d' run", "env \"HF_TOKEN=<redacted>\" 'A_SECRET=<redacted>' run"),
    ("sh -c \"HF_TOKEN='a b' x\" y", 'sh -c "HF_TOKEN=<redacted>" y'),
    ("HF_TOKEN='a'\"'\"'b c' x", "HF_TOKEN=<redacted> x"),
    ('x HF_TOKEN="never closed', "x HF_TOKEN=<redacted>"),
    ("HF_TOKEN==a-b trl sft", "HF_TOKEN=<redacted> trl sft"),
    ("password===a trl sft", "password=<redacted> trl sft"),
    ("auth==1.2-a x", "auth=<redacted> x"),
    ("os.environ['HF_TOKEN'] = 'abc'", "os.environ['HF_TOKEN'] = <redacted>"),
    ("got {'token': 'abc'}", "got {'token': <redacted>"),
    ("git clone https://u:p@ss@host/x", "git clone https://<redacted>@host/x"),
    ("--url=//me:hunter22@host:8000/x", "--url=//me:<redacted>@host:8000/x"),
    ("https://host/x?a=b@c&token=zzz&q=1", "https://host/x?a=b@c&token=<redacted>&q=1"),
    ("Authorization: Bearer abc", "Authorization: <redacted>"),
    ('curl -H "Authorization: Basic abc" x', 'curl -H "Authorization: <redacted>" x'),
    ("lr: 1\nhub_token: abc\nseed: 2", "lr: 1\nhub_token: <redacted>\nseed: 2"),
    ("hub_token:\tabc", "hub_token:\t<redacted>"),
    ("- name: HF_TOKEN\n  value: abc", "- name: HF_TOKEN\n  value: <redacted>"),
    ("with Bearer abcdefgh.ijk now", "with Bearer <redacted> now"),
    ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----\nx", "<redacted>\nx"),
]

# Where a secret stands in a text; it is planted for the braces, and nothing of it may be left.
PLACES = [
    "--hub_tok {}",
    "--hub-t={}",
    "--api-k {}",
    "--hub_token \\\n  {}",
    "CMD='HF_TOKEN={} run'",
    'CMD="HF_TOKEN={} run" x',
    "args=--hub_token={}",
    "x=a,token={},y=b",
    "--set image.tag=1,auth.password={}",
    "kubectl create secret generic a --from-literal=password={}",
    "['trl','--hub_token','{}']",
    '["a","--hub_token","{}"]',
    'os.environ.setdefault("HF_TOKEN", "{}")',
    '{{\\"token\\":\\"{}\\"}}',
    "a: {{b: {{token: {}}}}}",
    "<a><password>{}</password></a>",
    "<password>{}</password>",
    "${{HF_TOKEN:-{}}}",
    "export HF_TOKEN=$(echo {})",
    "HF_TOKEN=`echo {}` run",
    "read -r HF_TOKEN <<< {}",
    "gh auth login --with-token <<< {}",
    "echo {} | docker login --password-stdin r.io",
    "printf '%s' '{}' | huggingface-cli login",
    "wandb login --relogin {}",
    "wandb login --host https://h {}",
    "curl \\\n  -u bob:{} \\\n  https://x",
    "bash -c 'curl -ubob:{} https://x'",
    'curl -H "X-Api-Key: {}" https://x',
    "mysql -uroot -p{} db",
    "sshpass -p {} ssh x",
    "smbclient -U bob%{}",
    "aws configure set aws_secret_access_key {}",
    "ENV HF_TOKEN {}",
    "--kwargs api_key:{}",
    "machine h login u password {}",
    "password: |\n  {}\nseed: 1",
    "credentials:\n  user: bob\n  value: {}\nseed: 1",
    "kind: Secret\nstringData:\n  plain: {}\n",
    "[default]\naws_secret_access_key = {}\n",
]

KEPT = [
    "image: repo/name:tag@sha256:0123456789abcdef",
    "docker run -p 80:80 x; ssh -p 22 y",
    "--token_budget 512 --tokens_per_batch 4 --decoder_start_token_id 0",
    "http://auth:8080/x",
    "curl -fsSL -H 'Accept: text/html' https://x -o y",
    "set -euo pipefail; echo done | tee log",
    "auth:\n  secretName: hf\n  enabled: true\n",
    "TOKENIZERS_PARALLELISM=false",
    "--pad_token <pad> --max_new_tokens 512",
    "--hub_token $HF_TOKEN --use_auth_token True",
    "--hub_token=$(HF_TOKEN)",
    "--push_to_hub --hub_token --lr 1",
    "task-2 on disk-1 of risk-0-in-the-eyes-of-the-desk-0",
    "https://example.com/a@b",
    "mail alice@example.com",
    "HF_TOKEN is missing from env",
    "pip install 'google-auth==2.29.*' pyjwt-auth==1.2rc1, && run",
    "if token == 'x': return password== other",
    'User "system:serviceaccount:team-secret:muster" cannot get resource "secrets" in API group ""',
]

FORMATS = {
    "Hugging Face": "hf_" + "aB3" * 11,
    "OpenAI": "sk-proj-" + "x1Y" * 10,
    "GitHub": "ghp_" + "A1b" * 12,
    "GitHub, fine-grained": "github_pat_" + "a1_" * 20,
    "GitLab": "glpat-" + "x-1" * 7,
    "AWS": "AKIA" + "A2B3" * 4,
    "Google": "AIza" + "a-1_b" * 7,
    "Slack": "xoxb-" + "12ab-" * 4,
    "NVIDIA": "nvapi-" + "aB1_" * 8,
    "JWT": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
}


@pytest.mark.parametrize(("text", "expected"), REDACTED)
def test_the_secret_part_of_a_text_is_replaced_and_the_rest_stays(text, expected):
    assert texts.scrub(text) == expected


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_found_where_commands_and_configurations_have_one(place):
    scrubbed = texts.scrub(place.format("planted-here"))
    assert texts.MARK in scrubbed
    assert "planted" not in scrubbed


@pytest.mark.parametrize("text", KEPT)
def test_a_text_without_a_secret_stays_as_it_is(text):
    assert texts.scrub(text) == text


@pytest.mark.parametrize("token", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("around", ["{}", "see {} there", "model:{}@main", '"{}"', "https://x.test/{}", "a={}"])
def test_a_known_token_format_is_found_without_a_name(token, around):
    assert token not in texts.scrub(around.format(token))


@settings(deadline=None)
@given(
    st.sampled_from([text for text, _ in REDACTED] + KEPT + list(FORMATS.values())), st.sampled_from([" ", "\n", "; "])
)
def test_scrubbing_twice_changes_nothing_more(text, separator):
    once = texts.scrub(f"{text}{separator}{text}")
    assert texts.scrub(once) == once


def test_what_was_replaced_is_reported_with_and_without_its_quotes():
    found: set[str] = set()
    texts.scrub("HF_TOKEN='it'\"'\"'s me' x; git clone https://bob:builder@host", found=found)
    assert {"it's me", "builder"} <= found


def test_a_judge_of_ones_own_finds_other_names():
    assert texts.scrub("LICENCE_PLATE=abc x", judge=lambda name: "LICENCE" in name) == "LICENCE_PLATE=<redacted> x"


HOSTILE = [
    "a",
    "sk-",
    "eyJ-",
    "eyJaaaa.",
    "--token ",
    'token="',
    "'token'",
    "a@://",
    "-----BEGIN ",
    "name:",
    "auth-",
    "hf_",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_secret_behind_a_long_hostile_text_is_found(piece):
    # A pattern that is quadratic in the text would not come to its end here.
    text = piece * (200_000 // len(piece)) + " private key- HF_TOKEN=planted-here"
    assert "planted-here" not in texts.scrub(text)


_PIECES = st.sampled_from(
    [
        "name",
        "value",
        "tok",
        "curl",
        "hf_",
        "@",
        "a@b",
        ":",
        "://",
        "...",
        "…",
        "{",
        "x" * 257,
        "://…",
        "key:",
        "ü",
        "5",
        "},{",
    ]
)


def is_telling_at_first_sight(raw):
    """What `is_telling` says of a text, without anything that was seen before."""
    text = raw.decode()
    if any(hint in text for hint in texts.HINTS) or ("@" in text and ":" in text):
        return True
    return "://" in text and ("..." in text or "…" in text)


@settings(max_examples=300)
@given(st.lists(st.lists(_PIECES, max_size=5).map('"'.join), min_size=1, max_size=6))
def test_what_was_seen_before_changes_nothing_about_what_is_telling(seen):
    for each in seen:
        raw = each.encode()
        assert texts.is_telling(raw) == is_telling_at_first_sight(raw)


def test_only_some_short_texts_that_tell_nothing_are_remembered(monkeypatch):
    monkeypatch.setattr(texts, "_quiet", {})
    assert not texts.is_telling('"'.join(f"plain-{number}" for number in range(100_000)).encode())
    assert not texts.is_telling(b'short "' + b"x" * 10_000)
    assert texts.is_telling(b'more "a_token')
    assert not texts.is_telling(b"},{".join(b"piece-%d" % number for number in range(100_000)))
    ((kept, pieces),) = texts._quiet.values()
    for each in (kept, pieces):
        assert 0 < len(each) <= 2 * texts._MOST_QUIET
        assert max(map(len, each)) <= texts._LONGEST_QUIET
    assert "more " not in kept
