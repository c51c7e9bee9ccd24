"""Tokens: an API key is exchanged for one, and it says who its bearer is."""

from __future__ import annotations

import base64
import json
import stat
import time

import httpx
import jwt
import pytest
import tinker

from muster.sessions.gateway.tokens import ISSUER, Tokens


@pytest.fixture
def tokens(tmp_path):
    return Tokens(tmp_path / "signing.key")


def ask(shared, secret):
    """Return what a route answers to whoever has a secret."""
    return httpx.get(f"{shared.url}/api/v1/sessions", headers={"X-API-Key": secret}, timeout=60)


def token_of(shared):
    answer = httpx.post(f"{shared.url}/api/v1/auth/token", json={}, headers={"X-API-Key": shared.key}, timeout=60)
    return answer.json()["jwt"]


def forged(shared, **changes):
    """Return a token of the Gateway's own form, signed by somebody else."""
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": "muster-api", "sub": "tml:user:team-a", "iat": now, "exp": now + 900}
    return {**claims, "org_id": "team-a", "key": shared.key[:12], **changes}


def test_a_client_is_told_who_it_is(shared):
    told = tinker.RestClient(base_url=shared.url, api_key=shared.key).whoami().result()
    assert (told.user_urn, told.org_urn, told.email) == ("tml:user:team-a", "tml:organization:team-a", None)


def test_a_token_opens_what_its_key_opens_and_is_itself_when_it_is_exchanged(shared):
    token = token_of(shared)
    assert ask(shared, token).status_code == 200
    again = httpx.post(f"{shared.url}/api/v1/auth/token", json={}, headers={"X-API-Key": token}, timeout=60)
    assert again.json()["jwt"] == token


def test_a_token_ends_with_its_key(shared):
    key = shared.run("keys", "create", "team-c").strip()
    token = httpx.post(f"{shared.url}/api/v1/auth/token", json={}, headers={"X-API-Key": key}, timeout=60).json()["jwt"]
    assert ask(shared, token).status_code == 200
    shared.run("keys", "revoke", key[:12])
    refused = ask(shared, token)
    assert (refused.status_code, 'error="invalid_token"' in refused.headers["WWW-Authenticate"]) == (401, True)


def unsigned(claims):
    parts = (json.dumps(each).encode() for each in ({"alg": "none", "typ": "JWT"}, claims))
    return ".".join(base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts) + "."


@pytest.mark.parametrize(
    "token",
    [
        lambda claims, _: unsigned(claims),
        lambda claims, _: jwt.encode(claims, "x" * 64, "HS256"),
        lambda claims, key: jwt.encode({**claims, "exp": claims["iat"] - 91}, key, "HS256"),
        lambda claims, key: jwt.encode({**claims, "aud": "muster-download"}, key, "HS256"),
        lambda claims, key: jwt.encode({**claims, "iss": "passport-other"}, key, "HS256"),
        lambda claims, key: jwt.encode({name: each for name, each in claims.items() if name != "exp"}, key, "HS256"),
        lambda claims, key: jwt.encode({**claims, "key": ["tml-"]}, key, "HS256"),
        lambda claims, key: jwt.encode({**claims, "key": "tml-nobodys1"}, key, "HS256"),
        lambda claims, key: jwt.encode({**claims, "long": "x" * 5000}, key, "HS256"),
        lambda _claims, _key: "eyJ",
        lambda _claims, _key: "eyJhbGciOiJIUzI1NiJ9.e30.",
    ],
    ids=[
        "no algorithm",
        "another key",
        "over",
        "for downloads",
        "of another issuer",
        "without an end",
        "with a list",
        "of no key",
        "very long",
        "torn",
        "empty",
    ],
)
def test_a_token_that_is_not_of_this_gateway_opens_nothing(shared, token):
    key = (shared.folder / "signing.key").read_bytes()
    answer = ask(shared, token(forged(shared), key))
    assert (answer.status_code, bool(answer.json()["detail"])) == (401, True)


def test_the_same_token_signed_by_the_gateway_would_open(shared):
    key = (shared.folder / "signing.key").read_bytes()
    assert ask(shared, jwt.encode(forged(shared), key, "HS256")).status_code == 200


def test_a_client_whose_token_was_refused_exchanges_its_key_again(shared):
    rest = tinker.RestClient(base_url=shared.url, api_key=shared.key)
    rest.list_sessions().result()
    rest.holder._default_auth._token = jwt.encode(forged(shared), "x" * 64, "HS256")
    assert rest.whoami().result().user_urn == "tml:user:team-a"
    assert isinstance(rest.list_sessions().result().sessions, list)


def test_the_key_is_made_once_and_nobody_else_may_read_it(tokens, tmp_path):
    file = tmp_path / "signing.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert Tokens(file).read("api", tokens.issue("api", "somebody", 60))["sub"] == "somebody"
    assert [each.name for each in tmp_path.iterdir()] == ["signing.key"]


def test_a_key_that_others_may_read_is_not_used(tokens, tmp_path):
    (tmp_path / "signing.key").chmod(0o640)
    with pytest.raises(PermissionError, match="others may read this key"):
        Tokens(tmp_path / "signing.key")
