"""The mutation run: small faults are planted in the product one by one, and the tests of the unit tier look for them.

`python -m tools.mutants FOLDER...` measures first which test runs which line (`measures`), lists the faults that could
be planted (`mutations`), draws a sample of them (`samples`), and tries each in a process of its own (`trials`) with the
tests that reach its line (`reach`). Nothing of it is written to the source tree.
"""
