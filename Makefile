# Every command makes .venv from nothing when it has to. A newcomer needs two: `make demo` and `make test`.
# make demo      the whole pipeline on what is shipped; on the emulator, or on the GPU if there is one
# make quick     the tests that start no judge or compiler and import no torch: a minute and a half
# make test      the tests; of the built-in pairs and cheats, those that changed and one in 32: eight to thirteen minutes
# make test-all  every test: all pairs and cheats, slow tests, Ray, a browser; what CI runs
# make lint      formatting, lint, types
# make check     what must be green before a commit: make lint, make test
# make dataset   the dataset of the built-in pairs, in kcurate-work/built-in; equal sources, equal bytes.
#                TREES=DIR: all of it, with what rules make of them and of the source trees in DIR, in kcurate-work/whole
# make site      the docs as HTML in build/site; a link that leads nowhere fails
# make lock      requirements.txt again: the base install with the hash of every file (for pip --require-hashes)
# make integrations  the faces for other training stacks, each with its real library (docs/serving.md)
# make audit     pip-audit: known vulnerabilities in requirements.txt; takes a machine that reaches an advisory database
# make clean     remove .venv and everything that was built

# Tests start many Python processes: the bytecode of what they import is kept, whatever the caller prefers.
unexport PYTHONDONTWRITEBYTECODE

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1 && echo yes)
# A file stays in one process: what its tests share is made once. Three, because tests also wait for processes.
PYTEST_ARGS ?= -n 3 --dist loadfile --no-loadscope-reorder
STEP := @printf '\n== %s\n'

# A stamp is there when what it names is whole; a .venv whose Python has gone is made again.
STAMPS := $(VENV)/.stamps
$(shell $(BIN)/python -c '' 2>/dev/null || rm -rf $(STAMPS))
EXTRAS_demo := $(if $(GPU),[gpu])
EXTRAS_test := [gpu,clang,train,triton,serve,dev]
EXTRAS_test-all := [gpu,clang,train,triton,ray,serve,dev]
EXTRAS_audit := [audit]
SAID_demo := $(if $(GPU),, (no GPU here: without the NVRTC packages))
SAID_test := (NVRTC 200 MB and torch included)
SAID_test-all := $(SAID_test)

PYTHONS := python3 python3.14 python3.13 python3.12 python3.11
# Writes a Python's version, and fails for one that kcurate cannot use.
PROBE := import sys; sys.stdout.write("%d.%d" % sys.version_info[:2]); \
  sys.version_info < (3, 11) and sys.exit(1); from importlib.util import find_spec; \
  find_spec("venv") and find_spec("ensurepip") or sys.exit(sys.stdout.write(" without venv") and 1)

.PHONY: help demo quick test test-all lint check docs site dataset integrations lock audit clean compiler browser

help:
	@sed -n 's/^# make/make/p' Makefile

$(STAMPS)/venv:
	$(STEP) "Making $(VENV) with Python 3.11 or newer"
	@python=; found=; for name in $(PYTHONS); do \
	  command -v $$name >/dev/null || continue; \
	  if version=$$($$name -c '$(PROBE)' 2>/dev/null); then python=$$name; break; fi; \
	  if [ -n "$$version" ]; then found="$$found, $$name is $$version"; fi; done; \
	if [ -z "$$python" ]; then found=$${found:-, none}; \
	  echo "error: no Python 3.11 or newer with venv here (found: $${found#, }); install it" \
	    "(Debian: apt-get install python3 python3-venv), then run make again" >&2; exit 1; fi; \
	echo "$$python is Python $$version"; \
	$(BIN)/python -c '$(PROBE)' >/dev/null 2>&1 || clear=--clear; \
	$$python -m venv $${clear:-} $(VENV) || { \
	  echo "error: $$python cannot make $(VENV) (see above); free space or install python3-venv, then run make again" >&2; exit 1; }
	@mkdir -p $(STAMPS); touch $@

$(STAMPS)/%: $(STAMPS)/venv pyproject.toml constraints.txt
	$(STEP) "Installing kcurate$(EXTRAS_$*) into $(VENV) $(SAID_$*)"
	@$(PIP) install --quiet --constraint constraints.txt --editable '.$(EXTRAS_$*)' 2>$(VENV)/pip.log || { \
	  why=$$(grep -m 1 '^ERROR' $(VENV)/pip.log || true); \
	  if grep -q 'connection broken' $(VENV)/pip.log; then why="no connection to the package index"; fi; \
	  echo "error: pip could not install kcurate$(EXTRAS_$*): $${why#ERROR: }; check the network and PIP_INDEX_URL," \
	    "then run make again (all that pip said: $(VENV)/pip.log)" >&2; exit 1; }
	@touch $@

compiler: $(STAMPS)/venv
	@command -v g++ >/dev/null || command -v clang++ >/dev/null || $(BIN)/python -c 'import ziglang' 2>/dev/null || { \
	  echo "error: no C++ compiler for the emulator; install one (Debian: apt-get install g++; without root:" \
	    "$(BIN)/python -m pip install -c constraints.txt ziglang), then run make again" >&2; exit 1; }

browser: $(STAMPS)/test-all
	@$(BIN)/python -c 'import sys; from tests.report.browser import executable; sys.exit(not executable())' || \
	  echo "note: no Chromium here, so tests/report/test_browser.py is skipped; apt-get install chromium runs it too"

demo: $(if $(GPU),,compiler) $(STAMPS)/demo
	$(STEP) "kcurate demo"
	@$(BIN)/kcurate demo

quick: $(STAMPS)/test
	$(STEP) "pytest $(PYTEST_ARGS) --quick --sample"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --quick --sample

test: compiler $(STAMPS)/test
	$(STEP) "pytest $(PYTEST_ARGS) --sample"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --sample

test-all: compiler $(STAMPS)/test-all browser
	$(STEP) "pytest $(PYTEST_ARGS) --run-slow"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --run-slow

lint: $(STAMPS)/test
	$(STEP) "ruff format --check"
	@$(BIN)/ruff format --check .
	$(STEP) "ruff check"
	@$(BIN)/ruff check .
	$(STEP) "mypy --strict"
	@$(BIN)/mypy

check: lint test

docs: $(STAMPS)/test
	@$(BIN)/python -m tools.reference docs/cli.md
	@$(BIN)/python -m tools.python_reference docs/python-reference.md
	@$(BIN)/python -m tools.gallery pairs/README.md
	@$(BIN)/python -m kcurate.serve.app docs/serve-openapi.json

site: $(STAMPS)/test
	@$(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

dataset: $(STAMPS)/demo
ifdef TREES
	$(STEP) "benchmarks/whole_dataset.py $(TREES)"
	@rm -rf kcurate-work/whole
	@$(BIN)/python benchmarks/whole_dataset.py "$(TREES)" --workspace kcurate-work/whole
else
	$(STEP) "kcurate build --built-in"
	@rm -rf kcurate-work/built-in
	@$(BIN)/kcurate build --built-in --workspace kcurate-work/built-in
endif

# An environment each: these packages exclude each other and ours. NeMo Gym asks for Python 3.12; what the face
# imports of it runs on 3.11 too, so it is installed without its dependencies, which are in its list.
HOSTS := $(basename $(notdir $(wildcard tests/integrations/*.txt)))
$(STAMPS)/host-%: tests/integrations/%.txt $(STAMPS)/venv
	$(STEP) "Installing $* into $(VENV)/integrations/$*"
	@$(BIN)/python -m venv --clear $(VENV)/integrations/$*
	@pip="$(VENV)/integrations/$*/bin/python -m pip --disable-pip-version-check install --quiet"; \
	$$pip --requirement $< $(if $(filter nemo_gym,$*),&& $$pip --no-deps --ignore-requires-python nemo-gym==0.4.0)
	@touch $@

integrations: compiler $(STAMPS)/test $(HOSTS:%=$(STAMPS)/host-%)
	$(STEP) "pytest tests/integrations/real_libraries.py"
	@$(BIN)/python -m pytest tests/integrations/real_libraries.py

lock: $(STAMPS)/audit
	@{ echo "# The base install (Python 3.11 and newer), every file by its hash; made by make lock."; \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	    --constraint constraints.txt pyproject.toml; } >$(VENV)/requirements.txt
	@mv $(VENV)/requirements.txt requirements.txt

# pip-audit ends with 1 both for a vulnerability, which it lists, and for a database that it cannot reach.
UNREACHED := ConnectionError|ConnectTimeout|ServiceError|HTTPError|could not be audited
audit: $(STAMPS)/audit
	@$(BIN)/pip-audit --strict --requirement requirements.txt --disable-pip --progress-spinner off \
	  2>$(VENV)/audit.log || { if grep -qE '$(UNREACHED)' $(VENV)/audit.log; then \
	  echo "error: no advisory database for these packages can be reached from here; run make audit where pypi.org" \
	    "answers (all that pip-audit said: $(VENV)/audit.log)" >&2; else cat $(VENV)/audit.log >&2; fi; exit 1; }

clean:
	rm -rf $(VENV) build dist kcurate-work .pytest_cache .mypy_cache .ruff_cache .hypothesis
