# Each target sets up what it needs. Only Python 3.11 (or newer) and make are required.
UV := $(or $(shell command -v uv 2>/dev/null),$(CURDIR)/.uv/bin/uv)
BIN := .venv/bin
PAGE_CHECKS := tools/page_checks
COMPILE := $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
# Another project's active environment must not confuse uv.
unexport VIRTUAL_ENV
# actionlint calls shellcheck, npm calls node, the container tests call act.
lint lint-page test-browser test-container: export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help demo demo-broken demo-judged test test-slow test-all crossings test-browser lint lint-page format conformance nightly test-container bench bench-errors bench-end-to-end findings lock site clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1	/' | expand -t 24

demo: ## Gate the example agent: a real ADK agent that needs no key. Passes
	./entrypoint run examples/home_automation

demo-broken: ## The same eval files on a copy with one broken tool, which the gate must fail
	@./entrypoint run examples/home_automation --agent examples/home_automation_broken; code=$$?; \
		test $$code -eq 1 && echo "\nExit code 1, as intended. In this clone, agent-eval is ./entrypoint."

demo-judged: ## Every ADK criterion, with judges and simulated users from a local server. Passes
	python3 examples/hotel_concierge/serve.py ./entrypoint run examples/hotel_concierge

# The tests start hundreds of processes: with bytecode on disk, each starts faster. Half of the time the tests wait for
# processes, so there are more workers than cores. Each worker imports every test file: only those that may run are named.
WORKERS = $$(python3 -c "import os; print((os.cpu_count() or 2) * 2)")
# CI repeats a failed test once and lists it (tests/README.md); elsewhere a failure is a failure.
REPEATED = $(if $(filter true,$(CI)),--reruns 1 --rerun-show-tracebacks -raR)
PARALLEL = env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest $(REPEATED) -n $(WORKERS)
test: .venv/ready ## Unit and integration tests, with one version of google-adk
	$(PARALLEL) --dist worksteal tests/scoring tests/agents tests/results tests/workbench tests/unit tests/integration -m "not slow and not conformance and not nightly"

test-slow: .venv/ready ## The rest of them: older versions of google-adk, the sandbox, how processes end, environments
	$(PARALLEL) --dist worksteal tests/scoring tests/agents tests/results tests/workbench tests/unit tests/integration -m "slow and not conformance and not nightly"

test-all: test test-slow crossings ## The three of them

crossings: .venv/ready ## Where two features meet: a pairwise cover of each table; CROSSINGS=all for all cells
	$(PARALLEL) tests/crossings

lint: .venv/ready lint-page ## All static checks
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/size.py
	$(BIN)/python tools/one_binding.py
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml gate/action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/actionlint
	$(BIN)/zizmor --offline --quiet --persona auditor .
	$(BIN)/hadolint Dockerfile
	$(BIN)/shellcheck .ci/run .ci/engine findings/*.sh

lint-page: $(PAGE_CHECKS)/node_modules/ready ## Checks of report.html's JavaScript only
	$(PAGE_CHECKS)/node_modules/.bin/tsc -p $(PAGE_CHECKS)
	$(PAGE_CHECKS)/node_modules/.bin/eslint --config $(PAGE_CHECKS)/eslint.config.js src/agent-eval-results/agent_eval_results/report/html

format: .venv/ready ## Format the code and apply automatic fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-browser: .venv/ready $(PAGE_CHECKS)/node_modules/ready ## report.html in Chromium, and in Firefox where it is installed. Needs Chromium
	$(BIN)/pytest $(REPEATED) tests/browser -n 2 --dist loadfile

conformance: .venv/ready ## Compare scores with google-adk[eval] 2.13.0 on random input
	$(BIN)/pytest -m conformance

nightly: .venv/ready ## With the real DeepEval, VeADK, LiteLLM and Anthropic, which are large; bounds of time and memory
	$(BIN)/pytest -m nightly

test-container: .venv/ready ## End to end: a bare clone; the image, started as GitHub does. Needs a container engine
	$(BIN)/pytest $(REPEATED) tests/e2e -m container

bench: .venv/ready ## Compare the speed with `adk eval`: the figures of benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

bench-errors: .venv/ready ## Measure the gate's error rates: the tables of benchmarks/RESULTS.md and the pictures of docs/statistics.md
	$(BIN)/python benchmarks/gate_error_rates.py
	$(BIN)/python benchmarks/draw_statistics.py

bench-end-to-end: .venv/ready ## The same with real processes: 240 pull requests through the whole gate, 15 minutes
	$(BIN)/python benchmarks/gate_end_to_end.py

lock: $(UV) ## Update the locked versions after a change in pyproject.toml; UPGRADE=--upgrade for the newest
	$(COMPILE) $(UPGRADE) pyproject.toml --extra openai --extra yaml --output-file requirements/run.txt
	$(COMPILE) $(UPGRADE) --group build --constraint requirements/run.txt --output-file requirements/build.txt
	$(COMPILE) $(UPGRADE) pyproject.toml --group dev --group lint --group container --group browser \
		--constraint requirements/run.txt --output-file requirements/dev.txt

findings: ## Run the scripts of findings/: surprises about outside software, which a new version may end
	@failed=; for script in findings/*.sh; do echo "=== $$script"; ./$$script || failed="$$failed $$script"; done; \
		[ -z "$$failed" ] || { echo "no longer so:$$failed"; exit 1; }

site: $(UV) ## Build the documentation's site, with search, in .site/html
	python3 tools/site_of_docs.py
	$(UV) tool run --from zensical==0.0.73 zensical build

clean: ## Remove all files that the targets created
	rm -rf $(PAGE_CHECKS)/node_modules .venv .venv-cli .uv .bench .mypy_cache .ruff_cache .pytest_cache .site agent-eval-results

.venv/ready: pyproject.toml requirements/dev.txt requirements/build.txt | $(UV)
	$(UV) venv --quiet --allow-existing .venv
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements/dev.txt
	$(UV) pip install --quiet --python $(BIN)/python --build-constraints requirements/build.txt \
		--no-deps --editable .
	touch $@

$(PAGE_CHECKS)/node_modules/ready: $(PAGE_CHECKS)/package-lock.json .venv/ready
	cd $(PAGE_CHECKS) && npm ci --silent --no-audit --no-fund
	touch $@

# If the system's pip can't install, use a virtual environment.
$(CURDIR)/.uv/bin/uv:
	python3 -m pip install --quiet --disable-pip-version-check --target .uv --require-hashes -r requirements/build.txt || \
		{ python3 -m venv .uv && .uv/bin/pip install --quiet --disable-pip-version-check --require-hashes \
			-r requirements/build.txt; }
