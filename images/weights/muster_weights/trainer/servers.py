"""A sampler over HTTP: vLLM's own routes for weights, and those of `muster_weights.sampler.routes`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import requests

from muster_weights import names
from muster_weights.refusals import Missing, Refused

__all__ = ["Away", "Held", "Server"]

_CONNECT, _SOON = 5.0, 60.0
_TRIES, _POLL = 50, 0.02


class Away(ConnectionError):  # noqa: N818  # what happened, in a word
    """A sampler that does not answer, or whose engine fails: it may be back later."""


class Held(Away):
    """A sampler that another trainer holds."""


class Server:
    """One sampler. Each thread has its own.

    Args:
        url: of vLLM's server.
        patience: seconds that a load may take.
    """

    def __init__(self, url: str, patience: float) -> None:
        self.url = url.rstrip("/")
        self._patience = patience
        self._session = requests.Session()

    def state(self) -> dict[str, Any]:
        """Return what is served: `run`, `version` and `digest`. Raises `Refused` where it takes no weights by files."""
        return self._json("GET", "/muster_weights")

    def renew(self, run: str, seconds: float) -> dict[str, Any]:
        """Take or keep the lease; returns as `state`. Raises `Held` while another run has it."""
        return self._json("POST", "/muster_weights/lease", {"run": run, "seconds": seconds})

    def release(self, run: str) -> None:
        """Give the lease back."""
        self._json("POST", "/muster_weights/release", {"run": run})

    def bind(self, run: str) -> None:
        """Have the sampler take the versions of a run."""
        self._json("POST", "/init_weight_transfer_engine", {"init_info": {"run": run}})

    def staged(self, told: names.Told) -> bool:
        """Verify a version while the old one serves, and say whether that is done.

        Raises:
            Missing: the sampler does not see it yet.
            Refused: it must not be served.
        """
        found = self._json("POST", "/muster_weights/stage", asdict(told))
        if found["state"] in ("missing", "refused"):
            raise (Missing if found["state"] == "missing" else Refused)(found["reason"])
        return bool(found["state"] == "verified")

    def loaded(self, told: names.Told) -> bool:
        """Have an adapter verified and loaded while others serve, and say whether that is done; raises as `staged`."""
        found = self._json("POST", "/muster_weights/adapters", asdict(told), self._patience)
        if found["state"] in ("missing", "refused"):
            raise (Missing if found["state"] == "missing" else Refused)(found["reason"])
        return bool(found["state"] == "loaded")

    def keep(self, run: str, oldest: int) -> None:
        """Have all adapters unloaded but those of a run from version `oldest` on."""
        self._json("POST", "/muster_weights/adapters/keep", {"run": run, "oldest": oldest})

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Hold all requests, and let them go on in any case."""
        self._json("POST", "/pause?mode=keep")
        try:
            yield
        except BaseException:
            with contextlib.suppress(Away):
                self.resume()
            raise
        self.resume()

    def resume(self) -> dict[str, Any]:
        """Let all requests go on; twice does no harm. Tried three times, because nobody else would do it soon."""
        for _ in range(2):
            with contextlib.suppress(Away):
                return self._json("POST", "/resume")
        return self._json("POST", "/resume")

    def is_paused(self) -> bool:
        """Whether requests are held."""
        return bool(self._json("GET", "/is_paused")["is_paused"])

    def load(self, told: names.Told) -> None:
        """Forget what was computed with the old version, also for requests that are held, and load this one.

        It is to be `paused`, so that nothing is computed in between.
        """
        self._forget()
        self._start()
        self._json("POST", "/update_weights", {"update_info": asdict(told)}, self._patience)
        self._json("POST", "/finish_weight_update", {"weight_version": told.text})

    def logprobs(self, tokens: list[int]) -> list[float]:
        """Return the log probability of each token but the first, given those before it."""
        models = self._json("GET", "/v1/models")["data"]
        asked = {"model": models[0]["id"], "prompt": tokens, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        (choice,) = self._json("POST", "/v1/completions", asked)["choices"]
        found = choice["prompt_logprobs"][1:]
        return [float(each[str(token)]["logprob"]) for token, each in zip(tokens[1:], found, strict=True)]

    def drawn(self, prompts: list[list[int]], model: str | None = None) -> list[tuple[int, float]]:
        """Return a token that is drawn behind each prompt, and its log probability.

        A server with adapters must not be asked for those of a prompt: vLLM 0.31 on CPUs ends then, and leaves out
        adapters of the output layer elsewhere (vllm#51594).

        Args:
            prompts: each of one token or more.
            model: the name of an adapter; None for the model that the sampler was started with.
        """
        name = model or self._json("GET", "/v1/models")["data"][0]["id"]
        asked = {"model": name, "prompt": prompts, "max_tokens": 1, "temperature": 1.0, "logprobs": 0}
        choices = self._json("POST", "/v1/completions", {**asked, "return_token_ids": True})["choices"]
        every = sorted(choices, key=lambda each: int(each["index"]))
        return [(int(each["token_ids"][0]), float(each["logprobs"]["token_logprobs"][0])) for each in every]

    def dtype(self) -> str:
        """Return the type that the sampler computes in, such as `float32`."""
        info = self._json("GET", "/server_info?config_format=json")
        return str(info["vllm_config"]["model_config"]["dtype"]).removeprefix("torch.")

    def _forget(self) -> None:
        for _ in range(_TRIES):
            if self._json("POST", "/reset_prefix_cache?reset_running_requests=true").get("success", True):
                return
            time.sleep(_POLL)
        raise Away(f"{self.url}: the prefix cache cannot be emptied, because requests hold it")

    def _start(self) -> None:
        """Start an update; one that a dead trainer left open is finished first, with what is loaded."""
        try:
            self._json("POST", "/start_weight_update", {})
        except Away:
            self._json("POST", "/finish_weight_update", {})
            self._json("POST", "/start_weight_update", {})

    def _json(
        self, method: str, path: str, body: dict[str, Any] | None = None, seconds: float = _SOON
    ) -> dict[str, Any]:
        try:
            answer = self._session.request(method, f"{self.url}{path}", json=body, timeout=(_CONNECT, seconds))
        except requests.RequestException as fault:
            raise Away(f"{self.url}{path}: {fault}") from fault
        if answer.status_code != 200:
            self._session.close()  # vLLM closes a connection after some faults, and the next request would meet that
            raise _fault(answer, path)
        found: dict[str, Any] = answer.json() if answer.content else {}
        return found


def _fault(answer: requests.Response, path: str) -> Exception:
    text = f"{answer.request.method} {path}: {answer.status_code}: {answer.text[:1000]}"
    if answer.status_code == 409:
        return Held(text)
    if path.startswith("/muster_weights") and answer.status_code in (404, 501):
        cure = 'start it with VLLM_SERVER_DEV_MODE=1 and --weight-transfer-config \'{"backend": "muster_files"}\''
        return Refused(f"the sampler does not take weights by files: {cure}, or unset MUSTER_WEIGHTS_FOLDER ({text})")
    if answer.status_code < 500:
        return Refused(f"the sampler refused: {text}")
    return Away(text)
