# Everything here works on a machine with make and Python 3.11 or later, and nothing else installed by hand: the
# environment is made from requirements.lock, and made anew when that changes. `make help` lists what there is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Names the lock that the environment was made from.
STAMP := $(VENV)/.made-from-the-lock
PYTEST := $(BIN)/python -m pytest
TARGET ?=

# A recorded cluster trace, where there is one beside the project; a generated one is used otherwise.
TRACE := $(wildcard ../shared/data/openb)
ifneq ($(TRACE),)
export TOPOLOG_TRACE ?= $(abspath $(TRACE))
endif

.PHONY: help
help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: env
env: $(STAMP) ## Make the environment, .venv, which the others make on their way

.PHONY: demo
demo: $(STAMP) ## Show it all at work: store, simulated cluster, scheduler, policies
	$(BIN)/topolog demo $(TARGET)

.PHONY: test
test: $(STAMP) ## Run the tests that need no Kubernetes
	$(PYTEST) -m "not e2e and not campaign" $(TARGET)

.PHONY: lint
lint: $(STAMP) ## Check style, types, import contracts, the lock and the tracked files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q tests/project

.PHONY: e2e
e2e: go $(STAMP) ## Run the tests against the real Kubernetes control plane (needs Go)
	$(BIN)/python -m tests.e2e.building
	$(PYTEST) -m e2e --timeout 1800 tests/e2e $(TARGET)

.PHONY: bench
bench: go $(STAMP) ## Measure against a trivial Go extender (needs Go); writes build/bench.json
	$(BIN)/python -m tests.bench $(TARGET)

.PHONY: bench-e2e
bench-e2e: go $(STAMP) ## Measure with a real kube-scheduler (needs Go)
	$(BIN)/python -m tests.bench --e2e $(TARGET)

.PHONY: go
go:
	@command -v go >/dev/null || { echo "This builds the Kubernetes control plane, or a peer to measure against, and" \
	  "needs Go 1.26 or later: install golang from your distribution or from go.dev/dl," \
	  "and see that 'go version' answers." >&2; exit 1; }

.PHONY: campaign
campaign: $(STAMP) ## Run the large seeded tests
	$(PYTEST) -m campaign --timeout 7200 $(TARGET)

.PHONY: docs
docs: $(STAMP) ## Write anew the reference pages that are generated
	$(BIN)/python -m tests.project.generating

COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

.PHONY: lock
lock: $(STAMP) ## Write the locks anew from setup.cfg: of the environment, and of the image
	$(COMPILE) --extra dev --extra embedded --output-file requirements.lock setup.cfg
	@mkdir -p build && rm -f build/image.lock
	$(COMPILE) --no-annotate --constraint requirements.lock --output-file build/image.lock setup.cfg - \
	  <<< 'setuptools>=77'
	@{ grep '^#' deploy/requirements.lock; cat build/image.lock; } > build/image.new
	@mv build/image.new deploy/requirements.lock

.PHONY: clean
clean: ## Remove what was made, the environment too
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# PYTHON=/path/to/python3 chooses the interpreter; else the first of these that is new enough and has venv. The
# system's own comes first: it is built with profile-guided optimization, as that of the image is. One that a
# version manager has compiled mostly is not, and takes half as long again for what is Python alone.
$(STAMP): requirements.lock
	@python= ; \
	for each in "$${PYTHON:-}" /usr/bin/python3 /usr/local/bin/python3 python3.11 python3.12 python3.13 python3; do \
	  [ -n "$$each" ] && "$$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    && { python=$$each; break; }; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Topolog needs Python 3.11 or later with its venv module (on Debian and Ubuntu: apt install python3-venv);" \
	    "found: $$(python3 --version 2>&1 || true). Name another one with PYTHON=/path/to/python3 make ..." >&2; \
	  exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$python --version)"; \
	"$$python" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
