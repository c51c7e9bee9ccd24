"""Secrets of known shapes, none of them real: drawn from a seed; and how people write one into a value."""

from __future__ import annotations

import base64
import json
import random
import string
from typing import NamedTuple

__all__ = ["FORMS", "Shape", "drawn", "marks"]

_ALNUM = string.ascii_letters + string.digits
_BASE64 = _ALNUM + "+/"
_URL = _ALNUM + "-_"
_HEX = "0123456789abcdef"
_BASE32 = "abcdefghijklmnopqrstuvwxyz234567"


class Shape(NamedTuple):
    """A text with one or more secret parts, none of which may come out."""

    text: str
    parts: tuple[str, ...]


def _pieces(draw):
    """The templates by name: each is the texts between the drawn parts, and the alphabet and length of those."""

    def some(length, alphabet=_ALNUM):
        return alphabet, length

    def pem(kind, lines=4):
        body = [("\n" if number else "", some(64, _BASE64)) for number in range(lines)]
        return [f"-----BEGIN {kind}-----\n", *(part for pair in body for part in pair), f"\n-----END {kind}-----\n"]

    key = base64.b64encode(
        f"-----BEGIN EC PRIVATE KEY-----\n{draw.text(_BASE64, 64)}\n-----END EC PRIVATE KEY-----\n".encode()
    )
    prefixed = {
        "AWS access key": ("AKIA", 16, string.ascii_uppercase + "234567"),
        "AWS session key": ("ASIA", 16, string.ascii_uppercase + "234567"),
        "GitHub personal": ("ghp_", 36, _ALNUM),
        "GitHub OAuth": ("gho_", 36, _ALNUM),
        "GitHub server": ("ghs_", 36, _ALNUM),
        "GitHub fine-grained": ("github_pat_11", 80, _ALNUM),
        "GitLab personal": ("glpat-", 20, _URL),
        "GitLab deploy": ("gldt-", 20, _URL),
        "Hugging Face": ("hf_", 34, string.ascii_letters),
        "W&B": ("", 40, _HEX),
        "W&B v1": ("wandb_v1_", 60, _ALNUM),
        "Tinker": ("tml-", 48, _ALNUM),
        "Google OAuth client": ("GOCSPX-", 28, _URL),
        "Google API": ("AIza", 35, _URL),
        "Google access": ("ya29.", 60, _URL),
        "Azure DevOps": ("", 52, _BASE32),
        "npm": ("npm_", 36, _ALNUM),
        "PyPI": ("pypi-AgEIcHlwaS5vcmc", 100, _URL),
        "OpenAI": ("sk-", 48, _ALNUM),
        "OpenAI project": ("sk-proj-", 100, _URL),
        "Anthropic": ("sk-ant-api03-", 90, _URL),
        "Stripe": ("sk_live_", 24, _ALNUM),
        "Stripe restricted": ("rk_live_", 24, _ALNUM),
        "Stripe webhook": ("whsec_", 32, _ALNUM),
        "Twilio API": ("SK", 32, _HEX),
        "Docker": ("dckr_pat_", 27, _URL),
        "Vault": ("hvs.", 90, _URL),
        "NVIDIA": ("nvapi-", 64, _URL),
        "Groq": ("gsk_", 52, _ALNUM),
        "Replicate": ("r8_", 37, _ALNUM),
        "xAI": ("xai-", 80, _ALNUM),
        "Perplexity": ("pplx-", 48, _HEX),
        "DigitalOcean": ("dop_v1_", 64, _HEX),
        "Databricks": ("dapi", 32, _HEX),
        "Grafana": ("glsa_", 32, _ALNUM),
        "Atlassian": ("ATATT3", 60, _URL),
        "OpenRouter": ("sk-or-v1-", 64, _HEX),
        "Langfuse": ("sk-lf-", 36, _HEX + "-"),
        "Fireworks": ("fw_", 24, _ALNUM),
        "Together": ("tgp_v1_", 43, _URL),
        "Anyscale": ("aph0_CkYw", 60, _ALNUM),
        "Jina": ("jina_", 60, _ALNUM),
        "Modal": ("as-", 22, _ALNUM),
        "Kaggle": ("KGAT_", 32, _HEX),
        "ElevenLabs": ("sk_", 48, _HEX),
        "Hugging Face of an organization": ("api_org_", 34, string.ascii_letters),
        "Bedrock": ("ABSK", 128, _BASE64),
        "AWS session token": ("IQoJb3JpZ2luX2Vj", 400, _BASE64),
        "Google Gemini": ("AQ.Ab8", 47, _URL),
        "Docker of an organization": ("dckr_oat_", 32, _URL),
        "Pulumi": ("pul-", 40, _HEX),
        "Sentry of a user": ("sntryu_", 64, _HEX),
        "OpenSSH without its lines": ("b3BlbnNzaC1rZXktdjEAAAAA", 300, _BASE64),
    }
    yield from ((name, [prefix, (alphabet, size)]) for name, (prefix, size, alphabet) in prefixed.items())
    yield "PKCS 8", pem("PRIVATE KEY")
    yield "RSA", pem("RSA PRIVATE KEY")
    yield "OpenSSH", pem("OPENSSH PRIVATE KEY", 6)
    yield "PGP", pem("PGP PRIVATE KEY BLOCK")
    yield "kubeconfig with a token", ["users:\n- name: me\n  user:\n    token: ", some(40), "\n"]
    yield "kubeconfig with a key", ["users:\n- user:\n    client-key-data: ", key.decode(), "\n"]
    yield "AWS secret key", ["AWS_SECRET_ACCESS_KEY=", some(40, _BASE64)]
    account = '{"type":"service_account","private_key":"-----BEGIN PRIVATE KEY-----\\n'
    yield "GCP service account", [account, some(64, _BASE64), '\\n-----END PRIVATE KEY-----\\n"}']
    yield "Slack bot", ["xoxb-", some(11, string.digits), "-", some(12, string.digits), "-", some(24)]
    yield "Slack app", ["xapp-1-A", some(9, string.ascii_uppercase), "-", some(13, string.digits), "-", some(64, _HEX)]
    yield "Slack webhook", ["https://hooks.slack.com/services/T0AB/B0AB/", some(24)]
    yield "Azure client secret", [some(3), "8Q~", some(34, _ALNUM + "._-")]
    account = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey="
    yield "Azure storage connection", [account, some(86, _BASE64), "==;EndpointSuffix=core.windows.net"]
    yield "Azure storage key", [some(86, _BASE64), "=="]
    yield "Azure SAS", ["https://a.blob.core.windows.net/c?sv=2024-01-01&sig=", some(43), "%3D"]
    yield "Azure DevOps of 2024", [some(76), "AZDO", some(4)]
    yield "SendGrid", ["SG.", some(22, _URL), ".", some(43, _URL)]
    yield "Telegram", [some(10, "123456789"), ":AA", some(33, _URL)]
    yield "JWT", ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIi", some(20, _URL), ".", some(43, _URL)]
    yield "URL with a password", ["https://me:", some(20), "@host.example/x.git"]
    yield "database", ["postgresql://me:", some(20), "@db.example:5432/x"]
    yield "docker config", ['{"auths":{"ghcr.io":{"auth":"', some(32), '"}}}']
    yield "bearer", ["Authorization: Bearer ", some(40)]


class _Draw:
    def __init__(self, seed):
        self._random = random.Random(seed)  # noqa: S311  # they are none

    def text(self, alphabet, length):
        return "".join(self._random.choices(alphabet, k=length))


def drawn(seed):
    """The shapes by name; the same for one seed."""
    draw, found = _Draw(seed), {}
    for name, pieces in _pieces(draw):
        told = [draw.text(*piece) if isinstance(piece, tuple) else piece for piece in pieces]
        parts = [text for piece, text in zip(pieces, told, strict=True) if isinstance(piece, tuple) and len(text) > 12]
        parts = parts or [text for text in told if len(text) > 100]  # a key that is drawn whole
        found[name] = Shape("".join(told), tuple(parts))
    return found


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


def _url(text):
    return f"https://me:{text.translate(str.maketrans('/?# @', '-----'))}@host.example"


FORMS = {
    "plain": lambda x: [x],
    "base64": lambda x: [_encoded(x)],
    "base64url": lambda x: [base64.urlsafe_b64encode(x.encode()).decode()],
    "base64 without padding": lambda x: [_encoded(x).rstrip("=")],
    "base64 in lines": lambda x: [base64.encodebytes(x.encode()).decode()],
    "base64 of an assignment": lambda x: [_encoded(f"HF_TOKEN={x}")],
    "base64 of a URL": lambda x: [_encoded(_url(x.replace("\n", "")))],
    "--opt=X": lambda x: [f"--opt={x}"],
    "--opt X": lambda x: ["--opt", x],
    "--opt=base64": lambda x: [f"--opt={_encoded(x)}"],
    "--opt base64": lambda x: ["--opt", _encoded(x)],
    "assignment": lambda x: [f"HF_TOKEN={x}"],
    "shell": lambda x: ["bash", "-c", f"export HF_TOKEN='{x}'; torchrun --nnodes 7 train.py"],
    "shell, base64": lambda x: ["bash", "-c", f"echo {_encoded(x)} | base64 -d > k; torchrun --nnodes 7 train.py"],
    "JSON in a flag": lambda x: [f"--config={json.dumps({'hub': {'any': x}})}"],
    "image": lambda x: [f"me:{x}@registry.example/team/image:1"],
    "path": lambda x: [f"/mnt/{x}/data"],
    "path, base64": lambda x: [f"/mnt/{_encoded(x)}/data"],
}
"""Each returns the words in which a secret is written."""


def marks(shape):
    """What shows that a part came out, whole or cut, plain, in base64, or in base64 of base64."""
    level = [part[4:16] for part in shape.parts] + [part[-14:-2] for part in shape.parts]
    found = set(level)
    for _ in range(2):
        level = [_middle(offset, text) for text in level for offset in range(3)]
        found.update(level)
    return {mark for mark in found if len(mark) >= 8}


def _middle(offset, text):
    """The base64 of a text at an offset, without the ends that depend on its neighbours."""
    encoded = _encoded("x" * offset + text)
    return encoded[(0, 2, 3)[offset] + 2 : -4]
