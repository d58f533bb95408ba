# `make repro` and `make test` set up what they need. Everything is installed into .venv, from requirements.lock.

# The first Python that is there and of a release that the lock is for.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv

.PHONY: help setup repro test test-slow lint bench ui lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/.installed: requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "accelbench needs Python 3.11 to 3.13: none was found (PYTHON=... names one)" >&2; exit 2; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || \
		{ echo "$(PYTHON) has no venv module: on Debian, apt-get install python3-venv" >&2; exit 2; }
	@echo "Installing into .venv (about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	@$(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

setup: .venv/.installed  ## install everything into .venv

repro: setup  ## run the main job: data, sweeps, report
	@$(BIN)/python pipelines/repro.py

# Keras' tests in a process of their own: TensorFlow is in none with torch.
test: setup  ## run the tests
	$(BIN)/python -m pytest -m "not slow and not gpu and not tpu" --ignore=tests/engines/keras
	$(BIN)/python -m pytest -m "not slow and not gpu and not tpu" tests/engines/keras

test-slow: setup  ## run the tests that take minutes
	$(BIN)/python -m pytest -m slow --ignore=tests/engines/keras

lint: setup  ## check style, types and the walls between the parts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## measure accelbench itself (BENCH=keras: that engine; accuracy: on MNIST, an hour)
	@$(BIN)/python -m bench $(BENCH)

ui: setup  ## open MLflow on the saved view
	@$(BIN)/accelbench ui

lock:  ## make requirements.lock anew
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --quiet -o requirements.lock

clean:  ## remove what was installed; data, results and runs stay
	rm -rf .venv
