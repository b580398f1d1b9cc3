"""Vertex AI's evaluation service over a real socket: credentials, repeats, the bill, the cache, a replay."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fake_gemini.evaluation import EvaluationRequest, FakeEvaluation
from models_support import QUICK, failure_of, quick

from agent_eval.models.check import credential_problems
from agent_eval.models.names import VERTEX_EVAL
from agent_eval.models.pool import open_models
from agent_eval.models.protocol import ModelRequest
from agent_eval.models.vertex_eval import RESULT, metric_spec

GOOD: Mapping[str, Any] = {"score": 1, "explanation": "fine"}


def ask(answer: str = "hello", metric: str = "safety_v1", **fields: Any) -> ModelRequest:
    said = {"parts": [{"text": answer}]}
    instance = {"response": said, "agent_eval_data": {"turns": [{"events": [{"author": "user", "content": said}]}]}}
    body = {"metrics": [metric_spec(metric)], "instance": instance}
    return ModelRequest(
        **{"model": VERTEX_EVAL, "prompt": json.dumps(body), "schema": RESULT, "purpose": metric, **fields}
    )


def good(_: EvaluationRequest) -> Mapping[str, Any]:
    return GOOD


@pytest.fixture
def service() -> Iterator[FakeEvaluation]:
    with FakeEvaluation(script=good) as server:
        yield server


@pytest.fixture
def environ(service: FakeEvaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    path = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))  # google-auth looks there itself
    return service.environ(path)


async def test_a_verdict__paid_for_and_kept(service: FakeEvaluation, environ: dict[str, str], tmp_path: Path) -> None:
    settings = quick(cache=tmp_path / "cache")
    async with open_models(settings, environ, models=[VERTEX_EVAL]) as pool:
        assert await pool.prepare() == []
        reply = await pool.generate(ask(case_id="a:b"))
        again = await pool.generate(ask(case_id="a:b"))
    async with open_models(quick(replay=tmp_path / "cache"), {}, models=[VERTEX_EVAL]) as replayed:
        third = await replayed.generate(ask())

    assert reply.value == {"score": 1.0, "explanation": "fine", "rubrics": []}
    assert (reply.calls, again.calls, again.cached, third.value) == (1, 0, True, reply.value)
    [sent] = service.received
    assert (sent.project, sent.location, sent.metric) == ("a-project", "us-central1", "safety_v1")
    [entry] = pool.ledger.entries()
    assert (entry.calls, entry.cached_replies, entry.unpriced_calls, service.tokens) == (1, 1, 1, 1)


async def test_coherence__is_defined_by_a_file_that_is_fetched_once(
    service: FakeEvaluation, environ: dict[str, str]
) -> None:
    service.script = lambda _: {"score": 4}
    async with open_models(QUICK, environ, models=[VERTEX_EVAL]) as pool:
        for answer in ("one", "two"):
            assert (await pool.generate(ask(answer, "response_evaluation_score"))).value["score"] == 4  # type: ignore[index]
    assert service.fetched == 1
    assert [list(request.body["metrics"][0]) for request in service.received] == [["llm_based_metric_spec"]] * 2


@pytest.mark.parametrize("definition", ["prompt_template: [", "name: coherence", "- a list"])
async def test_an_invalid_definition__is_reported_once(
    service: FakeEvaluation, environ: dict[str, str], definition: str
) -> None:
    service.definition = definition
    async with open_models(QUICK, environ, models=[VERTEX_EVAL]) as pool:
        failure = await failure_of(pool, ask(metric="response_evaluation_score"))
    assert failure.kind == "invalid-request"
    assert "definition" in failure.message
    assert service.received == []


FAILING: dict[str, Any] = {"error": {"code": 14, "message": "try again"}}


@pytest.mark.parametrize("trouble", [503, 429, FAILING, {**FAILING, "error": {"code": 8}}])
async def test_transient_errors__are_retried(
    service: FakeEvaluation, environ: dict[str, str], trouble: int | dict[str, Any]
) -> None:
    answers = itertools.chain([trouble, trouble], itertools.repeat(GOOD))
    service.script = lambda _: next(answers)
    async with open_models(QUICK, environ, models=[VERTEX_EVAL]) as pool:
        reply = await pool.generate(ask())
    assert (reply.calls, len(service.received)) == (3, 3)


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ({"error": {"code": 3, "message": "too long"}}, "refused", "too long"),
        ({"error": {"code": 7, "message": "not yours"}}, "invalid-request", "not yours"),
        ({"explanation": "who knows"}, "malformed", "gave no score: who knows"),
        ({"score": True}, "malformed", "gave no score"),
        ({"score": float("nan")}, "malformed", "gave no score"),
        ({"score": float("inf")}, "malformed", "gave no score"),
        (403, "invalid-request", "refused the credentials"),
    ],
)
async def test_what_stays__is_no_score(
    service: FakeEvaluation, environ: dict[str, str], said: Any, kind: str, words: str
) -> None:
    service.script = lambda _: said
    async with open_models(QUICK, environ, models=[VERTEX_EVAL]) as pool:
        failure = await failure_of(pool, ask())
    assert (failure.kind, failure.calls) == (kind, 1)
    assert words in failure.message


async def test_vertex_eval__rejects_other_prompts(service: FakeEvaluation, environ: dict[str, str]) -> None:
    async with open_models(QUICK, environ, models=[VERTEX_EVAL]) as pool:
        failure = await failure_of(pool, ask(prompt="Is it?"))
    assert (failure.kind, service.tokens) == ("invalid-request", 0)
    assert "only evaluates its own metrics" in failure.message


async def test_credentials_that_do_not_work__are_found_before_anything_runs(
    environ: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "account.json").write_text('{"type": "service_account", "project_id": "p"}', encoding="utf-8")
    async with open_models(QUICK, environ, models=[VERTEX_EVAL]) as pool:
        [problem] = credential_problems(await pool.prepare())
    assert problem.code == "judge-credentials-missing"
    assert problem.hint == "Use google-github-actions/auth before this step."
