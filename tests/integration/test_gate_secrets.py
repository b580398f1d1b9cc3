"""Secrets of the agent: in no file of a run, whatever spelling the agent has for them."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest
import secret_samples
from adk_envs import adk_python
from gate_runs import Done, Repository
from host_forks import command

CORE = "core4711"
"""A part of each secret that no spelling changes."""
NAMES = {f"SECRET_{number}": secret + CORE for number, secret in enumerate(secret_samples.SECRETS)}
AGENT = """
import json, os, sys
from google.adk.agents.llm_agent import LlmAgent
from google.adk.tools.tool_context import ToolContext
from scripted_model import call, reply, scripted, text
from secret_samples import IN_BASE64, SPELLINGS

SECRETS = [value for name, value in os.environ.items() if name.startswith("SECRET_")]
WAYS = {**SPELLINGS, **{name: (lambda secret, way=way: way(secret).decode()) for name, way in IN_BASE64.items()}}
SPELLED = [way(secret) for secret in SECRETS for way in WAYS.values()]
print("\\n".join(SPELLED), flush=True)
print("\\n".join(SPELLED), file=sys.stderr, flush=True)
if os.environ["BROKEN"] == "yes":
    raise RuntimeError("HTTP 401: " + json.dumps({"refused": SPELLED}))


def keep(tool_context: ToolContext, **kwargs: object) -> dict:
    "Keeps it."
    if "raise" in kwargs:
        raise ValueError("; ".join(SPELLED))
    tool_context.state.update({"kept": SPELLED, SECRETS[0]: 1})
    return {"kept": SPELLED, **dict.fromkeys(SPELLED, "key")}


keep.__signature__ = __import__("inspect").Signature([
    __import__("inspect").Parameter("tool_context", 1, annotation=ToolContext),
    __import__("inspect").Parameter("given", 1, annotation=dict),
])


def script(said, count, request):
    if said == "call" and not count:
        return reply(call("keep", given={"values": SPELLED, **dict.fromkeys(SPELLED, 1)}))
    if said == "raise":
        raise RuntimeError("HTTP 401: " + json.dumps({"refused": SPELLED}))
    if said == "cut":
        raise RuntimeError("x" * 3_900 + " ".join(SPELLED))
    return reply(text("\\n".join(SPELLED)))


root_agent = LlmAgent(name="keeper", model=scripted(script), tools=[keep])
"""


def leaks(done: Done, *texts: str) -> set[str]:
    """Where something of a secret is."""
    parts = [CORE.encode(), CORE[:7].encode()]
    parts += [base64.b64encode(bytes(before) + CORE.encode())[4 if before else 0 :][:8] for before in range(3)]
    files = {
        path.relative_to(done.output.parent): path.read_bytes()
        for path in done.output.parent.rglob("*.*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    read = {str(name): gzip.decompress(data) if name.suffix == ".gz" else data for name, data in files.items()}
    read |= {f"text {number}": text.encode() for number, text in enumerate((done.out, done.err, *texts))}
    return {name for name, data in read.items() if any(part in data for part in parts)}


@pytest.mark.slow
def test_secrets__are_in_no_file_of_a_run_in_no_spelling(repository: Repository) -> None:
    repository.agent("counted")
    root = repository.root
    (root / "counted" / "agent.py").write_text(AGENT, encoding="utf-8")
    (root / "secret_samples.py").write_bytes(Path(secret_samples.__file__).read_bytes())
    cases = {name: name for name in ("answer", "call", "raise", "cut")}
    repository.evals("counted/evals/some.evalset.json", cases)
    arguments = ("--agent-python", " ".join(command(adk_python())), "--agent-env", "+SECRET_*,BROKEN")
    for broken in ("no", "yes"):
        environment = {**NAMES, "BROKEN": broken, "PYTHONPATH": str(root), "CI": ""}
        record = ("--record", "all") if broken == "no" else ()
        done = repository.gate("run", *arguments, *record, python=False, environment=environment, code=1)
        assert set(done.statuses.values()) == {"failed"}
        assert "***SECRET_0***" in (done.output / "results.json").read_text(encoding="utf-8")
        shown = [repository.gate(*words).out for words in (("show", "call"), ("export", "csv"), ("export", "jsonl"))]
        repository.gate("export", "otlp", "--output", "otlp.jsonl", code=0)
        assert leaks(done, *shown) == set(), broken
        if broken == "no":
            assert all(shown) and [*root.rglob("*.tape.json")]
            errors = [case["runs"][0].get("error") for case in done.results["cases"]]
            assert {error and error["kind"] for error in errors} == {None, "agent-exception"}


WORDS = ("postgres", "placeholder", "unused", "123456", "function", "no-key", "kitchen lamp", "the answer")
"""Keys of jobs that need none, and other values that answers may have."""
ECHO = """
from google.adk.agents.llm_agent import LlmAgent
from scripted_model import call, reply, scripted, text


def look(x: str, function: str) -> dict:
    "Looks."
    return {"found": x, x: 1}


def script(said, count, request):
    word = said.removeprefix("say ")
    return reply(text(f"the answer is {word} today")) if count else reply(call("look", x=word, function=word))


root_agent = LlmAgent(name="echo", model=scripted(script), tools=[look])
"""


def turn(word: str, expected: str, answer: str) -> dict[str, object]:
    call = {"name": "look", "args": {"x": expected, "function": expected}}
    return {
        "user_content": {"role": "user", "parts": [{"text": f"say {word}"}]},
        "final_response": {"role": "model", "parts": [{"text": answer.format(expected)}]},
        "intermediate_data": {"tool_uses": [call]},
    }


def test_secrets__masking_changes_no_score(repository: Repository) -> None:
    repository.agent("counted")
    root = repository.root
    (root / "counted" / "agent.py").write_text(ECHO, encoding="utf-8")
    cases = []
    for number, word in enumerate(WORDS):
        other = WORDS[number - 1]
        for name, expected, answer in (
            ("right", word, "the answer is {} today"),
            ("spelled", word, "The Answer: {}!"),
            ("wrong", other, "the answer is {} today"),
            ("less", word, "{}"),
        ):
            cases.append({"eval_id": f"{name}-{number}", "conversation": [turn(word, expected, answer)]})
    metrics = ("tool_trajectory_avg_score", "response_match_score", "tool_trajectory_partial")
    similar = {"threshold": 0.9, "algorithm": "levenshtein"}
    repository.write(
        {
            "counted/evals/some.evalset.json": {"eval_set_id": "some", "eval_cases": cases},
            "counted/evals/test_config.json": {
                "criteria": {**dict.fromkeys(metrics, 0.9), "response_similarity": similar}
            },
        }
    )
    arguments = ("--agent-python", " ".join(command(adk_python())), "--agent-env", "+WORD_*_KEY")
    keys = {f"WORD_{number}_KEY": word for number, word in enumerate(WORDS)}
    scores = []
    for environment in ({}, keys):
        done = repository.gate("run", *arguments, python=False, environment=environment, code=1)
        scores.append(
            {
                (case["eval_id"], metric["name"]): metric["runs"][0].get("score")
                for case in done.results["cases"]
                for metric in case["metrics"]
                if metric["name"] in (*metrics, "response_similarity")
            }
        )
        statuses = done.statuses
        assert {statuses[f"{name}-{number}"] for name in ("right", "spelled") for number in range(8)} <= {
            "passed",
            "failed",
        }
        assert {statuses[f"right-{number}"] for number in range(8)} == {"passed"}
        assert {statuses[f"wrong-{number}"] for number in range(8)} == {"failed"}
    assert scores[0] == scores[1]
    assert len(scores[0]) == 4 * len(cases)
    files = [path.read_bytes() for path in done.output.rglob("*") if path.suffix in {".json", ".md", ".xml", ".html"}]
    files += [recording.model_dump_json().encode() for recording in done.recordings]
    for text in (*files, done.out.encode()):
        assert b"kitchen lamp" not in text and b"postgres" not in text
    assert "***WORD_0_KEY***" in done.out


def test_secrets__a_recorded_placeholder_holds_where_another_variable_has_the_same_value(
    repository: Repository,
) -> None:
    """Recorded where only DB_PASSWORD was set; now a variable before it in the alphabet has its value."""
    repository.agent("counted")
    (repository.root / "counted" / "agent.py").write_text(ECHO, encoding="utf-8")
    recorded = turn("postgres", "***DB_PASSWORD***", "the answer is {} today")
    wrong = turn("postgres", "***OTHER_KEY***", "the answer is {} today")
    glued = turn("suffix", "suffix", "the answer is another valuesuffix today")
    turns = {"same": recorded, "other": wrong, "glued": glued}
    cases = [{"eval_id": name, "conversation": [each]} for name, each in turns.items()]
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.82}
    repository.write({"s.evalset.json": {"eval_set_id": "s", "eval_cases": cases}})
    repository.write({"test_config.json": {"criteria": criteria}})
    variables = {"A_TOKEN": "postgres", "DB_PASSWORD": "postgres", "OTHER_KEY": "another value"}
    arguments = ("--agent-python", " ".join(command(adk_python())), "--agent-env", f"+{','.join(variables)}")

    done = repository.gate("run", *arguments, python=False, environment=variables, code=1)

    assert done.statuses == {"same": "passed", "other": "failed", "glued": "failed"}
    # Without the secret this would pass, so the difference of the masked texts explains nothing.
    why = {case.eval_id: case.metrics[1].runs[0].evidence[0] for case in done.report.cases[1:]}
    assert (why["glued"].expected, why["glued"].actual) == (
        "the answer is ***OTHER_KEY***suffix today",
        "the answer is suffix today",
    )
    reasons = " ".join(reason.message for reason in why["other"].why)
    assert "***OTHER_KEY***" in reasons and "***A_TOKEN***" in reasons and "token," not in reasons
