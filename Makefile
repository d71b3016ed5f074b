# The commands that people and machines rely on; `make help` lists them.
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(shell $(p) -c 'import sys; print("$(p)") if sys.version_info >= (3, 11) else None' 2>/dev/null | grep -v None)))
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD := 1
unexport PYTHONDONTWRITEBYTECODE # each worker of the tests would compile every test anew, twelve seconds of its processor

.PHONY: help setup browser cluster run test test-all compiled check format bench campaign mutants structure peers documents docs lock engine pictures casts clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)

setup: $(STAMP) browser ## create .venv with the locked dependencies, and find or install a browser

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Handloom needs Python 3.11 or newer; none was found. Install one, or run make with PYTHON=/path/to/python3."; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib core runtime tui >/dev/null || true
	@touch $@

browser:
	@.ci/browser

cluster: $(STAMP) ## add Ray to .venv, for batches on a cluster (200 MB)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .ci/cluster.lock

run: setup ## open the workspace in the current folder
	@$(BIN)/handloom

test: setup compiled ## run the first tier of the tests (minutes; as root or not); the last lines say what was left out
	@$(BIN)/python -m pytest -m "not full" --numprocesses 3 --dist worksteal --limit-s 5 $(PYTEST)

test-all: setup compiled ## run every test, as CI does (HANDLOOM_REQUIRE=docker,browser turns skips into failures)
	@failed=0; \
	$(MAKE) --no-print-directory test || failed=1; \
	$(BIN)/python -m pytest -m "full and not alone" --numprocesses 3 --dist loadfile $(PYTEST) || failed=1; \
	$(BIN)/python -m pytest -m "full and alone" $(PYTEST) || failed=1; \
	exit $$failed

compiled: $(STAMP) # programs that tests start write no bytecode, so it has to exist before
	@$(BIN)/python -m compileall -q -j 0 core runtime tui tests >/dev/null || true

check: $(STAMP) ## check lint, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin core tui runtime handloom
	$(BIN)/lint-imports --no-cache

engine: ## start a container engine and make a base image on a bare Debian; the last line is DOCKER_HOST=...
	@.ci/engine

format: $(STAMP) ## format every file
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## measure every figure and print it beside its limit and target (BENCH_JSON=FILE saves them)
	@$(BIN)/python -m tests.bench

campaign: setup ## run the full counts of kills, faults and fuzzed inputs; the tests run a short form
	@$(BIN)/python -m tests.campaign

mutants: setup ## plant small bugs in the last change or in PACKAGE=core/store and print those that no test notices (COUNT=60 SEED= SINCE=COMMIT)
	@$(BIN)/python -m tests.mutants $(if $(PACKAGE),--package $(PACKAGE)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(SINCE),--since $(SINCE))

structure: $(STAMP) ## print the sizes of the code, its longest files and its import cycles beside their budgets
	@$(BIN)/python -m tests.structure

peers: setup ## compare with OpenHands' client, BrowserGym, MCP servers and agents of others; the first run installs them (minutes)
	@$(BIN)/python -m tests.peers

pictures: setup ## record the pictures in docs/ from the running program
	@$(BIN)/python -m tests.pictures && $(BIN)/python -m tests.tour
	@$(BIN)/python -m tests.terminal_picture

casts: setup ## record docs/*.cast from the running program: every kind of question, and the sessions of three agents
	@HANDLOOM_CASTS="$(CURDIR)/docs" $(BIN)/python -m pytest -q tests/journeys/test_questions.py \
		tests/journeys/test_agent_sessions.py -k "every_kind or found_searched"

documents: setup ## write the parts of docs/ that are generated from the program and its tests
	@$(BIN)/python -m tests.documents

docs: $(DOCS_STAMP) ## build the manual as a web site in .site
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --config-file .ci/mkdocs.yml
	@echo "Open .site/index.html. For the search, serve it: python3 -m http.server --bind 127.0.0.1 --directory .site"

$(DOCS_STAMP): docs/requirements.lock
	@test -n "$(PYTHON)" || { echo "Building the manual needs Python 3.11 or newer; none was found."; exit 2; }
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r docs/requirements.lock
	@touch $@

lock: ## resolve the dependencies again, with hashes, none younger than a week
	@$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip install --quiet uv
	@$(VENV)-lock/bin/uv pip compile --quiet pyproject.toml --extra dev --extra documents --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-annotate --exclude-newer "$$(date -u -d '8 days ago' +%Y-%m-%d 2>/dev/null || date -u -v-8d +%Y-%m-%d)" \
	  --custom-compile-command "make lock" -o requirements.lock
	@$(VENV)-lock/bin/uv pip compile --quiet --group sandbox --constraints requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --custom-compile-command "make lock" -o runtime/image/requirements.lock
	@$(VENV)-lock/bin/uv pip compile --quiet --group vscode --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-annotate \
	  --exclude-newer "$$(date -u -d '8 days ago' +%Y-%m-%d 2>/dev/null || date -u -v-8d +%Y-%m-%d)" \
	  --custom-compile-command "make lock" -o runtime/image/vscode.lock
	@$(VENV)-lock/bin/uv pip compile --quiet --group docs --constraints requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --exclude-newer "$$(date -u -d '8 days ago' +%Y-%m-%d 2>/dev/null || date -u -v-8d +%Y-%m-%d)" \
	  --custom-compile-command "make lock" -o docs/requirements.lock
	@$(VENV)-lock/bin/uv pip compile --quiet pyproject.toml --extra cluster --constraints requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
	  --exclude-newer "$$(date -u -d '8 days ago' +%Y-%m-%d 2>/dev/null || date -u -v-8d +%Y-%m-%d)" \
	  --custom-compile-command "make lock" -o .ci/cluster.lock
	@rm -rf $(VENV)-lock

clean: ## remove what setup and docs made
	@rm -rf $(VENV) $(DOCS_VENV) .site
