"""Bodies whose length, encoding or pieces are wrong, huge or contradictory."""

from __future__ import annotations

import gzip
import zlib

from tests.fuzz.wire.attacks import JSON, PATHS, Attack, head

__all__ = ["WAYS"]

_LENGTHS = (
    *(b"0", b"-1", b"+5", b"0x10", b"1e3", b"1_000", b"5, 5", b"5,6", b" 5", b"5 ", b"\xd9\xa1", b"", b"a", b"\x005"),
    *(
        b"7340033",
        b"99999999999",
        b"9" * 19,
        b"18446744073709551615",
        b"18446744073709551616",
        b"9" * 5000,
        b"00000000005",
    ),
)
_CODINGS = (
    *(
        b"chunked",
        b"Chunked",
        b"identity",
        b"gzip, chunked",
        b"chunked, gzip",
        b"chunked, chunked",
        b"xchunked",
        b"chunked ",
    ),
    *(
        b"\x0bchunked",
        b"chunked\x00",
        b"chunked;a=b",
        b"",
        b",chunked",
        b'"chunked"',
        b"chunked\r\nTransfer-Encoding: identity",
    ),
)
_SIZES = (
    *(b"-1", b"0x5", b"5 ", b" 5", b"\t5", b"g", b"", b"ffffffffffffffff", b"10000000000000000", b"7fffffff", b"5_0"),
    *(
        b"5;a=b",
        b"5;" + b"x" * 300,
        b"5;" + b"x" * 60_000,
        b'5;a="\r\n"',
        b"5;\x00",
        b"5;\n",
        b"00000000000000005",
        b"5\r",
    ),
)
_TRAILERS = (
    *(
        b"",
        b"X: y\r\n",
        b"Content-Length: 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"X\r\n",
        b": y\r\n",
        b"X: \x00\r\n",
    ),
    *(b"Host: b\r\n", b"X: y\r\n" * 100, b"X: y\r\n" * 20_000, b"X: " + b"y" * 9000 + b"\r\n"),
)
_NEXT = head(b"GET", b"/smuggled")


def _post(where, *headers):
    return head(b"POST", where.encode(), JSON, *headers)


def _lengths(random, secret, review):
    """Content-Length that is no number, or not that of the body; one that promises more is cut."""
    given, where = random.choice(_LENGTHS), random.choice(PATHS)
    sent = _post(where, (b"Content-Length", given)) + random.choice((b"", b"{}", b"hello", secret.encode()))
    return Attack(f"length {given[:24]!r}", (sent,), ends="cuts", requests=2)


def _twice(random, secret, review):
    """Two lengths, or a length beside chunks: another reader of the bytes would see another request."""
    body = b"0\r\n\r\n" + _NEXT
    wrong = random.choice(
        (
            ((b"Content-Length", b"%d" % len(body)), (b"Transfer-Encoding", random.choice(_CODINGS))),
            ((b"Transfer-Encoding", b"chunked"), (b"Content-Length", b"%d" % len(body))),
            ((b"Content-Length", b"5"), (b"Content-Length", b"%d" % len(body))),
            ((b"Content-Length", b"5"), (b"Content-Length", b"5")),
            ((b"Transfer-Encoding", b"chunked"), (b"Transfer-Encoding", b"identity")),
            (b"Content-Length : %d" % len(body), (b"Transfer-Encoding", b"chunked")),
            (b"Transfer-Encoding\t: chunked", (b"Content-Length", b"%d" % len(body))),
            (b"Transfer-Encoding:\r\n chunked", (b"Content-Length", b"%d" % len(body))),
            (b"X: y\nTransfer-Encoding: chunked", (b"Content-Length", b"%d" % len(body))),
        )
    )
    version = random.choice((b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"))
    sent = head(b"POST", random.choice(PATHS).encode(), JSON, *wrong, version=version) + body
    return Attack("two lengths", (sent,), ends="cuts", further={"smuggled": True})


def _codings(random, secret, review):
    given = random.choice(_CODINGS)
    sent = _post(random.choice(PATHS), (b"Transfer-Encoding", given)) + b"2\r\n{}\r\n0\r\n\r\n"
    return Attack(f"coding {given[:20]!r}", (sent,), ends="cuts", requests=2)


def _chunks(random, secret, review):
    """Chunks with odd sizes, extensions and ends."""
    size = random.choice(_SIZES)
    end = random.choice((b"\r\n", b"\n", b"\r", b"", b"\r\r\n"))
    trailer = random.choice(_TRAILERS)
    body = size + b"\r\n" + b"hello" + end + b"0\r\n" + trailer + random.choice((b"\r\n", b"\n", b""))
    sent = _post(random.choice(PATHS), (b"Transfer-Encoding", b"chunked")) + body
    return Attack(f"chunk {size[:12]!r}, trailer {trailer[:12]!r}", (sent,), ends="cuts", requests=2)


def _crumbs(random, secret, review):
    """A good review in chunks of a few bytes, with extensions or trailers."""
    (body, uid), width = review(), random.choice((1, 2, 7, 1000))
    extension = random.choice((b"", b"", b";a=b", b";" + b"x" * 20))
    crumbs = b"".join(
        b"%x%s\r\n%s\r\n" % (len(piece), extension, piece)
        for piece in (body[at : at + width] for at in range(0, len(body), width))
    )
    trailer = random.choice((b"", b"X: y\r\n"))
    sent = _post("/mutate/trainjobs", (b"Transfer-Encoding", b"chunked")) + crumbs + b"0\r\n" + trailer + b"\r\n"
    return Attack(f"crumbs of {width}", (sent,), reviews=(uid,), recorded=(uid,))


def _trailers(random, secret, review):
    """Trailers without an end behind a small body."""
    line = random.choice((b"a:\r\n", b"X: %s\r\n" % secret.encode(), b"X%d: y\r\n"))
    sent = _post("/mutate/trainjobs", (b"Transfer-Encoding", b"chunked")) + b"2\r\n{}\r\n0\r\n"
    return Attack("trailers without end", (sent, *[line * 2000] * random.choice((1, 20))), ends="cuts")


def _bombs(random, secret, review):
    """A body that would be huge if it were unpacked."""
    coding = random.choice(
        (b"gzip", b"deflate", b"br", b"zstd", b"x-gzip", b"gzip, gzip", b"identity", b"compress", b"*")
    )
    plain = b" " * random.choice((1000, 20_000_000))
    packed = gzip.compress(plain, mtime=0) if random.random() < 0.5 else zlib.compress(plain)
    if random.random() < 0.3:
        packed = gzip.compress(packed * 10, mtime=0)
    where = random.choice((*PATHS, "/healthz", "/metrics"))
    sent = head(b"POST", where.encode(), JSON, (b"Content-Encoding", coding), (b"Content-Length", b"%d" % len(packed)))
    return Attack(f"bomb {coding!r}", (sent + packed,))


def _waits(random, secret, review):
    """Whoever asks whether a body is wanted is told so, or gets the answer at once."""
    (body, uid), wrong = review(), random.random() < 0.3
    asked = (b"Expect", b"100-continue")
    if wrong:
        sent = _post("/mutate/trainjobs", (b"Content-Length", b"99999999"), asked)
        return Attack("expects, too large", (sent,))
    sent = _post("/mutate/trainjobs", (b"Content-Length", b"%d" % len(body)), asked)
    return Attack("expects", (sent, body), reviews=(uid,), recorded=(uid,), further={"continue": True})


def _ends(random, secret, review):
    """A body that ends too early, by an end or a reset."""
    body, _ = review()
    cut = random.randint(0, len(body) - 1)
    sent = _post(random.choice(PATHS), (b"Content-Length", b"%d" % len(body))) + body[:cut]
    return Attack("body cut", (sent,), ends=random.choice(("cuts", "resets")))


def _huge(random, secret, review):
    """More than a body may have, announced or not."""
    size = 8 * 1024 * 1024
    if random.random() < 0.5:
        sent = _post(random.choice(PATHS), (b"Content-Length", b"%d" % size))
        return Attack("too large, announced", (sent, b"x" * 100_000))
    sent = _post(random.choice(PATHS), (b"Transfer-Encoding", b"chunked"))
    chunk = b"20000\r\n" + b" " * 0x20000 + b"\r\n"
    return Attack("too large, in chunks", (sent, *[chunk] * (size // 0x20000)))


def _asides(random, secret, review):
    """A body for a path that wants none."""
    where, size = random.choice((*("/healthz", "/metrics", "/nothing"), PATHS[0])), random.choice((5, 5000, 3_000_000))
    method = random.choice((b"GET", b"POST", b"PUT", b"HEAD"))
    sent = head(method, where.encode(), (b"Content-Length", b"%d" % size)) + b"x" * size
    return Attack("body for none", (sent,), bare=method == b"HEAD")


WAYS = (_lengths, _twice, _twice, _codings, _chunks, _chunks, _crumbs, _trailers, _bombs, _waits, _ends, _huge, _asides)
