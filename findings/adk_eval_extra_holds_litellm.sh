#!/usr/bin/env bash
# google-adk 2.13.0 and litellm 1.110.2: what the agent needs can't be installed beside what `adk eval` needs.
#
# Valid input: an agent that pins google-adk 2.13.0 and litellm 1.110.2, and wants to run `adk eval`, which needs the
#              extra `eval`.
# Expected:    an extra for evaluation adds packages; the agent that is evaluated stays as it is.
# Seen:        without the extra, pip finds a set of packages. With it, none: the extra asks for
#              google-cloud-aiplatform[evaluation], whose newest release in range, 2.7.0, wants litellm below 1.97.
# Matters:     an agent without an exact pin is silently evaluated with another LiteLLM than the one that it is deployed
#              with; with a pin, it can't be evaluated in its own environment.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
resolves() {
  if "$work/venv/bin/pip" install -qq --disable-pip-version-check --dry-run "$@" >"$work/log" 2>&1; then
    echo yes
  elif grep -q ResolutionImpossible "$work/log"; then
    echo conflict
  else
    cat "$work/log" >&2
  fi
}
{
  echo "agent: $(resolves google-adk==2.13.0 litellm==1.110.2)"
  echo "agent with eval: $(resolves 'google-adk[eval]==2.13.0' litellm==1.110.2 google-cloud-aiplatform==2.7.0)"
  echo "eval with litellm 1.96.2: $(resolves 'google-adk[eval]==2.13.0' litellm==1.96.2 google-cloud-aiplatform==2.7.0)"
} | tee "$work/seen"
diff "$work/seen" - <<'SEEN'
agent: yes
agent with eval: conflict
eval with litellm 1.96.2: yes
SEEN
echo "as before: the extra holds LiteLLM back"
