# Triton on EKS. `make` alone lists what there is. Everything runs from .venv, which the first target that needs it makes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STACK ?= dev

TWIN := $(or $(TWIN_HOME),.twin)

.PHONY: help venv up down status preview test lint format e2e lock clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

venv: $(VENV)/.installed ## the Python environment alone

up: $(VENV)/.installed ## the whole platform on this machine, ending with an inference; AUTOSCALING=1: with KEDA and Prometheus
	@$(PY) -m twin up $(if $(filter-out 0 no false,$(AUTOSCALING)),--autoscaling)

# Without an environment there is nothing to end, so none is made for it; but a twin may be left whose environment is gone.
down: ## stop and remove what `make up` made
	@if [ -e $(VENV)/.installed ]; then
	  $(PY) -m twin down
	elif [ -e "$(TWIN)" ]; then
	  $(MAKE) --no-print-directory venv
	  $(PY) -m twin down
	else
	  echo "there is no twin at $(TWIN)"
	fi

status: $(VENV)/.installed ## what runs, where, and the last inference
	@$(PY) -m twin status

preview: $(VENV)/.installed ## what `pulumi up` would do to an environment, without credentials: make preview STACK=prod
	@$(PY) -m twin preview $(STACK)

test: $(VENV)/.installed lint ## lint, then the tests of layers 1-5 (no servers left behind, no AWS account, no Go)
	@$(PY) -m pytest -q -n 2 --dist loadscope tests --ignore tests/e2e --ignore tests/serving

# The first test may have to build the Go programs: hence the long limit for each.
e2e: $(VENV)/.installed ## layer 6: the twin, end to end, and the long tests on real tritonserver processes
	@$(PY) -m pytest -v --timeout 2700 tests/e2e tests/serving

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
	$(VENV)/bin/uv pip compile worker/requirements.in -c requirements/dev.txt --universal --python-version 3.11 --generate-hashes --no-header -q -o worker/requirements.txt

clean: down ## `make down`, and the virtual environment and caches of this checkout too
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
	echo "removed $(VENV) and the caches of this checkout. What other checkouts of yours use too is left:"
	echo "  built programs (0.7 GB)      rm -rf $${XDG_CACHE_HOME:-$$HOME/.cache}/triton-eks"
	echo "  Go's caches (about 9 GB)     go clean -cache -modcache     (those of all your Go programs)"
	echo "  uv's cache (about 1.4 GB)    rm -rf $${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/uv}"

# One stamp per lock: a changed lock installs again, an unchanged one costs nothing. A half-made environment has no
# stamp and is made anew.
$(VENV)/.installed: requirements/bootstrap.txt requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 13) else "make: this needs Python 3.11 or 3.12 (Triton'"'"'s Python backend, from PyPI, has no newer one) and found %d.%d; name another one with: make PYTHON=python3.11 ..." % sys.version_info[:2])'
	$(PYTHON) -c 'import ensurepip, sys' 2>/dev/null || { echo "make: this Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	for program in git curl; do command -v $$program >/dev/null || { echo "make: $$program is needed, and not on PATH" >&2; exit 1; }; done
	start=$$SECONDS
	echo "python: making $(VENV) from the pinned, hashed lock (1.4 GB; half a minute on a fast line) ..."
	$(PYTHON) -m venv --clear $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	$(VENV)/bin/uv pip install --quiet --python $(PY) --require-hashes -r requirements/dev.txt
	touch $@
	echo "python: done in $$((SECONDS - start)) s"
