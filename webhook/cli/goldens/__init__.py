"""Goldens: a platform team's own cases for `muster test`. The format is in docs/team-tests.md.

`forms` says what the files may hold, `folders` finds and reads them, `trials` decides about each case, `comparisons`
compares what was expected with what was decided, and `reports` tells the results to programs.
"""
