# The whole developer interface. `make serve` and `make test` do all of their own set-up; a second run does none of it again.

PYTHON  ?= python3.11
VENV    ?= .venv
PORT    ?= 8000
MODEL   ?=
ARGS    ?=
TESTS   ?= tests
URL     ?= http://127.0.0.1:$(PORT)
CALLS   ?= 10000

BIN      := $(VENV)/bin
HARDWARE ?= $(shell nvidia-smi -L 2>/dev/null | grep -q GPU && echo gpu || echo cpu)
PIP      := $(BIN)/python -m pip --disable-pip-version-check
SERVER   := $(VENV)/.installed-$(HARDWARE)
DEV      := $(VENV)/.installed-dev
PROJECT  := $(VENV)/.installed-project

.PHONY: help install serve test test-v2 test-clients schemathesis test-deploy test-image chart lint format bench bench-engine clean
.DELETE_ON_ERROR:

help:
	@echo "make serve    set up, then serve on port $(PORT)  (MODEL=<hub name or folder>, PORT=, ARGS=<vLLM flags>)"
	@echo "make test     set up, then run every test         (TESTS=<paths or pytest options>)"
	@echo "make test-v2  constraints under vLLM's V2 model runner, on the CPU: minutes"
	@echo "make test-clients  LangChain, Instructor, PydanticAI and OpenAI's Node client against a live server"
	@echo "make schemathesis  10,000 calls made up from the OpenAPI description of a running server (URL=, CALLS=)"
	@echo "make test-deploy  image, chart, Terraform, alerts: checked by the real tools, which it fetches"
	@echo "make test-image   builds and runs the images on a Debian root, with buildah: minutes"
	@echo "make chart    write docs/settings.md, the chart's schema and its README anew, after a change of the settings or of its values"
	@echo "make lint     ruff, format check, mypy"
	@echo "make bench    benchmarks"
	@echo "make bench-engine  what the masks cost the engine"
	@echo "make install  only the set-up"

install: $(SERVER) $(DEV) $(PROJECT)

$(BIN)/python:
	@echo "==> creating $(VENV) with $(PYTHON)"
	$(PYTHON) -m venv $(VENV)

# --no-deps: the lock files are complete, and what vLLM would pull in beside them does not import on a CPU.
$(SERVER): requirements/$(HARDWARE).txt | $(BIN)/python
	@echo "==> installing requirements/$(HARDWARE).txt (2 to 6 minutes, 2.6 GB)"
	$(PIP) install --no-deps -r requirements/$(HARDWARE).txt
	@$(BIN)/python scripts/check_torch.py $(HARDWARE)
	@touch $@

$(DEV): requirements/dev.txt | $(BIN)/python
	@echo "==> installing requirements/dev.txt"
	$(PIP) install --no-deps -r requirements/dev.txt
	@touch $@

$(PROJECT): pyproject.toml | $(BIN)/python
	@echo "==> installing this project in editable form"
	$(PIP) install --no-deps -e .
	@touch $@

serve: $(SERVER) $(PROJECT)
	@model='$(MODEL)'; \
	if [ -z "$$model" ]; then model=$$($(BIN)/python scripts/prepare_model.py) || exit 1; fi; \
	exec $(BIN)/guided-server --model "$$model" --port $(PORT) $(ARGS)

test: install
	@$(BIN)/python scripts/prepare_model.py >/dev/null
	@$(BIN)/python scripts/fetch_tokenizers.py
	@$(BIN)/python scripts/fetch_programs.py
	$(BIN)/python -m pytest $(TESTS)

test-v2: install
	@$(BIN)/python scripts/prepare_model.py >/dev/null
	@$(BIN)/python scripts/fetch_triton.py
	GUIDED_TEST_V2_RUNNER=1 $(BIN)/python -m pytest tests/v2_runner

test-clients: install
	@$(BIN)/python scripts/prepare_model.py >/dev/null
	@$(BIN)/python -m scripts.fetch_clients
	GUIDED_TEST_CLIENTS=1 $(BIN)/python -m pytest tests/clients

schemathesis: install
	@$(BIN)/python -m scripts.fetch_clients
	$(BIN)/python -m loadtests.openapi --url $(URL) --calls $(CALLS)

test-deploy: install
	@$(BIN)/python scripts/fetch_deploy_tools.py
	GUIDED_TEST_DEPLOY=1 $(BIN)/python -m pytest tests/deploy

test-image: install
	@$(BIN)/python scripts/fetch_deploy_tools.py mmdebstrap
	GUIDED_TEST_DEPLOY=1 GUIDED_TEST_IMAGE=1 $(BIN)/python -m pytest tests/deploy/test_image_build.py

chart: install
	$(BIN)/python scripts/settings_docs.py
	$(BIN)/python scripts/chart_docs.py

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python -m benchmarks

bench-engine: install
	@$(BIN)/python scripts/prepare_model.py >/dev/null
	$(BIN)/python -m benchmarks.engine --engine

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
