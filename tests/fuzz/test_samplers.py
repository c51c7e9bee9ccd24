"""Hostile trainings with samplers, each of one kind: secrets in either role, numbers that are none, many of a kind."""

from __future__ import annotations

import pytest

from tests.frameworks import sampled_jobs
from tests.fuzz import cases, invariants, services, trials
from tests.support import admissions, jobs

SECRET = "Zq7xWplantedLetters9KmvTr"
URLS = (
    *(f"http://me:{SECRET}@sampler:8000", f"http://{SECRET}@sampler:8000", f"http://me:{SECRET}@[::1"),
    *(f"http://me:{SECRET}@sampler:{'9' * 30}", f"http://sampler:8000/?api_key={SECRET}", f"//me:{SECRET}@sampler"),
    *(f"me:{SECRET}@sampler:8000", f"http://me:{SECRET}@127.0.0.1:8000", f"http://me:{SECRET}@rl-sampler-0-0.rl:9"),
)
FLAGS = ("--api-key", "--hf-token", "--hub_token", "--hub_tok", "--hf_token", "--ssl-keyfile-password", "--api-ke")
NUMBERS = ("9" * 5000, "9" * 30, "-1", "0", "65536", "1e3", "\u0663", "0x10", "")
JSONS = (f'{{"backend":"nccl","token":"{SECRET}"}}', f'{{"token":"{SECRET}"', "[" * 900, "9" * 5000, '{"backend":null}')


def by_hand(*samplers, words=(), env=(), **training):
    """A JobSet of a trainer with more words and env, and its samplers."""
    made = sampled_jobs.by_hand(*samplers, **training)
    made["metadata"]["name"] = "rl"
    trainer = jobs.container_of(made, -1)
    trainer["args"] = [*trainer["args"], *words]
    trainer["env"] = [{"name": name, "value": value} for name, value in env]
    return made


def serving(*args, env=(), **more):
    """A sampler with these arguments and env."""
    return sampled_jobs.sampler(args=list(args), env=[{"name": name, "value": value} for name, value in env], **more)


def _of_url(url):
    yield by_hand(words=["--vllm_mode=server", f"--vllm_server_base_url={url}"])
    yield by_hand(words=["--vllm_mode=server", "--vllm_server_base_url", url])
    yield by_hand(words=["--vllm_mode=server", f"--vllm_server_host={url}"])
    yield by_hand(words=[f"--vllm_mode={url}"])
    yield by_hand(serving("--model", url))
    yield by_hand(env=[("MUSTER_SAMPLER", url)])
    folders = [("VLLM_SERVER_DEV_MODE", url), ("MUSTER_WEIGHTS_FOLDER", url)]
    yield by_hand(serving(env=folders), env=[("MUSTER_WEIGHTS_FOLDER", f"{url}/x")])
    runtime = sampled_jobs.sampled(serving("--model", url, f"--api-key={SECRET}"))
    words = [*sampled_jobs.ARGS, f"--vllm_server_base_url={url}", "--vllm_mode=server"]
    yield jobs.make_trainjob(runtime=runtime["metadata"]["name"], args=words), runtime


def _of_flag(flag):
    for words in ([f"{flag}={SECRET}"], [flag, SECRET]):
        line = f"exec vllm serve m {' '.join(words)}"
        yield by_hand(serving(*words))
        yield by_hand(sampled_jobs.sampler(command=["bash", "-c", line]))
        yield by_hand(sampled_jobs.sampler(command=["bash", "-c", f"bash -c '{line}'"]))
        yield by_hand(words=words)
        yield by_hand(words=words, command=["torchrun", "rl.py", "--max_staleness=2", "--use_peft"])


def _of_number(text):
    yield by_hand(serving("--port", text))
    yield by_hand(words=["--vllm_mode=server", f"--vllm_server_base_url=http://rl-sampler-0-0.rl:{text}"])
    yield by_hand(words=["--vllm_mode=server", "--vllm_server_host=a", f"--vllm_server_port={text}"])
    lora = [f"--lora_r={text}", f"--max_staleness={text}", "--use_peft"]
    ranks = serving("--enable-lora", f"--max-loras={text}", f"--max-lora-rank={text}")
    yield by_hand(ranks, words=lora, command=["torchrun", "rl.py"])
    yield by_hand(serving(f"--tensor-parallel-size={text}", f"--api-server-count={text}"))
    yield by_hand(sampled_jobs.sampler(replicas=cases.raw(text) if text.isascii() and text.isdecimal() else text))


def _of_json(text):
    yield by_hand(serving(f"--weight-transfer-config={text}"))
    yield by_hand(serving("--weight-transfer-config", text), env=[("MUSTER_WEIGHTS_FOLDER", "/shared")])


def _of_env(name):
    yield by_hand(serving(env=[(name, SECRET)]), words=[f"--model_revision={SECRET}"])
    yield by_hand(env=[(name, SECRET)], words=[f"--model_revision={SECRET}"])


def _of_count(count):
    yield by_hand(*(sampled_jobs.sampler(f"sampler-{number}") for number in range(count)))


_KINDS = {
    **{("url", each): _of_url for each in URLS},
    **{("flag", each): _of_flag for each in FLAGS},
    **{("number", each): _of_number for each in NUMBERS},
    **{("json", each): _of_json for each in JSONS},
    **{("env", each): _of_env for each in ("VLLM_API_KEY", "HF_TOKEN", "WANDB_API_KEY")},
    **{("count", each): _of_count for each in (2, 16, 17, 60)},
}


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: f"{kind[0]}-{str(kind[1])[:30]}")
def test_a_hostile_training_with_a_sampler_breaks_no_invariant(kind):
    broken = []
    with services.Service(patience=600.0, forks=False) as service:
        for number, made in enumerate(_KINDS[kind](kind[1])):
            document, *cluster = made if isinstance(made, tuple) else (made,)
            for mode in ("enforce", "warn"):
                policy = {"mode": mode, "profiles": True, "roles": True}
                case = cases.Case(document["kind"], admissions.make_review(document), cluster, policy, {SECRET: mode})
                story = trials.run(service, case)
                assert story.request is None or story.validated.lines
                found = invariants.faults(story, invariants.COUNTED)
                found += [fault for _, fault in invariants.page_faults({SECRET: case}, service.page())]
                broken += [(number, mode, *each) for each in found]
    assert not broken
