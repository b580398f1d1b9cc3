"""The models' libraries against servers on real sockets: google-genai, openai, and Vertex AI's evaluation service."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from fake_gemini import Answer, FakeGemini
from fake_gemini.evaluation import EvaluationRequest, FakeEvaluation
from golden_files import check
from models_support import GOOD, MODEL, QUICK, SCHEMA, ask, completion, failure_of, good, pool_at, quick
from upload_server import Received, Reply, UploadServer, upload_server

from agent_eval.models.check import credential_problems
from agent_eval.models.names import VERTEX_EVAL
from agent_eval.models.pool import open_models
from agent_eval.models.protocol import ModelFailure, ModelRequest, ModelUsage
from agent_eval.models.settings import ModelSettings
from agent_eval.models.vertex_eval import RESULT, metric_spec
from agent_eval.net.retry import Retry

# google-genai against a Gemini server on a real socket: requests, replies and credentials.


FULL = "projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro"


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


# Judges with the google-genai that google-adk 2.13.0 needs: the pytest plugin is installed beside the agent.


HERE = Path(__file__).parent
CODE = f"""
import site, sys
site.addsitedir({sysconfig.get_path("purelib")!r})
import importlib.metadata, pytest
print("google-genai", importlib.metadata.version("google-genai"))
sys.exit(pytest.main(sys.argv[1:]))
"""
"""The agent's packages have precedence over ours, as in one environment for both."""
TESTS = (
    "test_models_providers.py::test_gemini__sends_the_question_and_reads_the_answer",
    "test_models_faults.py::test_faults__a_server_that_is_not_there",
    "test_models_faults.py::test_faults__are_retried",
)


@pytest.mark.slow
def test_gemini__works_with_google_genai_2() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [str(adk_python()), "-c", CODE, "-q", "-p", "no:cacheprovider", *(str(HERE / test) for test in TESTS)]

    done = subprocess.run(
        command, cwd=HERE.parents[1], env=environment, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("google-genai 2.")


# The openai package against a server with its API on a real socket.


JUDGE = "openai/judge-1"
PAGE = {"Content-Type": "text/html"}


def openai_at(server: UploadServer, **more: str) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "a-key", **more}


async def test_openai__sends_the_question_and_reads_the_answer() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    with upload_server(lambda _: completion(GOOD, usage=usage, reasoning_content="no, or is it?")) as server:
        async with open_models(QUICK, openai_at(server), models=[JUDGE]) as pool:
            config = {"temperature": 0.2, "max_output_tokens": 99, "stop_sequences": ["END"], "top_k": 3}
            reply = await pool.generate(ask(model=JUDGE, system="Be fair.", config=config))
    assert (reply.value, reply.text, reply.model_version) == (
        {"verdict": "yes", "why": "because"},
        GOOD,
        "served-model-1",
    )
    assert reply.usage == ModelUsage(input_tokens=100, output_tokens=10, cached_tokens=40, thought_tokens=20)
    (call,) = server.received
    assert (call.path, call.headers["authorization"]) == ("/v1/chat/completions", "Bearer a-key")
    # OpenAI's own service calls `max_tokens` max_completion_tokens.
    check("golden_openai_request.json", json.dumps(call.json, indent=1) + "\n")


async def test_openai__text_and_no_usage() -> None:
    with upload_server(lambda _: completion("Hello \U0001f44b")) as server:
        async with open_models(QUICK, openai_at(server), models=[JUDGE]) as pool:
            reply = await pool.generate(ModelRequest(model=JUDGE, prompt="Hi \ud800"))
    assert (reply.text, reply.value, reply.usage) == ("Hello \U0001f44b", None, ModelUsage())
    assert "response_format" not in server.received[0].json
    (entry,) = pool.ledger.entries()
    assert (entry.cost, entry.unpriced_calls, entry.usage.input_tokens) == (None, 1, None)


@pytest.mark.parametrize(
    ("reply", "kind", "words", "calls"),
    [
        (completion(GOOD, finish="content_filter"), "refused", "content filter", 1),
        (completion(None, refusal="I can't judge that"), "refused", "I can't judge that", 1),
        (completion(GOOD[:9], finish="length"), "malformed", "length", 2),
        (completion(None), "malformed", "empty", 2),
        (Reply(status=400, body={"error": {"code": "content_filter", "message": "violence"}}), "refused", "viol", 1),
        (Reply(status=400, body={"error": {"message": "no such field"}}), "invalid-request", "no such field", 1),
        (Reply(status=401, body={"error": {"message": "bad key"}}), "invalid-request", "bad key", 1),
        (Reply(status=503, body=b"<html>sorry</html>", headers=PAGE), "unavailable", "503", 6),
        (Reply(body=b"<html>a proxy's page</html>", headers=PAGE), "unavailable", "could not be parsed", 6),
        (None, "unavailable", "connection", 6),
    ],
)
async def test_openai__no_reply(reply: Reply | None, kind: str, words: str, calls: int) -> None:
    with upload_server(lambda _: reply) as server:
        async with open_models(QUICK, openai_at(server), models=[JUDGE]) as pool:
            failure = await failure_of(pool, ask(model=JUDGE))
    assert (failure.kind, words in failure.message) == (kind, True), failure.message
    assert len(server.received) == pool.meter.spent.calls == calls


async def test_openai__masks_a_quoted_key() -> None:
    refusal = Reply(status=401, body={"error": {"message": "Incorrect API key provided: sk-secret-123."}})
    with upload_server(lambda _: refusal) as server:
        async with open_models(QUICK, openai_at(server, OPENAI_API_KEY="sk-secret-123"), models=[JUDGE]) as pool:
            first = await failure_of(pool, ask(model=JUDGE))
            second = await failure_of(pool, ask(model=JUDGE))
    assert "sk-secret" not in first.message + second.message
    assert "***" in first.message and "***" in second.message


async def test_openai__retries_and_obeys_retry_after() -> None:
    replies = iter([Reply(status=429, body={}, headers={"Retry-After-Ms": "300"}), Reply(status=500, body={})])
    with upload_server(lambda _: next(replies, completion(GOOD))) as server:
        async with open_models(QUICK, openai_at(server), models=[JUDGE]) as pool:
            started = time.monotonic()
            reply = await pool.generate(ask(model=JUDGE))
    assert (reply.calls, len(server.received), pool.meter.spent.calls) == (3, 3, 3)
    assert 0.3 <= time.monotonic() - started < 20


async def test_openai__times_out_on_a_hang() -> None:
    def slow(_: Received) -> Reply:
        time.sleep(1)
        return completion(GOOD)

    with upload_server(slow) as server:
        settings = quick(attempt_timeout=0.2, call_timeout=0.6)
        async with open_models(settings, openai_at(server), models=[JUDGE]) as pool:
            failure = await failure_of(pool, ask(model=JUDGE))
    assert failure.kind == "deadline"


@pytest.mark.parametrize(
    ("model", "variables", "path", "headers"),
    [
        ("ollama_chat/llama3:8b", {"OLLAMA_API_BASE": ""}, "/v1/chat/completions", {}),
        ("openai/m", {"OPENAI_BASE_URL": "/gateway/v1"}, "/gateway/v1/chat/completions", {}),
        (
            "azure/judge",
            {"AZURE_API_BASE": "", "AZURE_API_KEY": "=az"},
            "/openai/v1/chat/completions",
            {"authorization": "Bearer az"},
        ),
        (
            "azure/judge",
            {"AZURE_API_BASE": "", "AZURE_API_KEY": "=az", "AZURE_API_VERSION": "=2025-01-01"},
            "/openai/deployments/judge/chat/completions?api-version=2025-01-01",
            {"api-key": "az"},
        ),
    ],
)
async def test_openai__other_servers(model: str, variables: dict[str, str], path: str, headers: dict[str, str]) -> None:
    with upload_server(lambda _: completion(GOOD)) as server:
        values = {name: value[1:] if value[:1] == "=" else server.url + value for name, value in variables.items()}
        async with open_models(QUICK, values, models=[model]) as pool:
            reply = await pool.generate(ask(model=model))
    assert reply.value == {"verdict": "yes", "why": "because"}
    (call,) = server.received
    assert call.path == path
    assert headers.items() <= call.headers.items()
    assert call.json["model"] == model.partition("/")[2]


async def test_openai__schema_in_the_prompt() -> None:
    with upload_server(lambda _: completion(GOOD)) as server:
        settings = quick(judge_model="deepseek/chat", api_key="k", base_url=f"{server.url}/v1")
        async with open_models(settings, {}, models=["deepseek/chat"]) as pool:
            await pool.generate(ask(model="deepseek/chat"))
    body: dict[str, Any] = server.received[0].json
    assert body["response_format"] == {"type": "json_object"}
    assert json.dumps(SCHEMA) in body["messages"][0]["content"]


async def test_pool__sends_each_key_to_its_provider_only() -> None:
    """Two providers: the input key is for the provider of judge-model; the other uses its own."""
    with upload_server(lambda _: completion(GOOD)) as item, upload_server(lambda _: completion(GOOD)) as two:
        settings = quick(judge_model=JUDGE, api_key="judge-key", base_url=f"{item.url}/v1")
        variables = {"HOSTED_VLLM_API_BASE": f"{two.url}/v1", "HOSTED_VLLM_API_KEY": "vllm-key"}
        async with open_models(settings, variables, models=[JUDGE, "hosted_vllm/m"]) as pool:
            assert await pool.prepare() == []
            await asyncio.gather(pool.generate(ask(model=JUDGE)), pool.generate(ask(model="hosted_vllm/m")))
    assert item.received[0].headers["authorization"] == "Bearer judge-key"
    assert two.received[0].headers["authorization"] == "Bearer vllm-key"


# Any answer of a provider is a reply or a failure of that call, never another exception.


ONCE = quick(retry=Retry(attempts=1))
DEEP = "[" * 100_000
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": GOOD}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    "modelVersion": "gemini-2.5-flash",
}
OPENAI: Any = completion(
    GOOD, usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "completion_tokens_details": None}
).body


def _with(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def _pool_once(server: UploadServer, model: str) -> Any:
    environ = {
        "GOOGLE_API_KEY": "a-key",
        "GOOGLE_GEMINI_BASE_URL": server.url,
        "OPENAI_BASE_URL": f"{server.url}/v1",
        "OPENAI_API_KEY": "a-key",
    }
    return open_models(ONCE, environ, models=[model])


ODD_BODIES = [
    *(b"3", b"null", b"[]", DEEP.encode(), b"\xff\xfe", b'{"candidates": NaN}', b'{"choices": NaN}'),
    json.dumps(_with(GEMINI, ("candidates", 0, "content", "parts", 0, "text"), DEEP)).encode(),
    json.dumps(_with(OPENAI, ("choices", 0, "message", "content"), DEEP)).encode(),
]
MODELS = pytest.mark.parametrize("model", ["gemini-2.5-flash", "openai/judge-1"])


async def _outcome(body: bytes, model: str, *, status: int = 200, headers: dict[str, str] | None = None) -> str:
    reply = Reply(status=status, body=body, headers=headers or {})
    with upload_server(lambda _: reply) as server:
        async with _pool_once(server, model) as pool:
            try:
                answered = await pool.generate(ask(model=model))
            except ModelFailure as failure:
                assert len(failure.message) < 600
                assert status != 200 or failure.kind in {"unavailable", "malformed", "refused"}
                return failure.kind
    assert answered.value == json.loads(GOOD)
    return "answered"


@MODELS
@pytest.mark.parametrize("body", ODD_BODIES, ids=range(len(ODD_BODIES)))
async def test_odd_reply__is_a_failure_of_the_call(body: bytes, model: str) -> None:
    assert await _outcome(body, model) in {"unavailable", "malformed"}


@MODELS
async def test_odd_reply__broken_encoding(model: str) -> None:
    assert await _outcome(b"no gzip", model, headers={"Content-Encoding": "gzip"}) == "unavailable"


@pytest.mark.parametrize("code", [["a"], {"b": 1}, None, 7])
async def test_openai__an_odd_error_body_is_a_failure_of_the_call(code: Any) -> None:
    body = json.dumps({"error": {"code": code, "message": [1, 2]}}).encode()
    assert await _outcome(body, "openai/judge-1", status=400) == "invalid-request"


def _places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in items:
        yield from _places(value, (*path, name))


@MODELS
async def test_odd_reply__any_value_in_any_field(model: str) -> None:
    document = GEMINI if model.startswith("gemini") else OPENAI
    chance = random.Random(7)
    values: list[Any] = [None, 0, -1, 1e308, True, "", "text", [], [None], [7], {}, {"a": []}, [{"type": "text"}]]
    for path in _places(document):
        for value in chance.sample(values, 2):
            await _outcome(json.dumps(_with(document, path, value)).encode(), model)


async def test_openai__reads_mistrals_list_of_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "no?"}]}, {"type": "text", "text": GOOD}]
    with upload_server(lambda _: Reply(body=_with(OPENAI, ("choices", 0, "message", "content"), parts))) as server:
        async with _pool_once(server, "openai/judge-1") as pool:
            reply = await pool.generate(ask(model="openai/judge-1"))
    assert reply.value == json.loads(GOOD)


@pytest.mark.parametrize("count", [-1_000_000, 10**30, "many"])
async def test_openai__ignores_implausible_usage(count: Any) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count, "total_tokens": 1}
    with upload_server(lambda _: completion(GOOD, usage=usage)) as server:
        async with _pool_once(server, "openai/judge-1") as pool:
            await pool.generate(ask(model="openai/judge-1"))
    (entry,) = pool.ledger.entries()
    assert (entry.usage.input_tokens, entry.usage.output_tokens) == (None, None)
    assert 0 < pool.meter.spent.tokens < 10_000


# Vertex AI's evaluation service over a real socket: credentials, repeats, the bill, the cache, a replay.


FINE: Mapping[str, Any] = {"score": 1, "explanation": "fine"}


def ask_service(answer: str = "hello", metric: str = "safety_v1", **fields: Any) -> ModelRequest:
    said = {"parts": [{"text": answer}]}
    instance = {"response": said, "agent_eval_data": {"turns": [{"events": [{"author": "user", "content": said}]}]}}
    body = {"metrics": [metric_spec(metric)], "instance": instance}
    return ModelRequest(
        **{"model": VERTEX_EVAL, "prompt": json.dumps(body), "schema": RESULT, "purpose": metric, **fields}
    )


def fine(_: EvaluationRequest) -> Mapping[str, Any]:
    return FINE


@pytest.fixture
def service() -> Iterator[FakeEvaluation]:
    with FakeEvaluation(script=fine) as server:
        yield server


@pytest.fixture
def account(service: FakeEvaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    path = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))  # google-auth looks there itself
    return service.environ(path)


async def test_a_verdict__paid_for_and_kept(service: FakeEvaluation, account: dict[str, str], tmp_path: Path) -> None:
    settings = quick(cache=tmp_path / "cache")
    async with open_models(settings, account, models=[VERTEX_EVAL]) as pool:
        assert await pool.prepare() == []
        reply = await pool.generate(ask_service(case_id="a:b"))
        again = await pool.generate(ask_service(case_id="a:b"))
    async with open_models(quick(offline=True, cache=tmp_path / "cache"), {}, models=[VERTEX_EVAL]) as replayed:
        third = await replayed.generate(ask_service())

    assert reply.value == {"score": 1.0, "explanation": "fine", "rubrics": []}
    assert (reply.calls, again.calls, again.cached, third.value) == (1, 0, True, reply.value)
    [sent] = service.received
    assert (sent.project, sent.location, sent.metric) == ("a-project", "us-central1", "safety_v1")
    [entry] = pool.ledger.entries()
    assert (entry.calls, entry.cached_replies, entry.unpriced_calls, service.tokens) == (1, 1, 1, 1)


async def test_coherence__is_defined_by_a_file_that_is_fetched_once(
    service: FakeEvaluation, account: dict[str, str]
) -> None:
    service.script = lambda _: {"score": 4}
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        for answer in ("one", "two"):
            assert (await pool.generate(ask_service(answer, "response_evaluation_score"))).value["score"] == 4  # type: ignore[index]
    assert service.fetched == 1
    assert [list(request.body["metrics"][0]) for request in service.received] == [["llm_based_metric_spec"]] * 2


@pytest.mark.parametrize("definition", ["prompt_template: [", "name: coherence", "- a list"])
async def test_an_invalid_definition__is_reported_once(
    service: FakeEvaluation, account: dict[str, str], definition: str
) -> None:
    service.definition = definition
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        failure = await failure_of(pool, ask_service(metric="response_evaluation_score"))
    assert failure.kind == "invalid-request"
    assert "definition" in failure.message
    assert service.received == []


FAILING: dict[str, Any] = {"error": {"code": 14, "message": "try again"}}


@pytest.mark.parametrize("trouble", [503, 429, FAILING, {**FAILING, "error": {"code": 8}}])
async def test_transient_errors__are_retried(
    service: FakeEvaluation, account: dict[str, str], trouble: int | dict[str, Any]
) -> None:
    answers = itertools.chain([trouble, trouble], itertools.repeat(FINE))
    service.script = lambda _: next(answers)
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        reply = await pool.generate(ask_service())
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
    service: FakeEvaluation, account: dict[str, str], said: Any, kind: str, words: str
) -> None:
    service.script = lambda _: said
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        failure = await failure_of(pool, ask_service())
    assert (failure.kind, failure.calls) == (kind, 1)
    assert words in failure.message


async def test_vertex_eval__rejects_other_prompts(service: FakeEvaluation, account: dict[str, str]) -> None:
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        failure = await failure_of(pool, ask_service(prompt="Is it?"))
    assert (failure.kind, service.tokens) == ("invalid-request", 0)
    assert "only evaluates its own metrics" in failure.message


async def test_credentials_that_do_not_work__are_found_before_anything_runs(
    account: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "account.json").write_text('{"type": "service_account", "project_id": "p"}', encoding="utf-8")
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        [problem] = credential_problems(await pool.prepare())
    assert problem.code == "judge-credentials-missing"
    assert problem.hint == "Use google-github-actions/auth before this step."
