"""A small training by transformers' Trainer, which adds its KubeflowCallback by itself in a TrainJob."""

import torch
from transformers import Trainer, TrainingArguments

torch.set_num_threads(1)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x):
        return {"loss": self.layer(x).square().mean()}


arguments = TrainingArguments(
    output_dir="out", max_steps=5, logging_steps=1, save_strategy="no", use_cpu=True, disable_tqdm=True,
    report_to=[],
)  # fmt: skip
Trainer(model=Model(), args=arguments, train_dataset=[{"x": torch.randn(4)} for _ in range(64)]).train()
print("finished", flush=True)
