# Triton on EKS. `make` alone lists what there is. Everything runs from .venv, which the first target that needs it makes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STACK ?= dev

.PHONY: help up down status preview test lint format e2e lock clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

up: $(VENV)/.installed ## the whole platform on this machine: AWS stand-in, control plane, Pulumi, Triton, one inference
	@$(PY) -m twin up

down: $(VENV)/.installed ## stop and remove what `make up` made
	@$(PY) -m twin down

status: $(VENV)/.installed ## what runs, where, and the last inference
	@$(PY) -m twin status

preview: $(VENV)/.installed ## what `pulumi up` would do to an environment, without credentials: make preview STACK=prod
	@$(PY) -m twin preview $(STACK)

test: $(VENV)/.installed lint ## lint, then the tests of layers 1-5 (no servers left behind, no AWS account, no Go)
	@$(PY) -m pytest -q -n 2 --dist loadscope tests --ignore tests/e2e

# The first test may have to build the Go programs: hence the long limit for each.
e2e: $(VENV)/.installed ## layer 6: the twin, end to end, with the real engine, control plane and tritonserver
	@$(PY) -m pytest -v --timeout 2700 tests/e2e

lint: $(VENV)/.installed ## ruff, ruff format, mypy, shellcheck, yamllint
	@$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	git ls-files -z '*.sh' .ci/run | xargs -0 $(VENV)/bin/shellcheck
	$(VENV)/bin/yamllint --strict .

format: $(VENV)/.installed ## let ruff format and fix
	@$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

lock: $(VENV)/.installed ## resolve requirements/*.in anew into pinned, hashed locks
	@for set in bootstrap dev; do
	  $(VENV)/bin/uv pip compile requirements/$$set.in --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements/$$set.txt
	done
	$(VENV)/bin/uv pip compile requirements/runtime.in -c requirements/dev.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements.txt

clean: down ## `make down`, and the virtual environment and caches of this checkout too
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# One stamp per lock: a changed lock installs again, an unchanged one costs nothing. A half-made environment has no
# stamp and is made anew.
$(VENV)/.installed: requirements/bootstrap.txt requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 13) else "make: this needs Python 3.11 or 3.12 (Triton'"'"'s Python backend, from PyPI, has no newer one) and found %d.%d; name another one with: make PYTHON=python3.11 ..." % sys.version_info[:2])'
	start=$$SECONDS
	echo "python: making $(VENV) from the pinned, hashed lock (1.4 GB; half a minute on a fast line) ..."
	$(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	$(VENV)/bin/uv pip install --quiet --python $(PY) --require-hashes -r requirements/dev.txt
	touch $@
	echo "python: done in $$((SECONDS - start)) s"
