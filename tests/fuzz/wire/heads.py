"""Heads of requests that are wrong, huge or odd."""

from __future__ import annotations

from tests.fuzz.wire.attacks import HEALTH, JSON, PATHS, Attack, head

__all__ = ["WAYS"]

_METHODS = (
    *(b"GET", b"HEAD", b"OPTIONS", b"TRACE", b"CONNECT", b"PUT", b"DELETE", b"PATCH", b"PRI", b"PROPFIND", b"get"),
    *(b"G\x00T", b"G ET", b"", b"\xff\xfe", b"POST" * 2000, b"M-SEARCH", b"UNSUBSCRIBE", b"\x16\x03\x01", b"GET\t"),
)
_VERSIONS = (
    *(b"HTTP/1.0", b"HTTP/0.9", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/11.1", b"HTTP/1.1 ", b"http/1.1", b"HTTP/1.", b""),
    *(b"HTTP/-1.1", b"HTTP/1.1\x00", b"HTTP/9999999999.1", b"ICE/1.0", b"RTSP/1.0", b"HTTPS/1.1"),
)
_TARGETS = (
    *(b"//mutate/trainjobs", b"/mutate//trainjobs", b"/mutate/../healthz", b"/./healthz", b"/%2e%2e/%2e%2e/etc/passwd"),
    *(b"/healthz%00", b"/healthz\x00", b"/%6dutate/trainjobs", b"/mutate%2ftrainjobs", b"/mutate/trainjobs?dry=1"),
    *(b"*", b"", b"healthz", b"?", b"#", b"/#/healthz", b"/healthz#a", b"/healthz?a=%", b"/%", b"/%zz", b"/%ff%fe"),
    *(
        b"http://localhost/healthz",
        b"https://evil.example/mutate/trainjobs",
        b"http://[::1/healthz",
        b"http://",
        b"ftp://a/b",
    ),
    *(
        b"http://a:99999/healthz",
        b"http://a:b@c:d@e/healthz",
        b"//evil.example/healthz",
        b"\\healthz",
        b"/\\..\\healthz",
    ),
    *(
        "/helthz/\u00fc".encode(),
        "/\ud7ff/\U0001f600".encode(),
        b"/\xed\xa0\x80",
        b"/healthz;a=b",
        b"/HEALTHZ",
        b"/healthz/",
    ),
    *(b"localhost:443", b"a" * 300, b"/" + b"a" * 8000, b"/" + b"a" * 20_000, b"/?" + b"a&" * 3000, b"/" * 4000),
    *(b"/healthz HTTP/1.1\r\nX: y", b"http://xn--\xc3\xbc/healthz", b"javascript:alert(1)", b"/?" + b"%41" * 2000),
)
_LINES = (
    *(b"X", b": x", b" X: y", b"X : y", b"X\t: y", b"X:", b"X: a\r\n b", b"X: a\r\n\tb", b"X: a\rb", b"X: a\nY: b"),
    *(
        b"X: \x00",
        b"X\x00: y",
        b"X: \x7f\x01",
        b"\xff: y",
        b"X: \xff\xfe\xfd",
        b"X: \xed\xa0\x80",
        b"(X): y",
        b"X,Y: z",
    ),
    *(b"Host: other", b"Host: a\r\nHost: b", b"Host:", b"Connection: close, keep-alive", b"Connection: \xff"),
    *(b"Connection: upgrade\r\nUpgrade: websocket", b"Connection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AA"),
    *(b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAA\r\nSec-WebSocket-Version: 13",),
    *(b"Sec-WebSocket-Key1: a", b"Keep-Alive: timeout=99999999999", b"Range: bytes=0-0,1-1,2-2", b"TE: trailers"),
    *(b"Expect: 100-continue", b"Expect: 200-ok", b"Expect: 100-continue, 100-continue", b"Max-Forwards: 0"),
    *(b"Accept: text/html", b"If-None-Match: *", b"X-Forwarded-For: 127.0.0.1", b"Cookie: " + b"a=b;" * 1900),
    *(b"X-HTTP-Method-Override: DELETE", b"Proxy-Connection: keep-alive", b"Content-Type: a\r\nContent-Type: b"),
)
_TYPES = (
    *(
        b"application/json; charset=utf-16",
        b"application/json;charset=\xff",
        b"APPLICATION/JSON",
        b"application/json;;;;",
    ),
    *(b'application/json; a="' + b'\\"' * 3000, b"application/json" + b";" * 8000, b"text/json", b"", b"/", b"a/b/c"),
    *(
        b"application/json; a*0=x; a*1=y",
        b"application/json; charset*=utf-8''%e2",
        b"multipart/form-data",
        b"\x01/\x02",
    ),
    *(
        b"application/json, text/html",
        b"application/x-www-form-urlencoded",
        b'application/json; charset="' + b"a" * 7000,
    ),
)


def _secretly(random, secret):
    """Headers with a secret, one of which may be there."""
    value = secret.encode()
    return random.choice(
        (
            (b"Authorization", b"Bearer " + value),
            (b"Cookie", b"session=" + value),
            (b"X-Api-Key", value),
            (b"X Bad", value),
            (b"Referer", b"https://a:%s@b/" % value),
        )
    )


def _methods(random, secret, review):
    method = random.choice(_METHODS)
    target = random.choice((*HEALTH, *PATHS)).encode()
    body = random.choice((b"", b"{}", b"x" * 2000))
    length = ((b"Content-Length", b"%d" % len(body)),) if body or random.random() < 0.5 else ()
    sent = head(method, target, *length, _secretly(random, secret)) + body
    return Attack(f"method {method[:9]!r}", (sent,), requests=2, bare=method == b"HEAD")


def _versions(random, secret, review):
    version = random.choice(_VERSIONS)
    host = random.choice((None, b"localhost"))
    sent = head(b"GET", random.choice(HEALTH).encode(), _secretly(random, secret), version=version, host=host)
    return Attack(f"version {version!r}", (sent,))


def _targets(random, secret, review):
    target = random.choice(_TARGETS)
    method = random.choice((b"GET", b"POST", b"CONNECT", b"OPTIONS"))
    if random.random() < 0.3:
        target += b"/" + secret.encode()
    return Attack(f"target {target[:40]!r}", (head(method, target, (b"Content-Length", b"0")),), requests=2)


def _lines(random, secret, review):
    lines = random.choices(_LINES, k=random.choice((1, 1, 1, 2, 5)))
    where = random.choice((*HEALTH, *PATHS)).encode()
    sent = head(random.choice((b"GET", b"POST")), where, *lines, _secretly(random, secret))
    return Attack(f"line {lines[0][:30]!r}", (sent,), requests=2)


def _floods(random, secret, review):
    """Very many headers, or very long ones, with and without an end."""
    count, size = random.choice(
        ((127, 10), (129, 10), (5000, 5), (100_000, 1), (1, 8100), (1, 8300), (60, 8000), (1, 500_000))
    )
    lines = b"".join(b"X%d: %s\r\n" % (number, b"a" * size) for number in range(count))
    ended = random.random() < 0.5
    first = b"GET /healthz HTTP/1.1\r\nHost: a\r\nCookie: %s\r\n" % secret.encode()
    parts = (first, lines, b"\r\n" if ended else b"X")
    return Attack(f"{count} headers of {size}", parts, ends="reads" if ended else "cuts")


def _drops(random, secret, review):
    """A head in pieces of a byte, or without an end."""
    whole = head(b"GET", b"/healthz", _secretly(random, secret))
    cut = random.randint(1, len(whole))
    parts = tuple(whole[at : at + 1] for at in range(cut))
    return Attack("a byte at a time", parts, ends="reads" if cut == len(whole) else random.choice(("cuts", "resets")))


def _types(random, secret, review):
    """A content type that is odd; the review may be answered or refused."""
    given, (body, _) = random.choice(_TYPES), review()
    sent = head(
        b"POST", random.choice(PATHS).encode(), (b"Content-Type", given), (b"Content-Length", b"%d" % len(body))
    )
    return Attack(f"content type {given[:30]!r}", (sent + body,))


def _pipelines(random, secret, review):
    """Many requests at once."""
    count = random.choice((2, 20, 500, 3000))
    where = random.choice((*HEALTH[:2], "/nothing", PATHS[0])).encode()
    sent = head(b"GET", where) * count
    taken = random.random() < 0.5
    return Attack(f"{count} at once", (sent,), ends="reads" if taken else "cuts", requests=count, awaited=count)


def _garbage(random, secret, review):
    size = random.choice((1, 10, 100, 10_000))
    made = random.randbytes(size) + random.choice((b"", b"\r\n\r\n", b"\n\n", b"\r\n" * 500))
    return Attack("garbage", (made,), ends="cuts", requests=50)


def _blanks(random, secret, review):
    """Lines without anything before a request."""
    blank = random.choice((b"\r\n", b"\n", b"\r\n" * 1000, b"\r\n" * 200_000, b" ", b"\r"))
    return Attack("blank lines", (blank + head(b"GET", b"/healthz"),), requests=1)


def _tunnels(random, secret, review):
    """A tunnel or another protocol, and much for it."""
    first = random.choice(
        (
            head(b"CONNECT", b"localhost:443"),
            head(b"GET", b"/healthz", (b"Connection", b"upgrade"), (b"Upgrade", b"websocket")),
            head(
                b"POST",
                PATHS[0].encode(),
                JSON,
                (b"Connection", b"upgrade"),
                (b"Upgrade", b"websocket"),
                (b"Content-Length", b"2"),
            )
            + b"{}",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        )
    )
    rest = random.choice((b"", b"\x00" * 300_000, head(b"GET", b"/healthz") * 20, secret.encode()))
    return Attack("tunnel", (first, rest), ends="cuts", requests=22)


WAYS = (
    _methods,
    _versions,
    _targets,
    _targets,
    _lines,
    _lines,
    _floods,
    _drops,
    _types,
    _pipelines,
    _garbage,
    _blanks,
    _tunnels,
)
