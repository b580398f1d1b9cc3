"""google-genai against a Gemini server on a real socket: requests, replies and credentials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_gemini import Answer, FakeGemini, GenerateRequest
from fake_gemini.evaluation import FakeEvaluation
from models_support import GOOD, MODEL, QUICK, SCHEMA, ask, failure_of, pool_at

from agent_eval.models.check import credential_problems
from agent_eval.models.pool import open_models
from agent_eval.models.protocol import ModelUsage
from agent_eval.models.settings import ModelSettings

FULL = "projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro"


def good(_: GenerateRequest) -> Answer:
    return Answer.text(GOOD)


async def test_gemini__sends_the_question_and_reads_the_answer() -> None:
    answer = Answer(
        parts=[{"text": "Let me think: no", "thought": True}, {"text": GOOD[:9]}, {"text": GOOD[9:]}],
        usage={
            "promptTokenCount": 100,
            "candidatesTokenCount": 10,
            "thoughtsTokenCount": 5,
            "cachedContentTokenCount": 40,
            "totalTokenCount": 115,
        },
    )
    with FakeGemini(lambda _: answer) as server:
        async with pool_at(server) as pool:
            config = {
                "temperature": 0.2,
                "maxOutputTokens": 99,
                "stop_sequences": ["END"],
                "thinkingConfig": {"thinkingBudget": 0, "include_thoughts": False},
                "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
            }
            request = ask(system="Be fair.", config=config, case_id="a:1", purpose="safety_v1")
            reply = await pool.generate(request)
    assert (reply.value, reply.text) == ({"verdict": "yes", "why": "because"}, GOOD)
    assert (reply.calls, reply.cached, reply.model_version) == (1, False, MODEL)
    assert reply.usage == ModelUsage(input_tokens=100, output_tokens=10, cached_tokens=40, thought_tokens=5)
    (sent,) = server.received
    assert sent.user_texts == ["Is it?"]
    assert sent.instruction == "Be fair."
    assert sent.headers["x-goog-api-key"] == "a-key"
    assert sent.body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    # google-genai always writes nested messages in snake_case; proto JSON accepts both spellings.
    assert sent.body["generationConfig"].pop("thinkingConfig") == {"thinking_budget": 0, "include_thoughts": False}
    assert sent.body["generationConfig"] == {
        "temperature": 0.2,
        "maxOutputTokens": 99,
        "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }
    (entry,) = pool.ledger.entries()
    assert (entry.case_id, entry.purpose, entry.calls, entry.replies) == ("a:1", "safety_v1", 1, 1)
    assert entry.versions == (MODEL,)
    assert entry.cost == pytest.approx((60 * 0.30 + 40 * 0.03 + 15 * 2.50) / 1e6)


async def test_gemini__ignores_a_base_url_in_the_config() -> None:
    """`http_options` of a pull request's config must not send the key elsewhere."""
    with FakeGemini(good) as server, FakeGemini(good) as evil:
        async with pool_at(server) as pool:
            options = {"base_url": evil.url, "headers": {"x-goog-api-key": "stolen"}}
            await pool.generate(ask(config={"http_options": options, "responseMimeType": "text/plain"}))
    assert (len(server.received), evil.stats.connections) == (1, 0)
    assert server.received[0].headers["x-goog-api-key"] == "a-key"
    assert server.received[0].body["generationConfig"]["responseMimeType"] == "application/json"


async def test_gemini__retries_a_malformed_reply_once() -> None:
    texts = iter([f"```json\n{GOOD}\n```", GOOD])
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 1, "totalTokenCount": 11}
    with FakeGemini(lambda _: Answer(parts=[{"text": next(texts)}], usage=usage)) as server:
        async with pool_at(server) as pool:
            reply = await pool.generate(ask())
    assert (reply.value["verdict"] if reply.value else None, reply.calls) == ("yes", 2)
    before, after = (request.user_texts[0] for request in server.received)
    assert after.startswith(before) and "fits the schema" in after
    (entry,) = pool.ledger.entries()
    assert (entry.calls, entry.usage.input_tokens) == (2, 20)


@pytest.mark.parametrize(
    ("answer", "kind", "words", "requests"),
    [
        (Answer(parts=[], finish_reason="SAFETY"), "refused", "SAFETY", 1),
        (Answer(parts=[{"text": GOOD}], finish_reason="PROHIBITED_CONTENT"), "refused", "PROHIBITED", 1),
        (Answer(parts=[{"text": GOOD}], finish_reason="MAX_TOKENS"), "malformed", "MAX_TOKENS", 2),
        (Answer(parts=[{"text": GOOD, "thought": True}]), "malformed", "empty", 2),
        (Answer(parts=[]), "malformed", "empty", 2),
        (Answer.text("I'd say yes"), "malformed", "no usable reply in 2 calls: it is not JSON", 2),
    ],
)
async def test_gemini__no_reply(answer: Answer, kind: str, words: str, requests: int) -> None:
    with FakeGemini(lambda _: answer) as server:
        async with pool_at(server) as pool:
            failure = await failure_of(pool, ask())
    assert (failure.kind, words in failure.message) == (kind, True), failure.message
    (entry,) = pool.ledger.entries()
    assert (server.stats.requests, entry.calls, entry.failures, entry.replies) == (requests, requests, 1, 0)
    assert entry.usage.input_tokens is not None and entry.cost is not None and entry.cost > 0


def workload_identity(directory: Path, server: FakeGemini, token_path: str) -> Path:
    """A credentials file as google-github-actions/auth writes it: exchanges the job's token."""
    (directory / "oidc-token").write_text("the-jobs-token", encoding="utf-8")
    pool = "projects/4711/locations/global/workloadIdentityPools/github/providers/repo"
    account = {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/{pool}",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{server.url}{token_path}",
        "credential_source": {"file": str(directory / "oidc-token")},
    }
    path = directory / "gha-creds-1.json"
    path.write_text(json.dumps(account), encoding="utf-8")
    return path


PRO = "vertex_ai/gemini-2.5-pro"


@pytest.mark.parametrize(
    ("credentials", "model", "environ", "asked"),
    [
        ("account", PRO, {}, ("account-project", "global", "gemini-2.5-pro")),
        (
            "account",
            "gemini-2.5-pro",
            {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p-2", "GOOGLE_CLOUD_LOCATION": "us-west1"},
            ("p-2", "us-west1", "gemini-2.5-pro"),
        ),
        ("account", "projects/p-1/locations/us-east4/endpoints/4711", {}, ("p-1", "us-east4", "4711")),
        ("workload", PRO, {"GOOGLE_CLOUD_PROJECT": "p-2"}, ("p-2", "global", "gemini-2.5-pro")),
        ("refused", PRO, {"GOOGLE_CLOUD_PROJECT": "p-2"}, None),
        ("key", PRO, {"GOOGLE_API_KEY": "express-key"}, (None, None, "gemini-2.5-pro")),
    ],
)
async def test_vertex__credentials(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    credentials: str,
    model: str,
    environ: dict[str, str],
    asked: tuple[str | None, str | None, str] | None,
) -> None:
    with FakeGemini(good) as server, FakeEvaluation(script=lambda _: {}) as tokens:
        environ = {**environ, "GOOGLE_VERTEX_BASE_URL": server.url}
        if credentials != "key":
            path = tmp_path / "account.json"
            path.write_text(json.dumps(tokens.account()), encoding="utf-8")
            if credentials != "account":
                token_path = "/refuses" if credentials == "refused" else "/token"
                path = workload_identity(tmp_path, server, token_path)
            environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(path)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)  # google-auth looks there itself
        async with open_models(QUICK, environ, models=[model]) as pool:
            assert await pool.prepare() == []
            if asked is None:
                failure = await failure_of(pool, ask(model=model))
                assert failure.kind == "no-credentials" and "workload identity" in (failure.hint or "")
                return
            reply = await pool.generate(ask(model=model))
    assert reply.value == {"verdict": "yes", "why": "because"}
    (sent,) = server.received
    assert (sent.project, sent.location, sent.model) == asked
    assert sent.headers.get("x-goog-api-key") == environ.get("GOOGLE_API_KEY")


async def test_vertex__reports_bad_credentials_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "account.json"
    path.write_text('{"type": "service_account", "project_id": "p"}', encoding="utf-8")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    environ: dict[str, Any] = {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}
    async with open_models(ModelSettings(), environ, models=["vertex_ai/gemini-2.5-pro", FULL]) as pool:
        failures = await pool.prepare()
        assert {failure.kind for failure in failures} == {"no-credentials"}
        assert {problem.code for problem in credential_problems(failures)} == {"judge-credentials-missing"}
        assert all("google-github-actions/auth" in (failure.hint or "") for failure in failures)
        assert (await failure_of(pool, ask(model=FULL))).kind == "no-credentials"
