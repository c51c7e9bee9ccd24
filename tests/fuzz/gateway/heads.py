"""Attacks by how a request is framed: its first line, its headers, its length."""

from __future__ import annotations

from tests.fuzz.gateway.requests import Request, drawn, rendered
from tests.fuzz.gateway.wire import Sent

__all__ = ["ATTACKS"]

REFUSED = frozenset({400, 401, 403, 404, 405, 408, 409, 410, 411, 413, 414, 415, 417, 422, 426, 429, 431, 501, 505})
LENGTHS = ("-1", "+{n}", "{n}, {n}", "0x10", "1e3", "{n} ", " {n}", "", "9" * 40, "{n}\t", "٣", "{n};", "'{n}'", "0{n}")
CODINGS = (
    "chunked",
    "Chunked",
    "chunked, chunked",
    "identity",
    "chunked, identity",
    "gzip, chunked",
    "xchunked",
    "chunked;q=1",
    "\tchunked",
    "chunked\x0b",
    '"chunked"',
    "",
)
METHODS = (
    "get",
    "TRACE",
    "CONNECT",
    "OPTIONS",
    "PATCH",
    "PRI",
    "PROPFIND",
    "X" * 300,
    "GE\tT",
    "",
    "P\x00ST",
    "PURGE",
    "HEAD",
    "DELETE",
    "PUT",
)
TARGETS = (
    "*",
    "http://elsewhere/api/v1/healthz",
    "//elsewhere/api/v1/healthz",
    "gateway:80",
    "/api/v1/../v1/healthz",
    "/api/v1/%2e%2e/v1/sessions",
    "/api/v1//sessions",
    "/api/v1/sessions%2f",
    "/api/v1/sessions%00",
    "/api/v1/sessions\x00",
    "/api/v1/sessions#a",
    "/api/v1/healthz/../sessions",
    "/api/v1/healthz;x=/../sessions",
    "/api/v1/healthz%2f..%2fsessions",
    "/api/v1/download/../sessions",
    "/api/v1/sessions?" + "a=b&" * 1000,
    "/api/v1/sessions?limit=" + "9" * 5000,
    "/" + "a" * 70_000,
    "/api/v1/sessions?%ff%fe",
    "/api/v1/ses\xe9ions",
    "sessions",
    "",
    " /api/v1/sessions",
    "\\api\\v1\\sessions",
)
NAMES = (
    "X-API-Key ",
    " X-API-Key",
    "X-API-Key\t",
    "X API",
    "X:API",
    "",
    "\x00",
    "X-\xe9",
    "X" * 9000,
    "Content-Length ",
    "(x)",
)
VALUES = (
    "\x00",
    "a\rb",
    "a\nb",
    "a\r\n b",
    "\x7f",
    "\xff" * 50,
    "x" * 9000,
    "x" * 200_000,
    "\x1b[31m",
    "%0d%0aSet-Cookie: a=b",
)
ENCODINGS = ("gzip", "br", "deflate", "zstd, zstd", "identity", "x", "ZSTD", "zstd")
TYPES = (
    "application/x-protobuf",
    "text/html; charset=utf-7",
    "multipart/form-data; boundary=a",
    "application/json; charset=nonsense",
    "x" * 5000,
)
WEBSOCKET = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
SMUGGLED = b"GET /api/v1/get_server_capabilities HTTP/1.1\r\nHost: gateway\r\nX-API-Key: %s\r\n\r\n"


def length(rng, world, seq):
    """A length that is none, or two of them."""
    request = drawn(rng, world.mine, seq, posts=True)
    value = rng.choice(LENGTHS).format(n=len(request.body))
    lines = [("Content-Length", value)]
    if rng.random() < 0.5:
        lines.insert(rng.randrange(2), ("Content-Length", str(rng.choice([0, len(request.body), 5]))))
    return [Sent([(rendered(request, world.key, lines, length=False))], whole=False, end="read")]


def smuggled(rng, world, seq):
    """A request within the body of another, by a length and a coding that say different things."""
    inner = SMUGGLED % world.key.encode()
    coding = rng.choice(CODINGS)
    name = rng.choice(
        (
            "Transfer-Encoding",
            "transfer-encoding",
            "Transfer-Encoding ",
            " Transfer-Encoding",
            "Transfer_Encoding",
            "X\nTransfer-Encoding",
        )
    )
    chunks = b"0\r\n\r\n" if rng.random() < 0.5 else b"%x\r\n%b\r\n0\r\n\r\n" % (2, b"{}")
    body = chunks + inner
    said = rng.choice([len(body), len(chunks), 0, 2, 4])
    lines = [("Content-Length", str(said)), (name, coding)]
    rng.shuffle(lines)
    request = Request("POST", "/api/v1/client/config", body)
    # However it is framed, what follows the first request is at most one more; and with both there is one answer.
    clean = name.lower() == "transfer-encoding"
    return [Sent([(rendered(request, world.key, lines, length=False))], most=1 if clean else 2, whole=False)]


def chunked(rng, world, seq):
    """Odd chunks."""
    request = drawn(rng, world.mine, seq, posts=True)
    body, size = request.body, len(request.body)
    forms = [
        b"%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"%X;ext=1\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"%x;%b\r\n%b\r\n0\r\n\r\n" % (size, b"a" * 9000, body),
        b"000000%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"-%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"+%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"0x%x\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"%x\r\n%b0\r\n\r\n" % (size, body),
        b"%x\n%b\n0\n\n" % (size, body),
        b" %x\r\n%b\r\n0\r\n\r\n" % (size, body),
        b"%x \r\n%b\r\n0\r\n\r\n" % (size, body),
        b"f" * 17 + b"\r\n" + body,
        b"7fffffffffffffff\r\n" + body,
        b"%x\r\n%b\r\n0\r\nX-API-Key: other\r\nContent-Length: 5\r\n\r\n" % (size, body),
        b"%x\r\n%b\r\n0\r\n" % (size, body) + b"X-A: b\r\n" * 5000 + b"\r\n",
        b"".join(b"1\r\n%c\r\n" % each for each in body) + b"0\r\n\r\n",
        b"".join(b"1;a=b\r\n%c\r\n" % each for each in body) + b"0\r\n\r\n",
        b"\r\n\r\n",
        b"zz\r\n",
        b"",
    ]
    form = rng.choice(forms)
    head = rendered(request, world.key, [("Transfer-Encoding", "chunked")], length=False)
    head = head[: len(head) - size] if size else head
    return [Sent([head, form] if rng.random() < 0.5 else [head + form], whole=False)]


def first_line(rng, world, seq):
    """An odd method, target or version."""
    request = drawn(rng, world.mine, seq)
    which = rng.randrange(3)
    if which == 0:
        request.method = rng.choice(METHODS)
    elif which == 1:
        request.path = rng.choice(TARGETS)
    data = rendered(request, world.key)
    if which == 2:
        version = rng.choice(
            (b"HTTP/0.9", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.10", b"HTTP/9.9", b"http/1.1", b"", b"HTTP/1.1 x")
        )
        data = data.replace(b"HTTP/1.1", version, 1)
    return [Sent([(data)], whole=False, heads=request.method == "HEAD")]


def header(rng, world, seq):
    """An odd header, very many, or one twice."""
    request = drawn(rng, world.mine, seq)
    data = rendered(request, world.key)
    at = data.index(b"\r\n") + 2
    lines = [
        lambda: f"{rng.choice(NAMES)}: x\r\n",
        lambda: f"X-A: {rng.choice(VALUES)}\r\n",
        lambda: "X-A: b\r\n" * rng.choice([100, 3000, 30_000]),
        lambda: "".join(f"X-{number}: b\r\n" for number in range(rng.choice([100, 3000]))),
        lambda: "Host: other\r\n",
        lambda: f"X-API-Key: {world.theirs['odd_key']}\r\n",
        lambda: f"Content-Encoding: {rng.choice(ENCODINGS)}\r\n",
        lambda: f"Content-Type: {rng.choice(TYPES)}\r\n",
        lambda: "Expect: 100-continue\r\n",
        lambda: f"Expect: {rng.choice(['200-ok', '100-continue, x', 'x' * 5000])}\r\n",
        lambda: WEBSOCKET,
        lambda: "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: Upgrade, HTTP2-Settings\r\n",
        lambda: f"Connection: {rng.choice(['close', 'keep-alive', 'x, close', 'Content-Length', 'x' * 5000])}\r\n",
        lambda: f"Cookie: {'a=b; ' * 1000}\r\n",
        lambda: f"X-Idempotency-Key: {rng.choice(VALUES[4:])}\r\n",
        lambda: f"Range: {rng.choice(['bytes=0-1', 'bytes=' + '0-,' * 2000, 'x'])}\r\n",
        lambda: "If-Modified-Since: x\r\nIf-None-Match: *\r\n",
        lambda: f"X-Forwarded-Host: evil\r\nForwarded: host=evil\r\nX-Forwarded-Proto: {'x' * 100}\r\n",
        lambda: "no colon here\r\n",
        lambda: "\r\n",
        lambda: ": x\r\n",
    ]
    added = rng.choice(lines)()
    return [Sent([data[:at] + added.encode("latin-1", "replace") + data[at:]], most=2, whole=False)]


def key(rng, world, seq):
    """A key or token of an odd form."""
    request = drawn(rng, world.mine, seq)
    forms = [
        "",
        "x" * 60_000,
        "tml-" + "\xff" * 40,
        world.key[:-1],
        world.key.upper(),
        world.key + " ",
        f"{world.key},{world.key}",
        "eyJ",
        "eyJ" + "." * 500,
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ0bWw6dXNlcjp2aWN0aW0ifQ.",
        world.token[:-2],
        world.token.replace(".", "..", 1),
        "eyJhbGciOiJSUzI1NiJ9." + world.token.split(".", 1)[1],
        "'; DROP TABLE keys; --",
        "%00",
        "\x01",
    ]
    one = rng.choice(forms)
    open_ = request.path == "/api/v1/healthz"
    valid = one.strip() == world.key
    statuses = frozenset() if open_ or valid else frozenset({400, 401, 403, 431})
    return [Sent([(rendered(request, one))], whole=False, statuses=statuses)]


ATTACKS = (length, smuggled, chunked, first_line, header, key)
