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
CLUSTERS := tests/engines/clusters
# Tests that need a browser, notebooks and others' readers have packages that nobody else needs.
BROWSER := tests/browser
DEMO    ?= demo-output
# The benchmarks have peers that nobody else needs, and an environment of their own for them.
BENCH   := .venv-bench
QUICK   ?=
# The lowest versions that are allowed have an environment of their own, too. What they warn of is not for us to mend.
LOWEST  := .venv-lowest
COMMA   := ,
SPACE   := $() $()
LOWEST_EXTRAS := arviz jax mpi numpyro ray sklearn tensorboard torch watch
# The site: examples at their full size, or SMALL=1 for the size of tests; with DRAFT=1 no code is run at all.
SITE    := docs/_build/html
SMALL   ?=
DRAFT   ?=
# Processes that read and write the site's pages; the gallery is run by one.
JOBS    ?= 2
LOWEST_TESTS := tests/_internal tests/analysis/plots tests/analysis/report tests/cli tests/datasets/test_files.py \
	tests/kernels/test_recipe.py tests/potentials tests/protocol tests/runs tests/sklearn/test_use.py
# Of language models there are long tests only, and peft and transformers, which they import, belong to the examples.
LOWEST_TESTS += $(patsubst %,--ignore tests/potentials/frontends/%.py,test_transformers transformers_models)
BENCH_OPTIONS ?=
# How long a soak lasts, the seed of its plan of faults, how many bad inputs it tries after them, and more of its
# options, such as --engines processes ray.
MINUTES ?= 20
SEED    ?= 0
INPUTS  ?= 20000
SOAK_OPTIONS ?=
MUTATE_OPTIONS ?=
DIST_OPTIONS ?=
ORDER   ?= 1

.PHONY: help demo test pytest test-long test-clusters test-browser test-again test-lowest test-alone mutate soak check-statistics lint format bench docs dist clean distclean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.installed-demo  ## install the package in .venv and run the demonstration into demo-output/
	$(BIN)/stalegrad demo --out $(DEMO)

test: $(VENV)/.installed-test  ## install everything for development in .venv, check style, types and layers, run the tests (about 9 minutes on two cores)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint pytest

# Beside lint, which takes one core for most of a minute. The + lets its output through at once, lint's comes in one piece.
pytest: $(VENV)/.installed-test
	+$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal --ignore $(CLUSTERS) --ignore $(BROWSER) -m "not long"

test-long: $(VENV)/.installed-test  ## the tests that take longer: statistics of the samplers, kills, experiments, examples, benchmarks (20 minutes)
	$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal --ignore $(CLUSTERS) --ignore $(BROWSER) -m long

test-clusters: $(VENV)/.installed-test  ## the tests that start MPI jobs and Ray clusters (15 minutes, most of it waiting)
	$(BIN)/python -m pytest $(CLUSTERS)

test-browser: $(VENV)/.installed-browser  ## the live page in Chromium, notebooks, and what TensorBoard and MLflow read (apt-get install chromium chromium-driver; pictures in browser-output/)
	$(BIN)/python -m pytest $(BROWSER)

test-again: lint  ## style and types, and the tests that failed last, one after the other
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-lowest: $(LOWEST)/.installed  ## the tests of what others' packages do for us, with the lowest versions that pyproject.toml allows, in .venv-lowest
	$(LOWEST)/bin/python -m pytest -n $(WORKERS) --maxprocesses 4 --dist worksteal -m "not long" -o filterwarnings=default $(LOWEST_TESTS)

soak: $(VENV)/.installed-test  ## faults of every kind on every engine by turns, with a table in soak-output/; then bad input (20 minutes and more; MINUTES=60 for an hour, SEED=1 for others)
	@status=0; \
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --seed $(SEED) $(SOAK_OPTIONS) || status=$$?; \
	STALEGRAD_BAD_INPUTS=$(INPUTS) $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 4 tests/bad_input || status=$$?; \
	exit $$status

check-statistics: $(VENV)/.installed-test  ## calibration and joint-distribution tests of every sampler at full size, with a table (11 minutes of one core)
	$(BIN)/python -m pytest tests/statistics --full -n $(WORKERS) --maxprocesses 4 --dist worksteal

test-alone: $(VENV)/.installed-test  ## every file of tests in a process of its own, its tests in random order (30 minutes; ORDER is the seed)
	$(BIN)/python -m tests.alone --order $(ORDER)

mutate: $(VENV)/.installed-test  ## put defects into copies of the source, one at a time, and see that the tests notice (2 hours; MUTATE_OPTIONS="--only protocol" for some)
	$(BIN)/python -m tests.mutations.run $(MUTATE_OPTIONS)

lint: $(VENV)/.installed-test  ## formatting, lint, types and import layers, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-test  ## rewrite the source in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(BENCH)/.installed  ## time stalegrad beside its peers, in .venv-bench, and write docs/benchmarks.md (an hour; QUICK=1 to see that it runs)
	$(BENCH)/bin/python benchmarks/suite.py $(if $(QUICK),--quick) $(BENCH_OPTIONS)

docs: $(VENV)/.installed-docs  ## build the site in docs/_build/html and check it: every example and block of code is run (SMALL=1 for small sizes, DRAFT=1 without running any)
	STALEGRAD_EXAMPLES=$(if $(SMALL),small,full) $(BIN)/python -m sphinx -b html -j $(JOBS) -W --keep-going -q $(if $(DRAFT),-D plot_gallery=0 -D live_code_run=0) docs $(SITE)
	$(BIN)/python docs/check_site.py $(SITE)

dist: $(VENV)/.installed-dist  ## build wheel and sdist in dist/, check them, and install the wheel with each extra into an empty environment
	$(BIN)/python tests/distribution.py $(DIST_OPTIONS)

clean:  ## remove caches and results; keep .venv
	rm -rf $(DEMO) bench-output browser-output soak-output build dist docs/_build docs/_generated docs/gallery docs/reference .hypothesis .import_linter_cache .mutate .mypy_cache .numba_cache .pytest_cache .ruff_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean  ## remove .venv, .venv-bench and .venv-lowest as well
	rm -rf $(VENV) $(BENCH) $(LOWEST)

# The stamps make a second run cheap: pip is called again only when the dependencies may have changed.
# The package is installed in place (-e), so a change of the source needs no new installation.

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-browser: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[browser]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed-demo

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[docs]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-dist: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --no-compile --constraint constraints.txt --editable '.[dist]'
	@touch $@ $(VENV)/.installed-demo

$(BENCH)/.installed: pyproject.toml constraints.txt | $(BENCH)/bin/python
	$(BENCH)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt --editable '.[bench]'
	@touch $@

# Wheels only: the lowest version of a range must be one that users can install without compilers.
$(LOWEST)/.installed: pyproject.toml constraints.txt tests/lowest.py | $(LOWEST)/bin/python
	$(LOWEST)/bin/python tests/lowest.py test $(LOWEST_EXTRAS) > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --only-binary :all: \
	  --constraint $(LOWEST)/constraints.txt pytest pytest-xdist httpx hypothesis zarr \
	  --editable '.[$(subst $(SPACE),$(COMMA),$(LOWEST_EXTRAS))]'
	@touch $@

$(BIN)/python $(BENCH)/bin/python $(LOWEST)/bin/python:
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
