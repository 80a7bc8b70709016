# Two commands matter: `make demo` and `make test`. `make help` lists the rest.
# Everything is installed into .venv in this directory; nothing outside it is changed.

SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-builtin-rules
# Python keeps what it has compiled, in $(VENV) and beside the source: hundreds of processes import the same modules.
unexport PYTHONDONTWRITEBYTECODE

VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check
PYTHON  ?=
# Test processes: as many as there are cores, but each compiles its own kernels, so no more than 4.
WORKERS ?= auto
# Tests of MPI and Ray start many processes and wait for timeouts: they run apart, one after the other, in a process that
# has not imported JAX, because Ray forks it.
CLUSTERS := tests/clusters
DEMO    ?= demo-output
# The benchmarks have peers that nobody else needs, and an environment of their own for them.
BENCH   := .venv-bench
QUICK   ?=
BENCH_OPTIONS ?=

.PHONY: help demo test pytest test-clusters check-statistics lint format bench clean distclean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo  ## install the package in .venv and run the demonstration into demo-output/
	$(BIN)/stalegrad demo --out $(DEMO)

test: $(VENV)/.installed-test  ## install everything for development in .venv, check style, types and layers, run all tests but those of clusters
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint pytest

# Beside lint, which takes one core for most of a minute. The + lets its output through at once, lint's comes in one piece.
pytest: $(VENV)/.installed-test
	+$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal --ignore $(CLUSTERS)

test-clusters: $(VENV)/.installed-test  ## the tests that start MPI jobs and Ray clusters (6 minutes, most of it waiting)
	$(BIN)/python -m pytest $(CLUSTERS)

check-statistics: $(VENV)/.installed-test  ## calibration and joint-distribution tests of every sampler at full size, with a table (11 minutes of one core)
	$(BIN)/python -m pytest tests/statistics --full -n $(WORKERS) --maxprocesses 4 --dist worksteal

lint: $(VENV)/.installed-test  ## formatting, lint, types and import layers, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-test  ## rewrite the source in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH)/.installed  ## time stalegrad beside its peers, in .venv-bench, and write docs/benchmarks.md (45 minutes; QUICK=1 to see that it runs)
	$(BENCH)/bin/python benchmarks/suite.py $(if $(QUICK),--quick) $(BENCH_OPTIONS)

clean:  ## remove caches and results; keep .venv
	rm -rf $(DEMO) bench-output build dist .hypothesis .import_linter_cache .mypy_cache .numba_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## remove .venv and .venv-bench as well
	rm -rf $(VENV) $(BENCH)

# The stamps make a second run cheap: pip is called again only when the dependencies may have changed.
# The package is installed in place (-e), so a change of the source needs no new installation.

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[demo]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/.installed-demo

$(BENCH)/.installed: pyproject.toml constraints.txt | $(BENCH)/bin/python
	$(BENCH)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt --editable '.[bench]'
	@touch $@

$(BIN)/python $(BENCH)/bin/python:
	@for python in $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11 python3.14); do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	    echo "creating $(@D:/bin=) with $$("$$python" --version)"; \
	    exec "$$python" -m venv $(@D:/bin=); \
	  fi; \
	done; \
	echo "stalegrad needs Python 3.11 or newer with the venv module, and found none on the PATH." >&2; \
	echo "Install one (on Debian and Ubuntu: apt install python3 python3-venv), or name one you have:" >&2; \
	echo "    make PYTHON=/path/to/python3.11 $(or $(MAKECMDGOALS),demo)" >&2; \
	exit 1
