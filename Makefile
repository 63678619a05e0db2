# Two commands for a newcomer: `make demo` and `make test`. Each makes .venv from nothing.
# make demo    the whole pipeline on what is shipped; on the emulator, or on the GPU if there is one
# make quick   the tests that start no judge or compiler and import no torch: one minute
# make test    the tests; of the built-in pairs and cheats, those that changed and a third
# make check   what must be green before a commit: format, lint, types, tests
# make clean   remove .venv and everything that was built

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
GPU := $(shell command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1 && echo yes)
DEMO_EXTRAS := $(if $(GPU),[gpu])
TEST_EXTRAS := [gpu,train,dev]
PYTEST_ARGS ?= -n 2
STAMPS := $(VENV)/.stamps
STEP := @printf '\n== %s\n'

.PHONY: help demo quick test check docs clean

help:
	@sed -n 's/^# //p' Makefile

$(STAMPS)/venv:
	$(STEP) "Making $(VENV) with the newest Python from 3.11 on"
	@python=; for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if command -v $$name >/dev/null && $$name -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then python=$$name; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "error: kcurate needs Python 3.11 or newer with venv; on Debian: apt-get install python3 python3-venv" >&2; exit 1; fi; \
	echo "$$python is $$($$python --version)"; $$python -m venv $(VENV)
	@mkdir -p $(STAMPS); touch $@

$(STAMPS)/demo: $(STAMPS)/venv pyproject.toml constraints.txt
	$(STEP) "Installing kcurate$(DEMO_EXTRAS) into $(VENV)$(if $(GPU),, (no GPU here: without the NVRTC packages))"
	$(PIP) install --quiet --constraint constraints.txt --editable '.$(DEMO_EXTRAS)'
	@touch $@

$(STAMPS)/test: $(STAMPS)/venv pyproject.toml constraints.txt
	$(STEP) "Installing kcurate$(TEST_EXTRAS) into $(VENV) (NVRTC 200 MB and torch included)"
	$(PIP) install --quiet --constraint constraints.txt --editable '.$(TEST_EXTRAS)'
	@touch $@

demo: $(STAMPS)/demo
	$(STEP) "kcurate demo"
	@$(BIN)/kcurate demo

quick: $(STAMPS)/test
	$(STEP) "pytest $(PYTEST_ARGS) --quick --sample"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --quick --sample

test: $(STAMPS)/test
	$(STEP) "pytest $(PYTEST_ARGS) --sample"
	@$(BIN)/python -m pytest $(PYTEST_ARGS) --sample

check: $(STAMPS)/test
	$(STEP) "ruff format --check"
	@$(BIN)/ruff format --check .
	$(STEP) "ruff check"
	@$(BIN)/ruff check .
	$(STEP) "mypy --strict"
	@$(BIN)/mypy
	$(STEP) "pytest $(PYTEST_ARGS)"
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

docs: $(STAMPS)/test
	@$(BIN)/python -m kcurate.cli.reference docs/cli.md
	@$(BIN)/python -m kcurate.gallery pairs/README.md

clean:
	rm -rf $(VENV) build dist kcurate-work .pytest_cache .mypy_cache .ruff_cache .hypothesis
