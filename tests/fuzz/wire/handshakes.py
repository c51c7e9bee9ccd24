"""What is no TLS, old TLS, or TLS that ends in the middle."""

from __future__ import annotations

import itertools
import ssl

from tests.fuzz.wire.attacks import Attack, head

__all__ = ["WAYS", "hello"]

_RECORDS = (
    *(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x16\x03\x01\xff\xff" + b"\x00" * 70_000, b"\x80\x2e\x01\x00\x02"),
    *(
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x17\x03\x03\x00\x10" + b"x" * 16,
        b"\x16\x03\x04\x00\x00",
        b"\x14\x03\x03\x00\x01\x01",
    ),
    *(
        b"\x16\x03\x01\x00\x00" * 1000,
        b"\x15\x03\x03\x00\x02\x01\x00" * 1000,
        b"SSH-2.0-x\r\n",
        b"EHLO a\r\n",
        b"\x05\x01\x00",
    ),
)
_SECRETS = (0, 11, 43, 44, 76, 253, 285, 517)  # every second range: the random, the session, the share of a key
_KINDS = ("old", "client", "alpn", "long", "nobody", "addressed")


def hello(random):
    """The first bytes of a good handshake, whose secrets are those of the seed."""
    gone, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    session = context.wrap_bio(gone, sent, server_hostname="localhost")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        made = sent.read()
        return b"".join(
            random.randbytes(len(part)) if number % 2 else part
            for number, part in enumerate(made[one:two] for one, two in itertools.pairwise(_SECRETS))
        )
    raise AssertionError("nobody answered")


def _plain(random, secret, review):
    """HTTP without TLS at the port of TLS."""
    sent = head(b"GET", b"/healthz", (b"Authorization", b"Bearer " + secret.encode()))
    return Attack("plain HTTP", (sent,), requests=0, tls="")


def _records(random, secret, review):
    made = random.choice((*_RECORDS, random.randbytes(2000)))
    return Attack("records", (made,), ends=random.choice(("cuts", "resets")), requests=0, tls="")


def _begun(random, secret, review):
    """A handshake that is begun, all of it or a part, in pieces or hurt."""
    whole = bytearray(hello(random))
    if random.random() < 0.5:
        for _ in range(random.choice((1, 5))):
            whole[random.randrange(len(whole))] = random.randrange(256)
    whole = bytes(whole[: random.choice((1, 5, 100, len(whole)))])
    parts = tuple(whole[at : at + 1] for at in range(len(whole))) if random.random() < 0.2 else (whole,)
    return Attack("handshake begun", parts, ends=random.choice(("cuts", "resets")), requests=0, tls="")


def _odd(random, secret, review):
    """A handshake of an odd client; what succeeds is served."""
    kind = random.choice(_KINDS)
    return Attack(f"handshake: {kind}", (head(b"GET", b"/healthz"),), requests=1, tls=kind)


def _silent(random, secret, review):
    return Attack("silence", (), ends=random.choice(("cuts", "resets")), requests=0, tls=random.choice(("", "good")))


def _rubbish(random, secret, review):
    """What is no TLS after a good handshake; `raw` goes around the encryption."""
    return Attack(
        "no TLS after a handshake", (head(b"GET", b"/healthz"),), ends="cuts", tls="good", further={"raw": b"x" * 100}
    )


WAYS = (_plain, _records, _begun, _begun, _odd, _odd, _silent, _rubbish)
