"""The record: what Muster answers to a large input, so that a change of the house is told from a change of its answers.

`inputs` writes the input, `answers` asks one checkout, `differences` compares two answers, `__main__` is the command.
"""
