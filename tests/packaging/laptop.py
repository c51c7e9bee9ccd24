"""A person's laptop: trains through a Gateway with the real client, and prints what came of it as a line of JSON.

It is run by the interpreter of `make sessions`, with the address of the Gateway and the base model as arguments and the
key in `TINKER_API_KEY`.
"""

from __future__ import annotations

import json
import sys

import tinker
from tinker import types

from muster.sessions.demo import loop


def main(url: str, base: str) -> None:
    """Train as `make rl-demo`, save, and sample from what was saved."""
    with tinker.ServiceClient(base_url=url) as service:
        rewards = [step.reward for step in loop.train(service, base, lambda _: None)]
        client = service.create_lora_training_client(base_model=base, rank=4, seed=1).result()
        path = client.save_weights_for_sampler("kept").result().path
        sampler = service.create_sampling_client(model_path=path)
        asked = types.SamplingParams(max_tokens=4, temperature=0.0)
        (answer,) = sampler.sample(types.ModelInput.from_ints([4, 5]), 1, asked).result().sequences
        sys.stdout.write(json.dumps({"rewards": rewards, "path": path, "tokens": len(answer.tokens)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
