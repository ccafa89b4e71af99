# Everything runs in .venv, which the first target that needs it makes. `make help` lists the targets.

PYTHON ?= python3
ARGS ?=
# Tests that start processes wait more than they compute.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
BIN := $(CURDIR)/.venv/bin
RUNTIME := .venv/.runtime
READY := .venv/.installed
SITE := .venv/.site

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast coverage check check-js fix fuzz docs bench soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## make the environment in .venv, with the tools of developers

# Without --no-compile a fifth of the time goes into bytecode, most of it for modules that are never imported.
$(RUNTIME): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	@echo "installing Reactor and its dependencies in .venv, which takes half a minute"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --editable .
	@touch $@

$(READY): $(RUNTIME)
	@echo "installing the tools of developers in .venv"
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]'
	@touch $@

# Where there is no display, Python's webbrowser would start a text browser in this terminal.
demo: OPEN = $(if $(filter Darwin,$(shell uname))$(DISPLAY)$(WAYLAND_DISPLAY),--open)
demo: $(RUNTIME) ## serve a new project at http://127.0.0.1:8080 and open the page (ARGS="--port 9000" goes to reactor run)
	@trap : INT; folder=$$(mktemp -d) && cd "$$folder" \
	&& $(BIN)/reactor init my-model >/dev/null && cd my-model \
	&& echo "serving a new project in $$folder/my-model; Ctrl-C stops the server and deletes it" \
	&& $(BIN)/reactor run $(OPEN) $(ARGS); \
	code=$$?; rm -rf "$$folder"; exit $$code

test: $(READY) ## run all tests, after installing what they need and is missing: Chromium, Node, PyTorch … (ARGS="tests/cli -x" goes to pytest)
	@PYTHON=$(BIN)/python .ci/torch
	@PYTHON=$(BIN)/python .ci/chromium
	@PYTHON=$(BIN)/python .ci/node
	@PYTHON=$(BIN)/python .ci/generator
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

test-fast: $(READY) ## run the tests that start no process and no browser
	$(BIN)/python -m pytest -m "not process and not browser" -n auto $(ARGS)

# Apart from `make test`: in Python 3.11 it takes half as long again.
coverage: $(READY) ## list the lines and branches that make test-fast leaves out, least covered modules first; fail below the floor
	@PYTHON=$(BIN)/python .ci/torch
	$(BIN)/python -m pip install --disable-pip-version-check --quiet coverage
	$(BIN)/python -m coverage run -m pytest -m "not process and not browser" $(ARGS)
	$(BIN)/python -m coverage report $(if $(ARGS),--fail-under=0)

check: PATH := $(PATH):$(BIN)
check: $(READY) ## ruff, mypy, TypeScript and Biome; changes no file of the project
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(MAKE) --no-print-directory check-js

check-js: PATH := $(PATH):$(BIN)
check-js: $(READY) ## TypeScript and Biome
	@PYTHON=$(BIN)/python .ci/node
	npm run --silent --prefix clients/js check

fix: PATH := $(PATH):$(BIN)
fix: $(READY) ## apply the fixes of ruff and Biome, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	@PYTHON=$(BIN)/python .ci/node
	npm run --silent --prefix clients/js fix

$(SITE): $(RUNTIME)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --editable '.[docs]'
	@touch $@

docs: $(SITE) ## build the documentation site in site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(READY) ## run the benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY) ## connect and disconnect clients and kill the model for 20 minutes, and check that nothing grows (ARGS="--minutes 60")
	$(BIN)/python -m benchmarks.soak $(ARGS)

fuzz: $(READY) ## fuzz what reads bytes of strangers, guided by coverage, on Linux (ARGS="mcap --seconds 3600")
	$(BIN)/python -m pip install --disable-pip-version-check --quiet atheris
	$(BIN)/python -m tests.fuzzing $(ARGS)

clean: ## remove the environment and caches
	rm -rf .coverage .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist site
