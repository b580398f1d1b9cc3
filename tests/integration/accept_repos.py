"""Repositories with eval files, and recordings of an agent that did something else than they expect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gate_runs import Done, Repository

from agent_eval.core.content import FunctionCall, FunctionResponse, model_message, user_message
from agent_eval.core.invocation import IntermediateData, Invocation
from agent_eval.results import Recording, RunError

FILE = "evals/home.test.json"
CONFIG = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}
Call = tuple[str, Mapping[str, Any]]
OFF: Call = ("switch", {"device": "lamp", "on": False})
FIND: Call = ("find", {"room": "bedroom"})
Turn = tuple[str, Sequence[Call], str]
"""What the user says, the calls, the answer."""
LAMP: Turn = ("Lamp off.", [OFF], "The lamp is off.")
FOUND: Turn = ("Lamp off.", [FIND, OFF], "I have switched off the lamp in the bedroom.")
DOOR: Turn = ("Lock the door.", [("lock", {})], "Locked.")


def case(eval_id: str, *turns: Turn, **more: Any) -> dict[str, Any]:
    """A case as in an eval file."""
    conversation = [
        {
            "user_content": {"role": "user", "parts": [{"text": said}]},
            "final_response": {"role": "model", "parts": [{"text": answer}]},
            "intermediate_data": {"tool_uses": [{"name": name, "args": dict(args)} for name, args in calls]},
        }
        for said, calls, answer in turns
    ]
    return {"eval_id": eval_id, "conversation": conversation, **more}


def write_file(root: Path, *cases: Mapping[str, Any], path: str = FILE, config: Any = None) -> Path:
    """Writes an eval file and its config."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"eval_set_id": file.name.split(".")[0], "eval_cases": cases}, indent=2, ensure_ascii=False)
    file.write_text(text + "\n", "utf-8")
    (file.parent / "test_config.json").write_text(json.dumps(config or CONFIG), "utf-8")
    return file


def invocation(turn: Turn, responses: Sequence[dict[str, Any]] = ()) -> Invocation:
    """A turn as it was recorded, with what its calls returned."""
    said, calls, answer = turn
    uses = [FunctionCall(id=f"call-{place}", name=name, args=dict(args)) for place, (name, args) in enumerate(calls)]
    return Invocation(
        user_content=user_message(said),
        final_response=model_message(answer),
        intermediate_data=IntermediateData(
            tool_uses=uses,
            tool_responses=[
                FunctionResponse(id=use.id, name=use.name, response=response)
                for use, response in zip(uses, responses, strict=False)
            ],
        ),
    )


def record(
    root: Path,
    runs: Mapping[str, Sequence[Sequence[Turn] | None]],
    path: str = FILE,
    responses: Mapping[str, Sequence[dict[str, Any]]] | None = None,
) -> None:
    """Writes what the agent did: by eval id and run its turns, or None for a run that ended with an exception; and by
    eval id what the calls of each turn returned.
    """
    returned = responses or {}
    boom = RunError(kind="agent-exception", owner="agent", message="boom", turn=0)
    recordings = [
        Recording(
            run_id=f"{path}:{eval_id}#{number + 1}",
            case_id=f"{path}:{eval_id}",
            file=path,
            eval_set_id=Path(path).name.split(".")[0],
            eval_id=eval_id,
            run=number,
            fingerprint="recorded",
            invocations=[invocation(turn, returned.get(eval_id, ())) for turn in turns or ()],
            error=None if turns is not None else boom,
            started_at=1_700_000_000.0,
            duration=1.0,
        )
        for eval_id, several in runs.items()
        for number, turns in enumerate(several)
    ]
    lines = [recording.model_dump_json(exclude_none=True) for recording in recordings]
    (root / "answers.jsonl").write_text("\n".join(lines) + "\n", "utf-8")


def run(repository: Repository, *arguments: str, runs: int = 1) -> Done:
    """Runs the gate on what was recorded."""
    return repository.gate(
        "run", "--agent", "recorded:answers.jsonl", "--num-runs", str(runs), *arguments, python=False
    )


def failed_lamp(repository: Repository, *turns: Sequence[Turn] | None, config: Any = None) -> Path:
    """A file with two cases, of which `lamp` has failed in these runs (one run that looks for the lamp first)."""
    several = turns or ([FOUND],)
    file = write_file(repository.root, case("lamp", LAMP), case("door", DOOR), config=config)
    record(repository.root, {"lamp": several, "door": [[DOOR]] * len(several)})
    done = run(repository, runs=len(several))
    assert done.code == 1, done.err
    return file
