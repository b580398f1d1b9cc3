#!/usr/bin/env bash
# agentevals-cli 0.11.0: `agentevals run` ends with 0 if no metric was evaluated.
#
# Valid input: an ADK eval set, and an OTLP trace in OpenTelemetry's conventions whose user says something else than the case, as after a
#              case was reworded. The same is seen with the traces of strands-agents 1.62.0, whose messages it does not find.
# Expected:    a failure, as for a metric below its threshold, and as for a trace without invocations (both end with 1).
# Seen:        every metric is NOT_EVALUATED ("no matching eval case"), and the command ends with 0.
# Matters:     in CI such a step is green for ever, whatever the agent does.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check agentevals-cli==0.11.0
python3 - "$work" <<'PYTHON'
import json
import sys
from pathlib import Path


def text(value):
    return {"stringValue": value}


def said(role, words):
    return text(json.dumps([{"role": role, "parts": [{"type": "text", "content": words}]}]))


work = Path(sys.argv[1])
values = {
    "gen_ai.operation.name": text("invoke_agent"),
    "gen_ai.agent.name": text("shop"),
    "gen_ai.input.messages": said("user", "Is the shop open?"),
    "gen_ai.output.messages": said("assistant", "Yes."),
}
span = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "invoke_agent shop",
    "kind": 1,
    "startTimeUnixNano": "1790000000000000000",
    "endTimeUnixNano": "1790000001000000000",
    "attributes": [{"key": key, "value": value} for key, value in values.items()],
}
trace = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}
(work / "trace.json").write_text(json.dumps(trace))
for name, words in {"same": "Is the shop open?", "reworded": "Are you open?"}.items():
    turn = {"user_content": {"role": "user", "parts": [{"text": words}]}, "final_response": {"parts": [{"text": "No."}]}}
    cases = [{"eval_id": "open", "conversation": [turn]}, {"eval_id": "other", "conversation": [{**turn, "user_content": {"parts": [{"text": "Hi"}]}}]}]
    (work / f"{name}.json").write_text(json.dumps({"eval_set_id": "shop", "eval_cases": cases}))
PYTHON
for name in same reworded; do
  code=0
  "$work/venv/bin/agentevals" run "$work/trace.json" -e "$work/$name.json" -m response_match_score -t 0.9 -o json >"$work/out" 2>"$work/log" || code=$?
  python3 -c "
import json, sys
[metric] = json.load(open('$work/out'))['traces'][0]['metrics']
print('$name:', metric['eval_status'], 'exit code', $code)" | tee -a "$work/seen"
done
diff "$work/seen" - <<'SEEN' || { tail -20 "$work/log"; exit 1; }
same: FAILED exit code 1
reworded: NOT_EVALUATED exit code 0
SEEN
echo "as before: nothing was evaluated, and the exit code is 0"
