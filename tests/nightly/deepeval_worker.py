"""Calls the adapter with the real deepeval, and prints as JSON what it returned and where it connected to.

Started as `PYTHON deepeval_worker.py ADAPTER CALLS`: the adapter's file, and a JSON list of criteria.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from typing import Any

TOUCHED: list[str] = []


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Notes every host that is looked up or connected to."""
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        TOUCHED.append(str(arguments[1][0]))
    elif event == "socket.getaddrinfo":
        TOUCHED.append(str(arguments[0]))


def load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("agent_eval_deepeval", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    sys.addaudithook(watch)
    adapter = load(sys.argv[1])
    from google.adk.evaluation.eval_case import Invocation
    from google.adk.evaluation.eval_metrics import BaseCriterion, EvalMetric

    def turn(user: str, answer: str, calls: list[Any]) -> Invocation:
        return Invocation.model_validate(
            {
                "user_content": {"role": "user", "parts": [{"text": user}]},
                "final_response": {"role": "model", "parts": [{"text": answer}]},
                "intermediate_data": {"tool_uses": [{"name": call["name"], "args": call["args"]} for call in calls]},
            }
        )

    answers = []
    for call in json.loads(sys.argv[2]):
        metric = EvalMetric(metric_name="mine", criterion=BaseCriterion.model_validate(call["criterion"]))
        turns = call["turns"]
        try:
            result = asyncio.run(
                adapter.metric(
                    metric,
                    [turn(item["user"], item["answer"], item["calls"]) for item in turns],
                    [turn(item["user"], item["expected"], item["expected_calls"]) for item in turns],
                    None,
                )
            )
            reasons = [rubric.rationale for rubric in result.overall_rubric_scores or ()]
            answers.append([result.overall_score, result.overall_eval_status.name, *reasons])
        except Exception as error:
            answers.append([type(error).__name__, str(error)])
    print(json.dumps({"answers": answers, "hosts": sorted(set(TOUCHED)), "version": adapter.metric.version}))


if __name__ == "__main__":
    main()
