#!/usr/bin/env bash
# google-adk with pydantic==2.10.6 in one requirements.txt: uv chooses a google-adk that cannot be imported.
#
# Valid input: "google-adk" without a version beside "pydantic==2.10.6", resolved by uv. The pin is common: agents share
#              an environment with a service that has it.
# Expected:    an error that names the pin, or a version of google-adk that works.
# Seen:        uv goes back to google-adk 1.1.1, the last one that allows this pydantic. Its module of agents imports
#              `deprecated`, which none of the installed packages declares, so no agent can be imported.
# Matters:     the install is green; what fails is the agent's first import, with the name of a package that nobody has
#              heard of. Who adds that package evaluates an ADK that is one year old. A lower bound on google-adk shows
#              the conflict at once.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check uv==0.13.8
printf 'google-adk\npydantic==2.10.6\n' >"$work/requirements.txt"
"$work/venv/bin/uv" pip install -q --python "$work/venv/bin/python" --exclude-newer 2026-11-01T00:00:00Z -r "$work/requirements.txt"
version=$("$work/venv/bin/python" -c 'from importlib.metadata import version; print(version("google-adk"))')
seen=$("$work/venv/bin/python" -c 'import google.adk.agents' 2>&1 | tail -n 1 || true)
echo "google-adk $version: $seen"
[ "$version" = 1.1.1 ] && [[ $seen == *"No module named 'deprecated'"* ]]
