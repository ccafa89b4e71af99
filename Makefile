# Everything runs in .venv, which the first target that needs it makes. `make help` lists the targets.

PYTHON ?= python3
ARGS ?=
BIN := $(CURDIR)/.venv/bin
READY := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo test check fix bench soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(READY) ## make the environment in .venv

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(READY) ## scaffold a project and serve it at http://127.0.0.1:8080 (ARGS="--port 9000" goes to reactor run)
	@trap : INT; folder=$$(mktemp -d) && cd "$$folder" \
	&& $(BIN)/reactor init my-model && cd my-model && $(BIN)/reactor run $(ARGS); \
	code=$$?; rm -rf "$$folder"; exit $$code

test: $(READY) ## run the tests, after installing Chromium, Node and a client generator where none is found (ARGS="tests/cli -x" goes to pytest)
	@PYTHON=$(BIN)/python .ci/chromium
	@PYTHON=$(BIN)/python .ci/node
	@PYTHON=$(BIN)/python .ci/generator
	$(BIN)/python -m pytest $(ARGS)

check: $(READY) ## ruff and mypy; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(READY) ## let ruff mend and format what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## run the benchmarks
	$(BIN)/python -m benchmarks $(ARGS)

soak: $(READY) ## let clients come and go and the model die, for 20 minutes; nothing may grow (ARGS="--minutes 60")
	$(BIN)/python -m benchmarks.soak $(ARGS)

clean: ## remove the environment and caches
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
