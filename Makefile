# All targets work on a machine with make and Python 3.11 or later: the environment is created from requirements.lock
# and recreated when that changes. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
# Marks the environment as created from the current lock.
STAMP := $(VENV)/.made-from-the-lock
PYTEST := $(BIN)/python -m pytest
# Images often set it. The tests start a thousand processes, and each would compile the program again.
unexport PYTHONDONTWRITEBYTECODE
TARGET ?=
# Versions for the end-to-end tests and for `make matrix`; tests/e2e/controlplane has the module files of each.
KUBERNETES ?=
# Number of test processes; tests mostly wait for servers. 0 runs the tests in pytest's own process, for debuggers.
# Those with a control plane have two, as each has a dozen processes of its own; those with a browser one.
# All tests of a file run in one process, because they may share expensive fixtures.
WORKERS ?=
SPREAD = --numprocesses $(or $(WORKERS),$(1)) --dist loadfile --no-loadscope-reorder
# What a run of all tests leaves in build/, for `make record`.
REPORT = $(if $(TARGET),,--junitxml=build/$@$(addprefix -,$(KUBERNETES)).xml)

# A recorded cluster trace beside the project, if any; otherwise a generated one is used.
TRACE := $(wildcard ../shared/data/openb)
ifneq ($(TRACE),)
export TOPOLOG_TRACE ?= $(abspath $(TRACE))
endif

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: env
env: $(STAMP) ## Create the environment .venv (other targets do so if needed)

.PHONY: demo
demo: $(STAMP) ## Run all components: store, simulated cluster, scheduler, policies
	$(BIN)/topolog demo $(TARGET)

.PHONY: test
test: $(STAMP) ## Run the tests that need no Kubernetes
	$(PYTEST) $(call SPREAD,4) -m "not e2e and not campaign and not browser" $(REPORT) $(TARGET)

.PHONY: browser
browser: $(STAMP) ## Run the tests of the dashboard in Chromium (needs chromium and chromium-driver)
	$(PYTEST) $(call SPREAD,0) -m browser --timeout 600 tests/browser $(TARGET)

.PHONY: screenshots
screenshots: $(STAMP) ## Make the screenshots of the documentation from the demo (needs Chromium)
	$(BIN)/python -m tests.support.browser.screenshots docs/images

.PHONY: vendor
vendor: $(STAMP) ## Take the vendored modules of the dashboard and its tests from their packages again (needs npm)
	$(BIN)/python -m tests.project.vendored_modules app/api/dashboard/vendor tests/support/browser/vendor

# Tests of what is built from the tree take as long as all others of tests/project; `make test` runs them.
BUILT := tests/project/test_site.py tests/project/test_release.py

.PHONY: lint
lint: $(STAMP) ## Check style, types, import contracts, the lock and tracked files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q $(call SPREAD,2) $(BUILT:%=--ignore=%) tests/project

.PHONY: e2e-builds
e2e-builds: export E2E_KUBERNETES := $(KUBERNETES)
e2e-builds: go $(STAMP) ## Build the programs that `make e2e` runs, once per machine (needs Go)
	$(BIN)/python -m tests.e2e.control_plane_builds
	$(BIN)/python -m tests.e2e.go_programs

.PHONY: e2e
e2e: export E2E_KUBERNETES := $(KUBERNETES)
e2e: e2e-builds ## Run the tests against the real Kubernetes control plane (needs Go); KUBERNETES=1.34.4 selects another
	$(PYTEST) $(call SPREAD,2) -m e2e --timeout 1800 $(REPORT) tests/e2e $(TARGET)

# A cell of the page for each KUBERNETES, STORE and PYTHON that is given: all, or versions separated by commas.
comma := ,
option = $(foreach each,$(subst $(comma), ,$(2)),--$(1) $(each))

.PHONY: matrix
matrix: $(STAMP) ## Run tests on several versions and record the results; KUBERNETES=, STORE= and PYTHON= select some
	$(BIN)/python -m tests.matrix $(call option,kubernetes,$(KUBERNETES)) $(call option,store,$(STORE)) \
	  $(call option,python,$(PYTHON)) $(TARGET)

.PHONY: record
record: $(STAMP) ## Record the results of the last `make test` and `make e2e` on the page of versions
	$(BIN)/python -m tests.matrix.reports

.PHONY: bench
bench: go $(STAMP) ## Measure against a trivial Go extender (needs Go); writes build/bench.json
	$(BIN)/python -m tests.bench $(TARGET)

.PHONY: bench-e2e
bench-e2e: go $(STAMP) ## Measure with a real kube-scheduler, gangs too (needs Go)
	$(BIN)/python -m tests.bench --e2e $(TARGET)

.PHONY: go
go:
	@command -v go >/dev/null || { echo "This target builds the Kubernetes control plane or a peer for benchmarks, and" \
	  "requires Go 1.26 or later: install golang from your distribution or from go.dev/dl," \
	  "and check that 'go version' works." >&2; exit 1; }

.PHONY: campaign
campaign: $(STAMP) ## Run the large seeded tests
	$(PYTEST) -m campaign --timeout 7200 $(TARGET)

.PHONY: docs
docs: $(STAMP) ## Regenerate the reference pages, and build the site in build/site (for the address URL)
	$(BIN)/python -m tests.project.reference_pages
	$(BIN)/sphinx-build -c docs/site --nitpicky --fail-on-warning --keep-going --quiet \
	  $(if $(URL),--define html_baseurl=$(URL)) . build/site

.PHONY: release
release: $(STAMP) ## Commit, tag and build VERSION in dist/; publishes nothing
	@[ -n "$(VERSION)" ] || { echo "usage: make release VERSION=0.2.0 [URL=https://...]" >&2; exit 1; }
	$(BIN)/python -m deploy.release $(VERSION) $(if $(URL),--url $(URL))

# The same from the tag that HEAD has, as on a machine that publishes what another one has tagged.
.PHONY: artifacts
artifacts: $(STAMP) ## Build the artifacts of VERSION, whose tag HEAD has, in dist/
	@[ -n "$(VERSION)" ] || { echo "usage: make artifacts VERSION=0.2.0 [URL=https://...]" >&2; exit 1; }
	$(BIN)/python -m deploy.release $(VERSION) --tagged $(if $(URL),--url $(URL))

COMPILE := $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links

.PHONY: lock
lock: $(STAMP) ## Regenerate the locks of the environment and the image from setup.cfg
	$(COMPILE) --extra archive --extra dev --extra demo --extra embedded --output-file requirements.lock setup.cfg
	@mkdir -p build && rm -f build/image.lock
	$(COMPILE) --extra archive --no-annotate --constraint requirements.lock --output-file build/image.lock setup.cfg - \
	  <<< 'setuptools>=77'
	@{ grep '^#' deploy/requirements.lock | grep -v 'considered to be unsafe'; cat build/image.lock; } > build/image.new
	@mv build/image.new deploy/requirements.lock

.PHONY: clean
clean: ## Remove all generated files and the environment
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# PYTHON=/path/to/python3 selects the interpreter; the default is the first of the list that is new enough and has
# venv. The system's Python comes first: like that of the image, it is built with profile-guided optimization. Builds
# of version managers usually are not, and pure Python code takes 1.5 times as long.
$(STAMP): requirements.lock
	@python= ; \
	for each in "$${PYTHON:-}" /usr/bin/python3 /usr/local/bin/python3 python3.11 python3.12 python3.13 python3; do \
	  [ -n "$$each" ] && "$$each" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    && { python=$$each; break; }; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Topolog requires Python 3.11 or later with its venv module (on Debian and Ubuntu: apt install python3-venv);" \
	    "found: $$(python3 --version 2>&1 || true). Select another one with PYTHON=/path/to/python3 make ..." >&2; \
	  exit 1; \
	fi; \
	echo "Creating $(VENV) with $$($$python --version): some minutes"; \
	"$$python" -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
