"""Reinforcement learning and fine-tuning sessions: a Gateway that speaks the Tinker API, and the engines behind it.

A person's training loop runs anywhere, with the public `tinker` client. The Gateway (`muster.sessions.gateway`) answers
it, keeps each request in a journal (`muster.sessions.journal`), and has engines (`muster.sessions.engines`) do the
work: a trainer that holds many LoRA models on one base, and a sampler. Nothing here is imported by the webhook.
"""
