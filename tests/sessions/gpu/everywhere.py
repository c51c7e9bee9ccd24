"""A plugin of pytest, `-p tests.sessions.gpu.everywhere`: engines of all tests have a GPU where they do not say."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of libraries that transformers looks for
    from muster.sessions.engines.sampler import TransformersSampler
    from muster.sessions.engines.trainer import TorchTrainer
    from muster.sessions.engines.whole import WholeSampler, WholeTrainer

for each in (TorchTrainer, WholeTrainer, TransformersSampler, WholeSampler):
    each.__init__.__kwdefaults__["device"] = "cuda"
