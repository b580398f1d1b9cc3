"""Datasets of agents-cli, by what is special about them, and their configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from evalset_samples import write

FOLDER = Path("tests/eval")


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def event(author: str, text: str = "", **more: Any) -> dict[str, Any]:
    content = {"content": said(text, "user" if author == "user" else "model")} if text else {}
    return {"author": author, **content, **more}


def asked(eval_id: str, text: str, answer: str = "", **more: Any) -> dict[str, Any]:
    """A case with a message, perhaps with a reference."""
    reference = {"reference": {"response": said(answer, "model")}} if answer else {}
    return {"eval_case_id": eval_id, "prompt": said(text), **reference, **more}


def talked(eval_id: str, *turns: list[dict[str, Any]], answer: str = "", **more: Any) -> dict[str, Any]:
    """A case with a conversation, perhaps with a reference."""
    reference = {"reference": {"response": said(answer, "model")}} if answer else {}
    data = {"turns": [{"turn_index": number, "events": events} for number, events in enumerate(turns)]}
    return {"eval_case_id": eval_id, "agent_data": data, **reference, **more}


PARTS: list[tuple[str, list[dict[str, Any]]]] = [
    ("model", [{"functionCall": {"id": "d", "name": "price", "args": {"seats": 1.5}}}]),
    ("user", [{"functionResponse": {"id": "d", "name": "price", "response": {"euros": None}}}]),
    ("model", [{"text": "Hm. ", "thought": True}, {"text": "Ten "}, {"text": "euros."}]),
]
EVENTS = [{"author": "cinema", "content": {"role": role, "parts": parts}} for role, parts in PARTS]
"""What the agent says in every case of the vectors."""
INSTANCES = Path(__file__).parents[1] / "data/vectors/agents_cli_instances.json"
"""What google-agents-cli gives a metric for the cases of DATASETS, by name; None for what it refuses."""
CALL = {"function_call": {"id": "c", "name": "book", "args": {"seats": 2}}}
RESULT = {"function_response": {"id": "c", "name": "book", "response": {"number": 12}}}
HISTORY = [
    event("user", "Book two seats."),
    {"author": "cinema", "content": {"role": "model", "parts": [CALL]}},
    {"author": "cinema", "content": {"role": "user", "parts": [RESULT]}},
    event("model", "Booked, number 12."),
]
GROUPS = {
    "tone": {"rubrics": [{"rubric_id": "kind", "content": {"property": {"description": "It is kind."}}}]},
    "facts": {"rubrics": [{"rubric_id": "price", "content": {"property": {"description": "It has the price."}}}]},
}


def camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            "".join([head, *map(str.title, rest)]): camel(item)
            for key, item in value.items()
            for head, *rest in [key.split("_")]
        }
    return [camel(item) for item in value] if isinstance(value, list) else value


DATASETS: dict[str, Any] = {
    "messages": {"eval_cases": [asked("open", "Are you open?"), asked("price", "The price?", "Ten euros.")]},
    "a history": {"eval_cases": [talked("cancel", HISTORY, [event("user", "Cancel it.")], answer="Cancelled.")]},
    "a state before the message": {
        "eval_cases": [talked("member", [event("user", state_delta={"tier": "gold"}), event("user", "My price?")])]
    },
    "a state with the message": {"eval_cases": [talked("member", [event("user", "Hi", state_delta={"tier": "gold"})])]},
    "a state after the history": {
        "eval_cases": [talked("late", [*HISTORY, event("cinema", state_delta={"seats": 2}), event("user", "And now?")])]
    },
    "no answers in between": {"eval_cases": [talked("two", [event("user", "Seats?")], [event("user", "And food?")])]},
    "rubrics and a context": {"eval_cases": [asked("rude", "Well?", context="Be kind.", rubric_groups=GROUPS)]},
    "expected calls": {
        "eval_cases": [asked("book", "Two seats", reference_trajectory=[{"role": "model", "parts": [CALL]}])]
    },
    "in camelCase": camel({"eval_cases": [talked("member", [event("user", "Hi", state_delta={"tier": "gold"})])]}),
    "no ids": {"eval_cases": [{"prompt": said("Are you open?")}, {"prompt": said("Where?")}]},
    "keys of ADK": {
        "eval_cases": [asked("book", "Two seats", expected_tool_use=[], session_input={}, reference_final_response="x")]
    },
    "a scenario": {
        "eval_cases": [
            {"eval_case_id": "talk", "user_scenario": {"starting_prompt": "Hi", "conversation_plan": "Buy a seat."}}
        ]
    },
    "traces": {"eval_cases": [asked("open", "Are you open?", responses=[{"response": said("Yes.", "model")}])]},
    "a message twice": {"eval_cases": [{**talked("both", [event("user", "Hi")]), "prompt": said("Hi")}]},
    "the agent's last word": {"eval_cases": [talked("done", [event("user", "Hi"), event("cinema", "Hello")])]},
    "no message": {"eval_cases": [{"eval_case_id": "none"}, asked("one", "Hi")]},
    "texts": {"eval_cases": [{"eval_case_id": "text", "prompt": "Hi", "reference": "Hello"}]},
    "a bare reference": {"eval_cases": [{**asked("bare", "Hi"), "reference": said("Hello", "model")}]},
    "an id twice": {"eval_cases": [asked("open", "Are you open?"), asked("open", "Now?")]},
    "an id that is a number": {
        "eval_cases": [asked("open", "Are you open?"), {**asked("", "Now?"), "eval_case_id": 7}]
    },
    "an unknown key of an event": {"eval_cases": [talked("a", [event("user", "Hi", actions={"state_delta": {}})])]},
    "an unknown key of the file": {"eval_cases": [asked("open", "Are you open?")], "name": "cinema"},
    "a list of rubric groups": {"eval_cases": [asked("rude", "Well?", rubric_groups=[GROUPS["tone"]])]},
    "a comma too much": '{"eval_cases": [{"eval_case_id": "a", "prompt": {"parts": [{"text": "Hi"}]}},]}',
}
COUNT = """\
def evaluate(instance):
    turns = (instance.get("agent_data") or {}).get("turns", [])
    return {"score": sum(len(turn["events"]) for turn in turns), "explanation": "events"}
"""
CONFIGS: dict[str, Any] = {
    "code in the config": {
        "metrics_to_run": ["count"],
        "custom_metrics": [{"name": "count", "custom_function": COUNT}],
    },
    "code in a file": {"metrics_to_run": ["f"], "custom_metrics": [{"name": "f", "custom_function_file": "f.py"}]},
    "what is not selected does not run": {
        "metrics_to_run": ["safety"],
        "custom_metrics": [{"name": "count", "custom_function": COUNT}],
    },
    "built-in metrics": {
        "metrics_to_run": ["safety", "final_response_match", "Hallucination_v1", "multi_turn_task_success"]
    },
    "a computed metric": {
        "metrics_to_run": ["rouge_1"],
        "custom_metrics": [{"name": "rouge_1", "metric_spec_parameters": {}}],
    },
    "thresholds of its own": {
        "metrics_to_run": ["count", "f"],
        "custom_metrics": [
            {"name": "count", "custom_function": COUNT, "threshold": 3, "direction": "lower"},
            {"name": "f", "custom_function_file": "f.py"},
        ],
        "thresholds": {"f": 4},
    },
    "in Google's sandbox": {
        "metrics_to_run": ["count"],
        "custom_metrics": [{"name": "count", "custom_function": COUNT, "execution": "remote"}],
    },
    "other keys": {"metrics_to_run": ["safety"], "datasets": ["a.json"]},
    "a misspelt name": {"metrics_to_run": ["final_response_qualty"]},
    "a name of a computed metric alone": {"metrics_to_run": ["exact_match"]},
    "a metric without a counterpart": {"metrics_to_run": ["grounding", "bleu", "multi_turn_text_quality"]},
    "a path for code": {
        "metrics_to_run": ["recall"],
        "custom_metrics": [{"name": "recall", "custom_function": "tests.eval.metrics.recall"}],
    },
    "code twice": {
        "metrics_to_run": ["f"],
        "custom_metrics": [{"name": "f", "custom_function": COUNT, "custom_function_file": "f.py"}],
    },
    "no such file": {"metrics_to_run": ["f"], "custom_metrics": [{"name": "f", "custom_function_file": "g.py"}]},
    "a reserved name": {
        "metrics_to_run": ["safety_v1"],
        "custom_metrics": [{"name": "safety_v1", "custom_function": COUNT}],
    },
    "code that is not Python": {
        "metrics_to_run": ["count"],
        "custom_metrics": [{"name": "count", "custom_function": COUNT.replace("):", ")")}],
    },
    "an entry with nothing that scores": {"metrics_to_run": ["tone"], "custom_metrics": [{"name": "tone"}]},
    "a criterion of ADK": {"metrics_to_run": ["tool_trajectory_avg_score"]},
    "nothing": "",
    "a comment": "# metrics_to_run: [safety]\n",
    "a name of ADK": {
        "metrics_to_run": ["response_match_score"],
        "custom_metrics": [{"name": "response_match_score", "custom_function": COUNT}],
    },
    "a group of rubrics for a prompt": {
        "metrics_to_run": ["nice"],
        "custom_metrics": [{"name": "nice", "prompt_template": "{response}?", "rubric_group_name": "tone"}],
    },
    "a judge with a prompt": {
        "metrics_to_run": ["tone", "rude"],
        "custom_metrics": [
            {
                "name": "tone",
                "prompt_template": "Rate {response} from 1 to 5.",
                "judge_model": "gemini-2.5-pro",
                "judge_model_sampling_count": 3,
                "judge_model_system_instruction": "Be strict.",
                "judge_model_generation_config": {"temperature": 0},
                "threshold": 4,
            },
            {"name": "rude", "prompt_template": "How rude is {response}?", "threshold": 0, "direction": "lower"},
        ],
    },
    "judges with a prompt that can't be asked": {
        "metrics_to_run": ["a", "b", "c", "d"],
        "custom_metrics": [
            {"name": "a", "prompt_template": "Is it good?"},
            {"name": "b", "prompt_template": ""},
            {"name": "c", "prompt_template": "{response}", "result_parsing_function": "def parse_results(x): ..."},
            {"name": "d", "prompt_template": "{response}", "judge_model_sampling_count": 0},
        ],
    },
    "nothing selected": {"metrics_to_run": [], "custom_metrics": [{"name": "count", "custom_function": COUNT}]},
    "a text for a list": {"metrics_to_run": "safety"},
    "an object for a name": {"metrics_to_run": [{"name": "safety"}]},
    "a threshold that is a text": {
        "metrics_to_run": ["count"],
        "custom_metrics": [{"name": "count", "custom_function": COUNT, "threshold": "high"}],
    },
    "a threshold out of range": {"metrics_to_run": ["safety"], "thresholds": {"safety": 5}},
    "a list": [],
    "no YAML": "metrics_to_run: [safety\ncustom_metrics: {",
    "an alias": "metrics_to_run: &a [safety]\ncustom_metrics: *a\n",
}
LIMITS: dict[str, Any] = {
    "a threshold": {"count": 3},
    "lower is better": {"count": {"threshold": 3, "direction": "lower"}},
    "only reported": {"count": {"direction": "none"}},
    "only compared": {"count": {}},
    "one that is not selected": {"f": 0.5},
    "a built-in metric, by the service": {"safety": {"threshold": 0.5, "backend": "vertex"}},
    "criteria of ADK": {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"}, "count": 1},
    "another direction": {"count": {"direction": "up"}},
    "lower for a built-in metric": {"safety": {"direction": "lower"}},
    "a text": {"count": "high"},
    "an unknown metric": {"cuont": 1},
}
"""Criteria of a test_config.json beside the config with `count`, whose pool has `f`, too."""


def grouped(**groups: str) -> dict[str, Any]:
    """Metrics of rubrics with the groups that they select; "" for none."""
    pool = [
        {"name": name, "metric_spec_parameters": {"rubric_group_key": group}} for name, group in groups.items() if group
    ]
    return {"metrics_to_run": list(groups), "custom_metrics": pool}


RUBRICS: dict[str, Any] = {
    "two metrics, two groups": grouped(final_response_quality="tone", tool_use_quality="facts"),
    "two metrics, one group": grouped(final_response_quality="tone", general_quality="tone"),
    "no group": grouped(final_response_quality=""),
    "no such group": grouped(final_response_quality="form"),
    "two groups for one of our metrics": grouped(final_response_quality="tone", general_quality="facts"),
}
"""Configs of the dataset with rubrics."""
POOL = {
    "metrics_to_run": ["count"],
    "custom_metrics": [{"name": "count", "custom_function": COUNT}, {"name": "f", "custom_function_file": "f.py"}],
}


def project(root: Path, dataset: Any = None, config: Any = None, limits: Any = None) -> Path:
    """A project with a dataset, its config, and a test_config.json beside it."""
    write(root / FOLDER / "datasets/basic-dataset.json", DATASETS["messages"] if dataset is None else dataset)
    write(root / FOLDER / "f.py", COUNT)
    text = config if isinstance(config, str) else json.dumps(POOL if config is None else config, indent=1)
    write(root / FOLDER / "eval_config.yaml", text)
    if limits is not None:
        write(root / FOLDER / "test_config.json", {"criteria": limits})
    return root
