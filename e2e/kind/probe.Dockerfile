# The image of the suites' own jobs: every launcher that a training is started with is the program probe.py.
# Context: e2e/images/probe. The cluster without Docker makes the same image from layers (e2e/cluster/node/images.py).
ARG BASE=python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
FROM ${BASE}
COPY probe.py /usr/local/lib/probe.py
RUN test -e /usr/bin/python3 || ln -s "$(command -v python3)" /usr/bin/python3; \
    chmod 0755 /usr/local/lib/probe.py; \
    for name in torchrun tune trl accelerate vllm probe; do ln -s /usr/local/lib/probe.py "/usr/local/bin/$name"; done
ENTRYPOINT ["probe"]
