# coppice: every command of the house. GNU make 3.81 and a POSIX sh are enough.

.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help setup run test check cases bench test-peers lock clean
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.setup-done
PEERS := .peers
NODE_VERSION := 22
PI_VERSION := 1.6.0

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' Makefile

setup: $(STAMP) ## make .venv with every pinned package and coppice itself; a no-op when that is done

$(STAMP): requirements.lock pyproject.toml
	@set -e; \
	if ! $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	  found=; \
	  for candidate in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	    if $$candidate -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	      found=$$candidate; break; \
	    fi; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo 'setup: no Python 3.11 or newer found; name one: make setup PYTHON=/path/to/python3.11' >&2; exit 1; \
	  fi; \
	  echo "setup: making $(VENV) with $$found"; \
	  $$found -m venv --clear $(VENV); \
	fi; \
	echo 'setup: installing the pinned packages'; \
	$(PY) -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock; \
	$(PY) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	$(PY) -m compileall -q src; \
	touch $@; \
	echo 'setup: done'

run: setup ## start coppice here, or its demo where there is no terminal
	@if [ -t 0 ]; then $(VENV)/bin/coppice; else $(VENV)/bin/coppice demo; fi

test: setup ## the whole suite
	@$(PY) -m pytest -n 2 -q

check: setup ## format, lint, types, architecture and the quick tests, in under a minute
	@$(PY) -m ruff format --check --quiet . || { echo 'check: run ruff format' >&2; exit 1; }
	@$(PY) -m ruff check --quiet .
	@$(PY) -m basedpyright
	@$(PY) -m pytest -n 2 -q -m 'not slow and not peers'

cases: setup ## the acceptance cases, one line each
	@$(PY) -m pytest -n 2 -q -m 'case and not peers' --cases

bench: setup ## our figures beside the peers'
	@$(PY) -m benchmarks

test-peers: setup ## compare with Pi itself, which is installed into .peers
	@set -e; \
	if ! command -v npm >/dev/null 2>&1; then \
	  echo 'skipped: npm is not installed, so Pi cannot be'; [ "$$CI" != true ]; exit; \
	fi; \
	if [ ! -f $(PEERS)/.installed-$(NODE_VERSION)-$(PI_VERSION) ]; then \
	  rm -rf $(PEERS); mkdir -p $(PEERS); \
	  echo '{"private": true}' > $(PEERS)/package.json; \
	  echo 'test-peers: installing Node $(NODE_VERSION) and Pi $(PI_VERSION)'; \
	  npm install --prefix $(PEERS) --silent --no-audit --no-fund node@$(NODE_VERSION); \
	  npm install --prefix $(PEERS) --silent --no-audit --no-fund --ignore-scripts --force \
	    @earendil-works/pi-coding-agent@$(PI_VERSION); \
	  touch $(PEERS)/.installed-$(NODE_VERSION)-$(PI_VERSION); \
	fi; \
	PATH="$$PWD/$(PEERS)/node_modules/.bin:$$PATH" \
	PI_ROOT="$$PWD/$(PEERS)/node_modules/@earendil-works/pi-coding-agent" \
	  $(PY) -m pytest -q -m peers tests/peers

lock: ## pin the newest packages that pyproject.toml allows; needs uv
	@{ sed -n 1p requirements.lock; \
	  uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade --generate-hashes \
	    --no-emit-index-url --no-header --quiet; } > requirements.lock.new
	@mv requirements.lock.new requirements.lock

clean: ## everything that was made here
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .ruff_cache .hypothesis benchmarks/out
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
