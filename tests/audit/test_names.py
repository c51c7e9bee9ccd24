from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.webhook.audit.redaction import secret_names

SECRET = [
    "HF_TOKEN",
    "HFTOKEN",
    "HF_TOKEN_2",
    "token2",
    "--hub_token",
    "hubToken",
    "hub-token",
    "WANDB_API_KEY",
    "wandbApiKey",
    "WANDBAPIKEY",
    "x-api-key",
    "apikey",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "AccountKey",
    "OPENAI_KEY",
    "PRIVATE_KEY",
    "PGPASSWORD",
    "MYSQL_PWD",
    "DB_PASS",
    "SSH_PASSPHRASE",
    "GITHUB_PAT",
    "Authorization",
    "authToken",
    "auth",
    "basicAuth",
    "OAuth2Token",
    "COOKIE",
    "credentials",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "MAX_SECRET_TOKENS",
    "API_TOKENS",
    "PAD_API_KEY_TOKEN",
    "X-Amz-Signature",
    "wandb.api_key",
    "--hub_tok",
    "--hub-t",
    "--api_ke",
    "access_token_id",
]

PLAIN = [
    "TOKENIZERS_PARALLELISM",
    "tokenizer_name",
    "PET_MASTER_ADDR",
    "PET_NNODES",
    "NCCL_DEBUG",
    "PAD_TOKEN",
    "eos_token_id",
    "--max_new_tokens",
    "max_num_batched_tokens",
    "MAX_TOKENS",
    "num_virtual_tokens",
    "GIT_AUTHOR_NAME",
    "author",
    "PWD",
    "OLDPWD",
    "PATH",
    "key",
    "topologyKey",
    "sort_key",
    "bypass",
    "keyboard",
    "monkey",
    "signature_columns",
    "model_name_or_path",
    "PYTHONPATH",
    "compass",
    "--token_budget",
    "tokens_per_second",
    "--long-prefill-token-threshold",
    "decoder_start_token_id",
    "--think_end_token",
    "--hub_strategy",
]


@pytest.mark.parametrize("name", SECRET)
def test_a_name_that_announces_a_secret_is_secret(name):
    assert secret_names.is_secret(name)


@pytest.mark.parametrize("name", PLAIN)
def test_a_name_that_only_resembles_one_is_not(name):
    assert not secret_names.is_secret(name)


COUNTED = """
    added average batched cached completion context draft generated input kv logprobs max min n new num number output
    placeholder prefill prompt special stop threshold total virtual
"""
OF_TEXT = "bos cls eos mask pad sep unk audio delimiter end image multi per start template think video"
MEASURED = """
    accuracy budget classification count embedding embeddings entropy id ids length limit logprobs loss mask merge
    parallelism per rate seen threshold type usage
"""
OWNERS = "access api auth bearer github gitlab hf hub refresh secret session"
HOLDERS = """
    access account admin anthropic api app auth aws azure client cohere comet crypt deploy encryption gemini gpg hf hmac
    huggingface license master minio neptune ngc openai pgp private registry root rsa s3 secret service session shared
    signing ssh storage subscription tls wandb webhook
"""


@pytest.mark.parametrize(
    "name",
    [
        *(f"{word}_tokens" for word in COUNTED.split()),
        *(f"{word}_token" for word in OF_TEXT.split()),
        *(f"token_{word}" for word in MEASURED.split()),
    ],
)
def test_a_token_that_is_a_piece_of_text_is_no_secret(name):
    assert not secret_names.is_secret(name)
    assert not secret_names.is_secret(name.upper())


@pytest.mark.parametrize(
    "name", [*(f"{word}_token_id" for word in OWNERS.split()), *(f"{word}_key" for word in HOLDERS.split())]
)
def test_what_belongs_to_an_account_is_a_secret(name):
    assert secret_names.is_secret(name)
    assert secret_names.is_secret(name.upper())


@settings(deadline=None)
@given(
    st.sampled_from(["token", "secret", "password", "api_key", "private_key"]),
    st.sampled_from(["", "hf", "wandb", "my"]),
)
def test_spelling_does_not_matter(word, prefix):
    snake = f"{prefix}_{word}" if prefix else word
    camel = "".join(part.title() for part in snake.split("_"))
    assert all(secret_names.is_secret(name) for name in (snake, snake.upper(), snake.replace("_", "-"), camel))


@settings(deadline=None)
@given(st.lists(st.sampled_from([*SECRET, *PLAIN, "x", "2"]), min_size=1, max_size=4), st.sampled_from("_-."))
def test_every_secret_name_holds_a_hint(parts, separator):
    name = separator.join(parts)
    assert not secret_names.is_secret(name) or any(hint in name.lower() for hint in secret_names.HINTS)


def test_a_name_too_long_to_remember_is_still_judged():
    assert secret_names.is_secret("A_" * 5000 + "TOKEN")
    assert not secret_names.is_secret("A_" * 5000 + "B")
