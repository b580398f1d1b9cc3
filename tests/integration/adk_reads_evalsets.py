"""Runs in google-adk's interpreter: reads a line of JSON per request, answers what ADK makes of it."""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(request: dict[str, Any]) -> Any:
    from google.adk.evaluation.eval_config import EvalConfig
    from google.adk.evaluation.eval_set import EvalSet
    from google.adk.evaluation.local_eval_sets_manager import load_eval_set_from_file

    kind, value = request["kind"], request["value"]
    if kind == "file":
        return load_eval_set_from_file(value, "given").model_dump(mode="json", exclude_none=True)
    if kind == "agents_dir":
        from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager

        eval_set = LocalEvalSetsManager(agents_dir=value).get_eval_set("app", request["id"])
        return [case.eval_id for case in eval_set.eval_cases]
    model = {"eval_set": EvalSet, "config": EvalConfig}[kind]
    return model.model_validate_json(json.dumps(value)).model_dump(mode="json", exclude_none=True)


def main() -> None:
    for line in sys.stdin:
        try:
            reply = {"ok": answer(json.loads(line))}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
