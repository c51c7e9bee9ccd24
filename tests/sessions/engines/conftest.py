import warnings

import pytest

with warnings.catch_warnings():
    # Libraries that these two look for warn while they are imported, and no test is about that.
    warnings.simplefilter("ignore")
    import peft
    from transformers import LlamaForCausalLM

    from muster.sessions.demo import tiny
    from muster.sessions.engines.trainer import TorchTrainer


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    return tiny.make(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="session")
def shared(base):
    """One trainer for all tests, for a base is slow to load."""
    return TorchTrainer(base)


@pytest.fixture
def theirs(base, monkeypatch):
    """What peft makes of a folder; it would refuse to work beside a quantization library that it finds too old."""
    monkeypatch.setattr("peft.tuners.lora.torchao.is_torchao_available", lambda: False)

    def loaded(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return peft.PeftModel.from_pretrained(LlamaForCausalLM.from_pretrained(base), folder).eval()

    return loaded


@pytest.fixture
def trainer(shared):
    shared._models.clear()
    return shared
