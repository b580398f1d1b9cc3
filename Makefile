# Each target sets up what it needs. Only Python 3.11 (or newer) and make must be there.
UV := $(or $(shell command -v uv 2>/dev/null),$(CURDIR)/.uv/bin/uv)
RUN := $(UV) run --frozen --quiet
# What another project's environment may have left must not lead uv astray.
unexport VIRTUAL_ENV

.PHONY: help demo demo-broken test lint format conformance test-container bench clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 24

demo: ## Gate the example agent: a real ADK agent that needs no key. Passes
	./entrypoint run examples/home_automation

demo-broken: ## The same eval files on a copy with one broken tool. Fails with exit code 1
	./entrypoint run examples/home_automation --agent examples/home_automation_broken

test: $(UV) ## Unit and integration tests
	$(RUN) pytest -n auto -m "not conformance and not container"

lint: $(UV) ## Everything that can be checked without running
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) lint-imports --no-logo
	$(RUN) check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(RUN) check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(RUN) --group lint actionlint
	$(RUN) --group lint zizmor --offline --quiet .
	$(RUN) --group lint hadolint Dockerfile
	$(RUN) --group lint shellcheck .ci/run .ci/engine

format: $(UV) ## Format and mend what can be mended
	$(RUN) ruff check --fix
	$(RUN) ruff format

conformance: $(UV) ## Compare the scores with google-adk[eval] 2.13.0 on random input
	$(RUN) pytest -m conformance

test-container: $(UV) ## Build the image and start it as GitHub does; needs a container engine
	$(RUN) --group container pytest -m container

bench: $(UV) ## Measure beside `adk eval`: what docs/performance.md quotes
	$(RUN) python benchmarks/run.py

clean: ## Remove what the targets made here
	rm -rf .venv .venv-cli .uv .bench .mypy_cache .ruff_cache .pytest_cache agent-eval-results

# Where pip can't install beside the system's packages, a virtual environment can.
$(CURDIR)/.uv/bin/uv:
	python3 -m pip install --quiet --disable-pip-version-check --target .uv uv || \
		{ python3 -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check uv; }
