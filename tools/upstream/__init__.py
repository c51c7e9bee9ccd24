"""Takes in a version of an upstream package: `make upstream FRAMEWORK=vllm VERSION=0.33.0`.

`intake` has the steps, `python_packages` and `go_modules` the packages, and `programs` what is run by a package's own
python: the one place that knows how upstream is asked.
"""
