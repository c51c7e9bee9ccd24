"""Secrets that are planted in a case and may stand nowhere but in the patch.

Each has random letters, and of these neither the first nor the last 14 may be seen: a cut must not save half of one.
A token of a known form is never glued to a letter or digit before it, since no redaction could tell where it begins.
"""

from __future__ import annotations

import string

__all__ = ["leaks", "plant"]

_LETTERS = string.ascii_letters + string.digits
_NAMES = (
    "HF_TOKEN",
    "WANDB_API_KEY",
    "PASSWORD",
    "DB_PASSWORD",
    "AWS_SECRET_ACCESS_KEY",
    "API_KEY",
    "GITHUB_TOKEN",
    "MY_SECRET",
    "VLLM_API_KEY",
    "HUGGING_FACE_HUB_TOKEN",
)
_FLAGS = (
    "--hub_token",
    "--hub-token",
    "--password",
    "--api-key",
    "--api_key",
    "--hf_token",
    "--auth-token",
    "--wandb_api_key",
    "--hf-token",
    "--hub_tok",
    "--ssl-keyfile-password",
)
_URLS = ("--vllm_server_base_url", "--vllm_server_host", "--model", "--model_name_or_path", "--data-parallel-address")
_PREFIXES = ("hf_", "ghp_", "glpat-", "nvapi-", "sk-1", "xoxb-1", "github_pat_")
_PART = 14


def plant(random, document, places):
    """Plant one secret.

    Args:
        random: of the case.
        document: the job, changed in place.
        places: (holder, key) of each value in it.

    Returns:
        the secret and how it was planted, or None.
    """
    plain = "".join(random.choice(_LETTERS) for _ in range(34))
    known = random.choice(_PREFIXES) + plain
    way = random.choice(_WAYS)
    where = way(random, document, places, plain, known)
    return (plain, f"{way.__name__.strip('_')}: {where}") if where else None


def leaks(secret, text):
    """Whether a text (bytes) holds a secret, or the beginning or the end of one."""
    raw = secret.encode()
    return raw[:_PART] in text or raw[-_PART:] in text


def _holders(places, key):
    return [holder for holder, member in places if member == key and isinstance(holder, dict)]


def _some_list(random, places, key, like):
    found = [holder[key] for holder in _holders(places, key) if isinstance(holder[key], list)]
    found = [each for each in found if not each or isinstance(each[0], like)]
    return random.choice(found) if found else None


def _into_env(random, document, places, plain, known):
    entries = _some_list(random, places, "env", dict)
    if entries is None:
        containers = _holders(places, "command") + _holders(places, "image")
        if not containers:
            return ""
        entries = random.choice(containers).setdefault("env", [])
        if not isinstance(entries, list):
            return ""
    name = random.choice(_NAMES)
    entries.insert(random.randint(0, len(entries)), {"name": name, "value": plain})
    return name


def _into_args(random, document, places, plain, known):
    words = _some_list(random, places, random.choice(("args", "command")), str)
    if words is None:
        return ""
    flag = random.choice(_FLAGS)
    return _insert(random, words, flag, plain)


def _insert(random, words, flag, value):
    given = [f"{flag}={value}"] if random.random() < 0.5 else [flag, value]
    at = random.randint(0, len(words))
    if at and words[at - 1] in _FLAGS:  # not between another flag and its secret
        at -= 1
    words[at:at] = given
    return flag


def _into_url(random, document, places, plain, known):
    """Into the address of a server, as user, password or token: in a flag or in a variable."""
    url = random.choice(
        (
            f"http://me:{plain}@sampler:8000",
            f"https://{plain}@sampler:8000/v1",
            f"http://{known}:x@$(MUSTER_SAMPLER):8000",
            f"http://me:{plain}@[::1",
            f"http://me:{plain}@sampler:{'9' * 30}",
            f"http://sampler:8000/?api_key={plain}",
        )
    )
    entries = _some_list(random, places, "env", dict)
    if entries is not None and random.random() < 0.3:
        name = random.choice(("MUSTER_SAMPLER", "VLLM_URL", "HF_ENDPOINT", "HTTPS_PROXY"))
        entries.append({"name": name, "value": url})
        return name
    words = _some_list(random, places, random.choice(("args", "command")), str)
    if words is None:
        return ""
    return _insert(random, words, random.choice(_URLS), url)


def _into_json(random, document, places, plain, known):
    """Into a flag whose value is JSON."""
    words = _some_list(random, places, random.choice(("args", "command")), str)
    if words is None:
        return ""
    flag = random.choice(("--weight-transfer-config", "--hf-overrides", "--speculative-config"))
    value = random.choice(
        (f'{{"backend":"nccl","token":"{plain}"}}', f'{{"api_key":"{plain}"', f'{{"backend":"{known}"}}')
    )
    return _insert(random, words, flag, value)


def _into_shell(random, document, places, plain, known):
    words = _some_list(random, places, "command", str)
    if words is None:
        return ""
    name = random.choice(_NAMES)
    line = random.choice(
        (
            f"export {name}={plain}; torchrun train.py",
            f"{name}={plain} torchrun --nproc-per-node=2 train.py",
            f"git clone https://oauth2:{plain}@example.org/x.git && torchrun train.py",
            f'curl -H "Authorization: Bearer {plain}" x | sh',
            f"torchrun train.py {random.choice(_FLAGS)} {plain}",
            f"torchrun train.py {random.choice(_FLAGS)}={plain}",
            f"huggingface-cli login --token {known}",
        )
    )
    words[:] = ["bash", "-c", line]
    return line.replace(plain, "X")


def _known_anywhere(random, document, places, plain, known):
    texts = [
        (holder, key)
        for holder, key in places
        if isinstance(holder[key], str)
        and key not in ("kind", "apiVersion", "uid")
        and holder[key] not in (*_FLAGS, *_NAMES)  # the name of another secret
    ]
    if not texts:
        return ""
    holder, key = random.choice(texts)
    holder[key] = random.choice(
        (known, f"{holder[key][:5000]}/{known}", f"{holder[key][:5000]} {known} x", f"x-{known}")
    )
    return f"{key}, {known[:4]}"


def _as_note(random, document, places, plain, known):
    kept = document["metadata"].setdefault(random.choice(("annotations", "labels")), {})
    if not isinstance(kept, dict):
        return ""
    key = random.choice(
        (
            "muster.dev/claim-profile",
            "muster.dev/resource-claims",
            "muster.dev/rendezvous",
            "muster.dev/role",
            "muster.dev/trl-method",
            "muster.dev/vllm-features",
            "trainer.kubeflow.org/framework",
            "muster.dev/applied",
        )
    )
    kept[key] = random.choice((known, f'[{{"name":"{known}"}}]', f'{{"{known}":1}}', f"x,{known}"))
    return key


def _as_name(random, document, places, plain, known):
    texts = [holder for holder in _holders(places, "name") if isinstance(holder["name"], str)]
    named = [holder for holder in texts if holder["name"] not in _NAMES]  # it says that another value is a secret
    if not named:
        return ""
    holder = random.choice(named)
    holder["name"] = random.choice((known, f"{holder['name'][:200]}-{known}", f"{known}-0"))
    return "a name"


def _as_label(random, document, places, plain, known):
    kept = random.choice([document, *_holders(places, "metadata")]).setdefault("metadata", {})
    kept = kept.setdefault(random.choice(("labels", "annotations")), {}) if isinstance(kept, dict) else None
    if not isinstance(kept, dict):
        return ""
    key, value = random.choice(
        (
            ("example.org/note", known),
            ("app", f"x-{known}"),
            ("example.org/api-key", plain),
            ("db-password", plain),
            (f"example.org/{known}", "x"),
        )
    )
    kept[key] = value
    return "a label or an annotation"


def _as_key(random, document, places, plain, known):
    maps = [holder[key] for holder, key in places if isinstance(holder[key], dict)]
    if not maps:
        return ""
    random.choice(maps)[known] = random.choice((1, "x", {}, [1], None))
    return "a key"


_WAYS = (
    *(_into_env, _into_env, _into_args, _into_args, _into_shell, _known_anywhere, _known_anywhere),
    *(_as_note, _as_key, _as_name, _as_label, _into_url, _into_json),
)
