"""Secrets of the agent: in no file of a run, whatever spelling the agent has for them."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

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


def test_secrets__are_in_no_file_of_a_run_in_no_spelling(repository: Repository) -> None:
    repository.agent("counted")
    root = repository.root
    (root / "counted" / "agent.py").write_text(AGENT, encoding="utf-8")
    (root / "secret_samples.py").write_bytes(Path(secret_samples.__file__).read_bytes())
    cases = {name: name for name in ("answer", "call", "raise", "cut")}
    repository.evals("counted/evals/some.evalset.json", cases)
    arguments = ("--agent-python", " ".join(command(adk_python())), "--agent-env", "+SECRET_*,BROKEN")
    for broken in ("no", "yes"):
        environment = {**NAMES, "BROKEN": broken, "PYTHONPATH": str(root)}
        record = ("--record", "all") if broken == "no" else ()
        done = repository.gate("run", *arguments, *record, python=False, environment=environment, code=1)
        assert set(done.statuses.values()) == {"failed"}
        assert "***" in (done.output / "results.json").read_text(encoding="utf-8")
        shown = [repository.gate(*words).out for words in (("show", "call"), ("export", "csv"), ("export", "jsonl"))]
        repository.gate("export", "otlp", "--output", "otlp.jsonl", code=0)
        assert leaks(done, *shown) == set(), broken
        if broken == "no":
            assert all(shown) and [*root.rglob("*.tape.json")]
            errors = [case["runs"][0].get("error") for case in done.results["cases"]]
            assert {error and error["kind"] for error in errors} == {None, "agent-exception"}
