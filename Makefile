# On a fresh machine with Python 3.11 or newer, make and a C compiler: `make demo` and `make test`, nothing before them.
# Without a C compiler everything works too, in plain Python.

VENV := .venv
PY := $(VENV)/bin/python
SOURCES := $(wildcard _speedups/*.pyx _speedups/*.pxi)
SPEEDUPS := $(if $(TRUNKLINE_SPEEDUPS),$(TRUNKLINE_SPEEDUPS),auto)
INSTALLED := $(VENV)/.installed
BUILT := $(VENV)/.built-$(SPEEDUPS)

WORKERS ?= 2
PYTEST ?=
BENCH ?=

.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-harness lint types format bench dist clean

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1: \2/p' Makefile

setup: $(BUILT) ## make the environment in .venv, with everything that the other targets need

$(PY):
	@sh .ci/make-venv $(VENV)

$(INSTALLED): $(PY) pyproject.toml setup.py
	@echo "setup: installing trunkline (editable) and its tools into $(VENV)"
	@$(PY) -m pip install -q --disable-pip-version-check --upgrade "pip>=25.1"
	@$(PY) -m pip install -q --disable-pip-version-check --group dev
	@$(PY) -m pip install -qq --disable-pip-version-check --no-build-isolation -e .
	@touch $@

$(BUILT): $(INSTALLED) $(SOURCES)
	@$(if $(filter no,$(SPEEDUPS)),true,$(PY) setup.py -q build_ext --inplace)
	@$(PY) .ci/say-twin.py
	@touch $@

build: $(BUILT) ## compile the accelerators where they are stale

demo: $(BUILT) ## watch one whole session over a pipe; HARNESS=claude and MODEL=own choose the real thing
	@$(PY) demo/session.py

test: $(BUILT) ## the whole suite, but for the real harnesses
	$(PY) -m pytest -q -n $(WORKERS) $(if $(filter no,$(SPEEDUPS)),,-rs) --dist loadfile -m "not harness" $(PYTEST)

test-harness: $(BUILT) ## install the pinned real harnesses below .harness, and run the suite against them
	$(PY) tests/harness/install.py
	$(PY) -m pytest -q -m harness tests/harness $(PYTEST)

lint: $(BUILT) ## ruff: rules and format
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(BUILT) ## ruff: mend what can be mended
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: $(BUILT) ## mypy, strict
	$(VENV)/bin/mypy

bench: $(BUILT) ## the hot paths, with a table and a chart below .bench; BENCH=--short makes it quick
	$(PY) -m pytest bench --benchmark-only -q $(BENCH)
	$(PY) bench/report.py

dist: $(BUILT) ## build sdist and wheel, install each into a clean environment, and run a session with both twins
	@rm -rf dist build/dist
	$(PY) -m build --outdir dist
	$(PY) -m tests.packaging.smoke dist

clean: ## remove what was built; .venv and .harness stay
	rm -rf build dist .bench .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache .coverage
	rm -f _speedups/*.so $(VENV)/.built-*
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -not -path './.harness/*' -prune -exec rm -rf {} +
