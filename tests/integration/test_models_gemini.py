"""google-genai against a Gemini server on a real socket: requests, replies and credentials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fake_gemini import Answer, FakeGemini, GenerateRequest
from models_support import GOOD, MODEL, QUICK, SCHEMA, ask, failure_of, pool_at, quick

from agent_eval.criteria.judged.judge import judge_options
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.parse.criteria import criterion as criterion_config
from agent_eval.models import ModelUse
from agent_eval.models.check import check_models, credential_problems
from agent_eval.models.pool import open_models
from agent_eval.models.protocol import ModelRequest, ModelUsage
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
            config = {"temperature": 0.2, "maxOutputTokens": 99, "stop_sequences": ["END"]}
            request = ask(system="Be fair.", config=config, case_id="a:1", purpose="safety_v1")
            reply = await pool.generate(request)
    assert (reply.value, reply.text) == ({"verdict": "yes", "why": "because"}, GOOD)
    assert (reply.calls, reply.cached, reply.model_version) == (1, False, MODEL)
    assert reply.usage == ModelUsage(input_tokens=100, output_tokens=10, cached_tokens=40, thought_tokens=5)
    (sent,) = server.received
    assert sent.user_texts == ["Is it?"]
    assert sent.instruction == "Be fair."
    assert sent.headers["x-goog-api-key"] == "a-key"
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


@pytest.mark.parametrize(
    "config",
    [
        {
            "thinking_config": {"thinking_budget": 0, "include_thoughts": False},
            "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        },
        {
            "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False},
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        },
    ],
    ids=["snake_case", "camelCase"],
)
async def test_gemini__sends_nested_config_fields(config: dict[str, Any]) -> None:
    criterion = CRITERION_MODELS["final_response_match_v2"].model_validate(
        {"threshold": 0.5, "judge_model_options": {"judge_model_config": config}}
    )
    options = judge_options(criterion_config("final_response_match_v2", criterion))
    assert not check_models(
        [ModelUse(model=MODEL, config=options.config, case_id="a", purpose="final_response_match_v2")],
        ModelSettings(),
        {"GOOGLE_API_KEY": "a-key"},
    ).problems
    with FakeGemini(good) as server:
        async with pool_at(server) as pool:
            await pool.generate(ask(config=options.config))
    sent = server.received[0].body
    # google-genai always writes nested messages in snake_case; proto JSON accepts both spellings.
    assert sent["generationConfig"]["thinkingConfig"] == {"thinking_budget": 0, "include_thoughts": False}
    assert sent["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]


async def test_gemini__text_without_a_schema() -> None:
    with FakeGemini(lambda _: Answer.text("Hello \U0001f44b")) as server:
        async with pool_at(server) as pool:
            reply = await pool.generate(ModelRequest(model=MODEL, prompt="Hi \ud800"))
    assert (reply.text, reply.value) == ("Hello \U0001f44b", None)
    assert server.received[0].body["generationConfig"] == {}


async def test_gemini__ignores_a_base_url_in_the_config() -> None:
    """`http_options` of a pull request's config must not send the key elsewhere."""
    with FakeGemini(good) as server, FakeGemini(good) as evil:
        async with pool_at(server) as pool:
            options = {"base_url": evil.url, "headers": {"x-goog-api-key": "stolen"}}
            await pool.generate(ask(config={"http_options": options, "responseMimeType": "text/plain"}))
    assert (len(server.received), evil.stats.connections) == (1, 0)
    assert server.received[0].headers["x-goog-api-key"] == "a-key"
    assert server.received[0].body["generationConfig"]["responseMimeType"] == "application/json"


@pytest.mark.parametrize(
    ("first", "calls"),
    [
        ("The verdict is yes.", 2),
        (f"```json\n{GOOD}\n```", 2),
        (GOOD[:-5], 2),
        ('{"verdict": "maybe", "why": ""}', 2),
        ('{"verdict": "no", "why": "", "verdict": "yes"}', 2),
    ],
)
async def test_gemini__retries_a_malformed_reply_once(first: str, calls: int) -> None:
    texts = iter([first, GOOD])
    with FakeGemini(lambda _: Answer.text(next(texts))) as server:
        async with pool_at(server) as pool:
            reply = await pool.generate(ask())
    assert (reply.value["verdict"] if reply.value else None, reply.calls) == ("yes", calls)
    before, after = (request.user_texts[0] for request in server.received)
    assert after.startswith(before) and "fits the schema" in after
    assert pool.ledger.entries()[0].calls == 2


async def test_gemini__two_malformed_replies_are_a_failure() -> None:
    with FakeGemini(lambda _: Answer.text("I'd say yes")) as server:
        async with pool_at(server) as pool:
            failure = await failure_of(pool, ask())
    assert failure.kind == "malformed"
    assert "no usable reply in 2 calls: it is not JSON" in failure.message
    (entry,) = pool.ledger.entries()
    assert (entry.calls, entry.failures, entry.replies) == (2, 1, 0)
    assert entry.usage.input_tokens is not None and entry.cost is not None and entry.cost > 0


@pytest.mark.parametrize(
    ("answer", "kind", "words", "requests"),
    [
        (Answer(parts=[], finish_reason="SAFETY"), "refused", "SAFETY", 1),
        (Answer(parts=[{"text": GOOD}], finish_reason="PROHIBITED_CONTENT"), "refused", "PROHIBITED", 1),
        (Answer(parts=[{"text": GOOD}], finish_reason="MAX_TOKENS"), "malformed", "MAX_TOKENS", 2),
        (Answer(parts=[{"text": GOOD, "thought": True}]), "malformed", "empty", 2),
        (Answer(parts=[]), "malformed", "empty", 2),
    ],
)
async def test_gemini__no_reply(answer: Answer, kind: str, words: str, requests: int) -> None:
    with FakeGemini(lambda _: answer) as server:
        async with pool_at(server) as pool:
            failure = await failure_of(pool, ask())
    assert (failure.kind, words in failure.message) == (kind, True), failure.message
    assert server.stats.requests == requests


async def test_gemini__uses_the_key_of_the_settings() -> None:
    with FakeGemini(good) as server:
        settings = quick(api_key="judge-key", base_url=server.url)
        async with open_models(settings, {"GOOGLE_API_KEY": "agent-key"}, models=[MODEL]) as pool:
            await pool.generate(ask())
    assert server.received[0].headers["x-goog-api-key"] == "judge-key"


def service_account(directory: Path, server: FakeGemini) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account",
        "project_id": "account-project",
        "private_key_id": "1",
        "private_key": private.decode(),
        "client_email": "judge@account-project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": f"{server.url}/token",
    }
    path = directory / "account.json"
    path.write_text(json.dumps(account), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("model", "environ", "asked"),
    [
        ("vertex_ai/gemini-2.5-pro", {}, ("account-project", "global", "gemini-2.5-pro")),
        (
            "gemini-2.5-pro",
            {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p-2", "GOOGLE_CLOUD_LOCATION": "us-west1"},
            ("p-2", "us-west1", "gemini-2.5-pro"),
        ),
        (FULL, {"GOOGLE_CLOUD_PROJECT": "p-2"}, ("p-1", "europe-west4", "gemini-2.5-pro")),
        ("projects/p-1/locations/us-east4/endpoints/4711", {}, ("p-1", "us-east4", "4711")),
    ],
)
async def test_vertex__application_default_credentials(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    environ: dict[str, str],
    asked: tuple[str, str, str],
) -> None:
    with FakeGemini(good) as server:
        account = service_account(tmp_path, server)
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", account)  # google-auth looks there itself
        environ = {
            "GOOGLE_APPLICATION_CREDENTIALS": account,
            "GOOGLE_VERTEX_BASE_URL": server.url,
            **environ,
        }
        async with open_models(QUICK, environ, models=[model]) as pool:
            assert await pool.prepare() == []
            reply = await pool.generate(ask(model=model))
    assert reply.value == {"verdict": "yes", "why": "because"}
    (sent,) = server.received
    assert (sent.project, sent.location, sent.model) == asked


def workload_identity(directory: Path, server: FakeGemini, token_path: str = "/token") -> str:
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
    return str(path)


@pytest.mark.parametrize("accepted", [True, False])
async def test_vertex__workload_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, accepted: bool) -> None:
    model = "vertex_ai/gemini-2.5-pro"
    with FakeGemini(good) as server:
        account = workload_identity(tmp_path, server, "/token" if accepted else "/refuses")
        credentials = {"GOOGLE_APPLICATION_CREDENTIALS": account, "GOOGLE_CLOUD_PROJECT": "p-2"}
        for name, value in credentials.items():
            monkeypatch.setenv(name, value)
        async with open_models(QUICK, {**credentials, "GOOGLE_VERTEX_BASE_URL": server.url}, models=[model]) as pool:
            assert await pool.prepare() == []
            if not accepted:
                failure = await failure_of(pool, ask(model=model))
                assert failure.kind == "no-credentials" and "workload identity" in (failure.hint or "")
                return
            reply = await pool.generate(ask(model=model))
    assert reply.value == {"verdict": "yes", "why": "because"}
    (sent,) = server.received
    assert (sent.project, sent.location, sent.model) == ("p-2", "global", "gemini-2.5-pro")


async def test_vertex__with_a_key() -> None:
    with FakeGemini(good) as server:
        environ = {"GOOGLE_API_KEY": "express-key", "GOOGLE_VERTEX_BASE_URL": server.url}
        async with open_models(QUICK, environ, models=["vertex_ai/gemini-2.5-pro"]) as pool:
            reply = await pool.generate(ask(model="vertex_ai/gemini-2.5-pro"))
    assert reply.value == {"verdict": "yes", "why": "because"}
    (sent,) = server.received
    assert (sent.project, sent.model, sent.headers["x-goog-api-key"]) == (None, "gemini-2.5-pro", "express-key")


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
