# `make repro` and `make test` first run `make setup`, which installs everything into .venv from requirements.lock.

# The first Python of a version that the lock supports.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv

.PHONY: help setup setup-browser setup-keras-gpu repro test test-all test-faults test-wheel test-cluster cluster-up cluster-down gpu-check gpu-check-pack tpu-check \
	lint bench screens docs ui lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

# Installs into the environment $(1): the packages of the lock $(2), then accelbench itself.
define install
	@test -n "$(PYTHON)" || { echo "accelbench needs Python 3.11 to 3.13: none was found (PYTHON=... names one)" >&2; exit 2; }
	@test -x $(1)/bin/pip || $(PYTHON) -m venv $(1) || \
		{ echo "$(PYTHON) has no venv module: on Debian, apt-get install python3-venv" >&2; exit 2; }
	@echo "Installing into $(1) (about a minute) ..."
	@$(1)/bin/python -m pip install --quiet --disable-pip-version-check uv
	@$(1)/bin/uv pip sync --quiet --compile-bytecode --python $(1)/bin/python --require-hashes $(2)
	@$(1)/bin/uv pip install --quiet --python $(1)/bin/python --no-deps --editable .
	@touch $@
endef

.venv/.installed: requirements.lock pyproject.toml
	$(call install,.venv,requirements.lock)

# Separate environments: TensorFlow's CUDA libraries conflict with torch's. That of a cluster has what only `make
# test-cluster` needs, and that of models the packages whose networks `make test-all` measures.
.venv-keras-gpu/.installed .venv-cluster/.installed .venv-models/.installed: .venv-%/.installed: environments/%.lock pyproject.toml
	$(call install,.venv-$*,environments/$*.lock)

setup: .venv/.installed  ## install everything into .venv

setup-keras-gpu: .venv-keras-gpu/.installed  ## install Keras on TensorFlow for an NVIDIA GPU, into .venv-keras-gpu

setup-browser:  ## install chromium, for the tests that open pages (Debian, as root)
	apt-get install -y chromium chromium-driver

cluster-up: .venv-cluster/.installed  ## start Slurm on this machine's loopback (Debian, as root)
	@tests/cluster/slurm.sh up

cluster-down:  ## stop them, and remove their files
	@tests/cluster/slurm.sh down

test-cluster: .venv-cluster/.installed  ## test sweeps over Slurm and Ray, after `make cluster-up` (five minutes)
	.venv-cluster/bin/python -m pytest -m cluster --durations=10 tests/cluster

repro: setup  ## run the main job: data, sweeps, report
	@$(BIN)/python pipelines/repro.py

# Four processes run the tests, more than the cores of a small machine, since tests wait for processes that they start.
# Each imports only what its paths need: Keras, since TensorFlow and torch must not share a process, with some that need
# neither, and for which Keras's conftest.py hides scikit-learn and GPUs, too; what imports torch; what starts cells,
# MLflow or DVC; and all other paths. They take about as long as each other. The last ones are printed as they run, the
# others afterwards. All keep the bytecode of what they import, and load no plugins that other packages bring.
KERAS := tests/engines/keras tests/test_bundle.py tests/report tests/search
TORCH := tests/engines tests/api/test_measure.py tests/isolation/test_child.py tests/test_conf.py
STARTS := tests/honest tests/pipelines tests/sinks tests/test_pipeline.py tests/sweep tests/test_cli.py
PYTEST = PYTHONDONTWRITEBYTECODE= PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTEST_PLUGINS=pytest_timeout \
	$(BIN)/python -m pytest --durations=10
define run_tests
	@logs=$$(mktemp -d); trap 'kill $$pids 2> /dev/null; rm -rf $$logs' EXIT; trap 'exit 130' INT TERM; \
	$(PYTEST) -m "$(1)" $(KERAS) > $$logs/keras 2>&1 & pids=$$!; \
	$(PYTEST) -m "$(1)" $(TORCH) > $$logs/torch 2>&1 & pids="$$pids $$!"; \
	$(PYTEST) -m "$(1)" $(STARTS) > $$logs/starts 2>&1 & pids="$$pids $$!"; \
	status=0; $(PYTEST) -m "$(1)" $(addprefix --ignore=,$(KERAS) $(TORCH) $(STARTS)) tests || status=1; \
	for pid in $$pids; do wait $$pid || status=1; done; cat $$logs/*; exit $$status
endef

test: setup  ## run the tests
	$(call run_tests,not slow and not faults and not cluster and not gpu and not tpu)

test-all: setup .venv-models/.installed  ## run the tests, and those that take long and guard rare cases
	$(call run_tests,not faults and not cluster and not gpu and not tpu)

test-faults: setup  ## look for faults by killing processes and under bad conditions, and for known ones (two minutes)
	$(BIN)/python -m pytest -m "faults or fault"

test-wheel: setup  ## build the wheel, and test it as a user installs it, with the newest packages (five minutes)
	@$(BIN)/python environments/test_wheel.py

# These run on a machine that has little more than torch, and no environment of ours: they don't depend on setup.
gpu-check tpu-check: %-check:
	@test -n "$(PYTHON)" || { echo "accelbench needs Python 3.11 to 3.13: none was found (PYTHON=... names one)" >&2; exit 2; }
	@$(PYTHON) -m bench.gpu_check --device $* $(if $(OUT),--out "$(OUT)") $(if $(SIMULATED),--simulated)

gpu-check:  ## check accelbench on an NVIDIA GPU, without setup: a page of figures (ten minutes; OUT=FILE; SIMULATED=1)
tpu-check:  ## the same on a TPU VM

gpu-check-pack:  ## download the wheels that gpu-check needs on a machine without a network
	@$(PYTHON) -m bench.gpu_check.packages

lint: setup  ## check style, types, the import rules between the parts, and the locks for known advisories
	@$(BIN)/mypy & types=$$!; status=0; \
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports || status=1; \
	wait $$types || status=1; exit $$status
	$(BIN)/python environments/check_advisories.py

bench: setup  ## measure accelbench itself (BENCH=keras: the Keras engine; BENCH=peer: generation beside optimum-benchmark; BENCH=scale: 100,000 records)
	@$(BIN)/python -m bench $(BENCH)

screens: setup  ## regenerate the pictures and outputs of docs/, from the results of `make repro`
	@$(BIN)/python docs/screens.py

.venv-docs/.installed: docs/site.lock
	@test -n "$(PYTHON)" || { echo "make docs needs Python 3.11 to 3.13: none was found (PYTHON=... names one)" >&2; exit 2; }
	@test -x .venv-docs/bin/pip || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r docs/site.lock
	@touch $@

docs: .venv-docs/.installed  ## build the pages of docs/ as a site that opens from disk: site/index.html
	@.venv-docs/bin/sphinx-build --quiet --fail-on-warning -b html docs site

ui: setup  ## open MLflow on the saved view
	@$(BIN)/accelbench ui

lock:  ## regenerate requirements.lock and the locks of the other environments
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --generate-hashes --quiet -o requirements.lock
	for name in keras-gpu models; do $(BIN)/uv pip compile environments/$$name.in --universal --python-version 3.11 \
		--generate-hashes --quiet -o environments/$$name.lock; done
	$(BIN)/uv pip compile pyproject.toml environments/cluster.in --extra dvc --extra ray --extra slurm --extra ui --universal \
		--python-version 3.11 --generate-hashes --quiet -o environments/cluster.lock
	$(BIN)/uv pip compile docs/site.in --universal --python-version 3.11 --generate-hashes --quiet -o docs/site.lock

clean:  ## remove the environments; data, results and runs stay
	rm -rf .venv .venv-*
