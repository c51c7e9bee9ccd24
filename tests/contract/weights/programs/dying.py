"""`dying.py URL MODEL`: a trainer that sends a version, pauses its sampler, begins the next update and is killed."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import requests
import transformers

from muster_weights.trainer.settings import Settings
from muster_weights.trainer.syncs import Sync
from muster_weights.trainer.tensors import named

url, model, folder = sys.argv[1], sys.argv[2], Path(os.environ["MUSTER_WEIGHTS_FOLDER"])


def never(reason: str) -> Any:
    raise AssertionError(reason)


sync = Sync(url, Settings(folder, deadline=600, lease=2), never)
sync.open()
sync.send(named(transformers.AutoModelForCausalLM.from_pretrained(model).named_parameters()))
requests.post(f"{url}/pause?mode=keep", timeout=60).raise_for_status()
requests.post(f"{url}/start_weight_update", json={}, timeout=60).raise_for_status()
print(f"{sync.run} {requests.get(f'{url}/is_paused', timeout=60).json()['is_paused']}", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
