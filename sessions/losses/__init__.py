"""Losses of the Tinker API: what each reads (`table`), whether it is there (`checks`), and the `formulas`."""
