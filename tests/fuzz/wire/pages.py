"""Requests for the pages of the audit log: addresses, questions, hosts, and bodies that no page wants."""

from __future__ import annotations

import gzip
import urllib.parse

from tests.fuzz.wire.attacks import Attack, head

__all__ = ["WAYS"]

_FILTERS = (
    "job",
    "namespace",
    "kind",
    "decision",
    "framework",
    "rule",
    "user",
    "since",
    "until",
    "text",
    "uid",
    "view",
    "before",
)
_VALUES = (
    *("", "a", "*", "[", "[!", "[]", "[a-", "?" * 300, "*" * 300, "*a" * 150, "[" * 300, "[[]" * 100, "(a+)+$", "\x00"),
    *(
        "\u202e",
        "\U0001f600",
        "9" * 300,
        "-1d",
        "1e9h",
        "99999999999999999d",
        "0.0000001s",
        "NaNd",
        "infh",
        "2026-99-99",
    ),
    *(
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00+23:59",
        "0001-01-01T00:00:00-23:59",
        "2026-01-01T00:00:00.9999999999Z",
    ),
    *(
        "denied",
        "unreadable",
        "TrainJob",
        "jobs",
        "decisions",
        "..",
        "a" * 301,
        "' or 1=1",
        "<script>",
        "%s%n",
        "1h",
        "10d",
    ),
    *(
        "\u0661d",
        "+1h",
        "1 h",
        "--1h",
        "1000000000000d",
        "1e400d",
        "2026-01-01",
        "20260101T000000Z",
        "now",
        "2026-W01-1",
    ),
)
_PLACES = (
    *(
        "0-0-0",
        "0-0-" + "9" * 5000,
        "9" * 300,
        "-1",
        "..",
        "a",
        "1.1.1",
        "",
        "0/0",
        "%00",
        "0-0",
        "-",
        "a" * 3000,
        "\u0661",
    ),
    *("0:0", "0@0", "0-" + "f" * 64, "0-0-0-0-0", "+1-+1", " 1", "1_0-1_0", "0x1-0x1"),
)
_HOSTS = (
    *(
        b"localhost",
        b"127.0.0.1",
        b"[::1]",
        b"evil.example",
        b"",
        b"localhost:99999",
        b"localhost:0:0",
        b"127.0.0.1.evil.example",
    ),
    *(
        b"[::1",
        b"[::ffff:127.0.0.1]:80",
        b"0x7f.1",
        b"2130706433",
        b"localhost.",
        b"LOCALHOST",
        b"\xff",
        b"a" * 5000,
        b"[fe80::1%25a]",
    ),
)
_RAW = (b"%", b"%zz", b"%ff", b"%ed%a0%80", b"%00", b"\xff\xfe", b"+", b"a;b", b"a&&&b", b"=", b"a=%u0041", b"#", b"?")


def _lists(random, secret, review):
    """A question with odd values."""
    names = random.sample(_FILTERS, random.choice((1, 1, 1, 2, 4)))
    asked = [(name, random.choice((*_VALUES, secret))) for name in names]
    if random.random() < 0.1:
        asked = [*asked, *asked]
    where = random.choice(("/", "/", "/export.csv", "/export.jsonl", "/export"))
    target = f"{where}?{urllib.parse.urlencode(asked, errors='surrogatepass')}".encode()
    return Attack(f"question {asked[0][0]}={asked[0][1][:20]!r}", (head(b"GET", target),), further={"echoes": True})


def _raw(random, secret, review):
    """A question whose bytes are odd."""
    name = random.choice(_FILTERS).encode()
    target = b"/?" + name + b"=" + random.choice(_RAW) * random.choice((1, 1, 1000))
    return Attack(f"bytes {target[:24]!r}", (head(b"GET", target),), further={"echoes": True})


def _places(random, secret, review):
    """An address of a record or a rule that is none."""
    kind, place = random.choice(("record", "json", "rules", "style.css", "..")), random.choice(_PLACES)
    target = f"/{kind}/{urllib.parse.quote(place, safe=random.choice(('', '/%')))}".encode()
    method = random.choice((b"GET", b"HEAD"))
    sent = head(method, target)
    return Attack(f"place {target[:30]!r}", (sent,), bare=method == b"HEAD", further={"echoes": True})


def _hosts(random, secret, review):
    host = random.choice(_HOSTS)
    return Attack(f"host {host[:20]!r}", (head(b"GET", b"/", host=host),))


def _tokens(random, secret, review):
    """A token that nobody asked for, or one that is odd."""
    given = random.choice(
        (b"Bearer %s", b"Basic %s", b"basic \xff%s", b"Bearer %s" + b"a" * 7000, b"%s", b"Bearer\t%s", b"Digest %s")
    )
    sent = head(b"GET", random.choice((b"/", b"/healthz")), (b"Authorization", given % secret.encode()))
    return Attack("token", (sent,))


def _packed(random, secret, review):
    """A body that would be huge if it were unpacked, for a page."""
    packed = gzip.compress(b" " * 50_000_000, mtime=0)
    where = random.choice((b"/", b"/healthz", b"/style.css"))
    sent = head(b"GET", where, (b"Content-Encoding", b"gzip"), (b"Content-Length", b"%d" % len(packed)))
    return Attack("bomb for a page", (sent, packed))


def _exports(random, secret, review):
    """An export that nobody takes."""
    sent = head(b"GET", random.choice((b"/export.jsonl", b"/export.csv", b"/")))
    return Attack("export left", (sent,), ends=random.choice(("cuts", "resets")), requests=1)


WAYS = (_lists, _lists, _lists, _raw, _places, _places, _hosts, _tokens, _packed, _exports)
