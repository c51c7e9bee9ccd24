"""`untied.py OUT [tied]`: the small model of e2e/models/make.py, whose output layer is not its embedding, or is."""

import sys
from pathlib import Path

import make
import torch
import transformers

out, tied = Path(sys.argv[1]), sys.argv[2:] == ["tied"]
model = make.llama(0)
if not tied:
    model.config.tie_word_embeddings = False
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(model.config)
model.save_pretrained(out)
make.tokenizer().save_pretrained(out)
