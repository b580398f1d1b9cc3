"""The models' libraries against servers on real sockets: google-genai, openai, and Vertex AI's evaluation service."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import re
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from adk_envs import adk_python
from fake_gemini import Answer, FakeGemini, Fault
from fake_gemini.evaluation import EvaluationRequest, FakeEvaluation
from golden_files import check
from models_support import GOOD, MODEL, QUICK, SCHEMA, ask, completion, failure_of, good, pool_at, quick, told
from upload_server import Received, Reply, UploadServer, in_turn, upload_server

from agent_eval_scoring.models.check import credential_problems
from agent_eval_scoring.models.names import VERTEX_EVAL
from agent_eval_scoring.models.pool import open_models
from agent_eval_scoring.models.protocol import ModelFailure, ModelRequest, ModelUsage
from agent_eval_scoring.models.vertex_eval import RESULT, metric_spec
from agent_eval_scoring.net.retry import Retry

# google-genai against a Gemini server on a real socket: requests, replies and credentials.


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
REGION = {"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p-2", "GOOGLE_CLOUD_LOCATION": "us-west1"}
CREDENTIALS: dict[str, tuple[str, dict[str, str]]] = {
    "account": (PRO, {}),
    "account of a project and a region": ("gemini-2.5-pro", REGION),
    "account and an endpoint": ("projects/p-1/locations/us-east4/endpoints/4711", {}),
    "workload identity": (PRO, {"GOOGLE_CLOUD_PROJECT": "p-2"}),
    "workload identity that is refused": (PRO, {"GOOGLE_CLOUD_PROJECT": "p-2"}),
    "key": (PRO, {"GOOGLE_API_KEY": "express-key"}),
    "half an account": (PRO, {}),
}


async def test_vertex__credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for name, (model, variables) in CREDENTIALS.items():
        with (
            FakeGemini(good) as server,
            FakeEvaluation(script=lambda _: {}) as tokens,
            monkeypatch.context() as patched,
        ):
            environ = {**variables, "GOOGLE_VERTEX_BASE_URL": server.url}
            path = tmp_path / "account.json"
            account = {"type": "service_account", "project_id": "p"} if "half" in name else tokens.account()
            path.write_text(json.dumps(account), encoding="utf-8")
            if "workload" in name:
                path = workload_identity(tmp_path, server, "/refuses" if "refused" in name else "/token")
            if name != "key":
                environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(path)
            for variable, value in environ.items():
                patched.setenv(variable, value)  # google-auth looks there itself
            async with open_models(QUICK, environ, models=[model]) as pool:
                problems = credential_problems(await pool.prepare())
                text = await told(pool, ask(model=model))
            codes = [problem.code for problem in problems]
            asked = [
                (sent.project, sent.location, sent.model, sent.headers.get("x-goog-api-key"))
                for sent in server.received
            ]
        text = re.sub(r"(?<=credentials) (are missing|were rejected): .*(?= (Use|Check) )", r" \1", text)
        said.append(f"{name}: {codes}\n    {text}\n    asked {asked}\n")
    check("golden_model_credentials.txt", re.sub(r"http://127[\d.:]+\d", "URL", "".join(said)))


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


SERVERS: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "/v1/chat/completions": ("ollama_chat/llama3:8b", {"OLLAMA_API_BASE": "URL"}, {}),
    "/gateway/v1/chat/completions": ("openai/m", {"OPENAI_BASE_URL": "URL/gateway/v1"}, {}),
    "/openai/v1/chat/completions": (
        "azure/judge",
        {"AZURE_API_BASE": "URL", "AZURE_API_KEY": "az"},
        {"authorization": "Bearer az"},
    ),
    "/openai/deployments/judge/chat/completions?api-version=2025-01-01": (
        "azure/judge",
        {"AZURE_API_BASE": "URL", "AZURE_API_KEY": "az", "AZURE_API_VERSION": "2025-01-01"},
        {"api-key": "az"},
    ),
}


async def test_openai__other_servers() -> None:
    for path, (model, variables, headers) in SERVERS.items():
        with upload_server(lambda _: completion(GOOD)) as server:
            environ = {name: value.replace("URL", server.url) for name, value in variables.items()}
            async with open_models(QUICK, environ, models=[model]) as pool:
                reply = await pool.generate(ask(model=model))
        assert reply.value == {"verdict": "yes", "why": "because"}
        (call,) = server.received
        assert (call.path, call.json["model"]) == (path, model.partition("/")[2])
        assert headers.items() <= call.headers.items()


async def test_openai__schema_in_the_prompt() -> None:
    with upload_server(lambda _: completion(GOOD)) as server:
        settings = quick(judge_model="deepseek/chat", api_key="k", base_url=f"{server.url}/v1")
        async with open_models(settings, {}, models=["deepseek/chat"]) as pool:
            await pool.generate(ask(model="deepseek/chat"))
    body: dict[str, Any] = server.received[0].json
    assert body["response_format"] == {"type": "json_object"}
    assert json.dumps(SCHEMA) in body["messages"][0]["content"]


REFUSES: dict[str, tuple[str, ...]] = {
    "a schema": ("json_schema",),
    "every format": ("json_schema", "json_object"),
    "whatever is asked": ("json_schema", "json_object", ""),
}


@pytest.mark.parametrize("what", REFUSES)
async def test_openai__a_server_that_refuses_a_format_is_asked_for_the_next_one(what: str) -> None:
    """The body is LiteLLM's, which renames the code."""

    def server_reply(call: Received) -> Reply:
        asked = call.json.get("response_format", {}).get("type", "")
        message = f"litellm.BadRequestError: OpenAIException - no response_format `{asked}`"
        refused = Reply(status=400, body={"error": {"message": message, "param": "response_format", "code": "400"}})
        return refused if asked in REFUSES[what] else completion(GOOD)

    with upload_server(server_reply) as server:
        async with open_models(QUICK, {"OPENAI_BASE_URL": f"{server.url}/v1"}, models=["openai/m"]) as pool:
            if what == "whatever is asked":
                failure = await failure_of(pool, ask(model="openai/m"))
                assert failure.kind == "invalid-request" and "no response_format ``" in failure.message
                return
            replies = await asyncio.gather(*(pool.generate(ask(model="openai/m", sample=n)) for n in range(3)))
            assert [reply.value["verdict"] for reply in replies if reply.value] == ["yes"] * 3
            before = len(server.received)
            await pool.generate(ask(model="openai/m", sample=4))
    [last] = server.received[before:]
    assert last.json.get("response_format", {}).get("type", "") not in REFUSES[what]
    assert json.dumps(SCHEMA) in last.json["messages"][0]["content"]


FILTERED = [
    {"message": "... triggering Azure OpenAI's content management policy. ...", "param": "prompt", "code": "400"},
    {"message": "litellm.ContentPolicyViolationError: rejected", "code": "400"},
    {"message": "Your request was rejected as a result of our safety system.", "code": "content_policy_violation"},
    {"message": "Output blocked by content filtering policy", "type": "invalid_request_error"},
]


@pytest.mark.parametrize("error", FILTERED)
async def test_openai__a_content_filter_behind_a_gateway_refuses(error: dict[str, str]) -> None:
    with upload_server(lambda _: Reply(status=400, body={"error": error})) as server:
        async with open_models(QUICK, openai_at(server), models=[JUDGE]) as pool:
            failure = await failure_of(pool, ask(model=JUDGE))
    assert (failure.kind, len(server.received)) == ("refused", 1) and error["message"] in failure.message


@pytest.mark.parametrize("model", ["openai/m", "gemini-2.5-flash"])
async def test_tls__a_server_that_does_not_speak_it_is_asked_once(model: str) -> None:
    with upload_server(lambda _: completion(GOOD)) as server:
        url = server.url.replace("http:", "https:")
        async with open_models(quick(judge_model=model, api_key="k", base_url=url), {}, models=[model]) as pool:
            failure = await failure_of(pool, ask(model=model))
            assert (failure.kind, pool.meter.spent.calls) == ("invalid-request", 1), failure
    assert "no secure connection" in failure.message and "`https`" in (failure.hint or "")


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


# The anthropic package against a server with Anthropic's messages, also as Bedrock has them.


CLAUDE, ON_BEDROCK = "anthropic/claude-judge-1", "bedrock/us.anthropic.claude-judge-1-v1:0"


def message(*content: Mapping[str, Any], stop: str = "tool_use", **usage: int) -> Reply:
    """A message, as Anthropic answers."""
    counts = {"input_tokens": 20, "output_tokens": 30, **usage}
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-judge-1-served"}
    return Reply(body={**body, "content": [*content], "stop_reason": stop, "stop_sequence": None, "usage": counts})


def called(verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "reply", "input": dict(verdict)}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


VERDICT = json.loads(GOOD)


def anthropic_at(server: UploadServer, **more: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": server.url,
        "ANTHROPIC_API_KEY": "a-key",
        "AWS_BEDROCK_RUNTIME_ENDPOINT": server.url,
        "AWS_BEARER_TOKEN_BEDROCK": "b-key",
        "AWS_REGION": "eu-west-1",
        **more,
    }


@pytest.mark.parametrize("model", [CLAUDE, ON_BEDROCK])
async def test_anthropic__sends_the_question_and_reads_the_answer(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What the package itself would take from the job: none of it is the judge's.
    for name in ("ANTHROPIC_AUTH_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "the-agents-own")
    answer = message(said("Let me see."), called(VERDICT), cache_read_input_tokens=70, cache_creation_input_tokens=10)
    with upload_server(lambda _: answer) as server:
        async with open_models(QUICK, anthropic_at(server), models=[model]) as pool:
            config = {"temperature": 0.2, "max_output_tokens": 99, "stop_sequences": ["END"], "top_k": 3, "seed": 7}
            reply = await pool.generate(ask(model=model, system="Be fair.", config=config))
    assert (reply.value, reply.model_version) == (VERDICT, "claude-judge-1-served")
    assert reply.usage == ModelUsage(input_tokens=100, output_tokens=30, cached_tokens=70)
    (call,) = server.received
    keys = {name: value for name, value in call.headers.items() if name in {"x-api-key", "authorization"}}
    assert "the-agents-own" not in str(call.headers)
    shown = {"path": call.path, **keys, "body": call.json}
    check(f"golden_{model.partition('/')[0]}_request.json", json.dumps(shown, indent=1) + "\n")


def turned_down(status: int, kind: str, text: str) -> Reply:
    body = {"type": "error", "error": {"type": kind, "message": text}}
    return Reply(status=status, body=body, headers={"Retry-After": "0"} if status == 429 else {})


CLAUDES: dict[str, Reply] = {
    "cut off": message(said('{"verdict'), stop="max_tokens"),
    "refused": message(said("I can't help with that."), stop="refusal"),
    "no call": message(said(GOOD), stop="end_turn"),
    "arguments that don't fit": message(called({"verdict": "perhaps"})),
    "empty": message(stop="end_turn"),
    "a page": Reply(body=b"<html>maintenance</html>"),
    "no such model": turned_down(404, "not_found_error", "model: x"),
    "wrong key": turned_down(401, "authentication_error", "invalid x-api-key"),
    "overloaded": turned_down(529, "overloaded_error", "Overloaded"),
    "too many": turned_down(429, "rate_limit_error", "50 requests a minute"),
    "no credit": turned_down(400, "invalid_request_error", "Your credit balance is too low"),
    "of AWS": Reply(status=403, body={"message": "You don't have access to the model with the specified model ID."}),
    "throttled by AWS": Reply(status=429, body={"message": "Too many tokens, please wait before trying again."}),
}


async def test_anthropic__what_becomes_of_its_answers() -> None:
    told_of = []
    for name, answer in CLAUDES.items():
        model = ON_BEDROCK if "AWS" in name else CLAUDE
        with upload_server(functools.partial(lambda answer, _: answer, answer)) as server:
            async with open_models(QUICK, anthropic_at(server), models=[model]) as pool:
                text = await told(pool, ask(model=model))
        told_of.append(f"{name}:\n    {text}\n")
    check("golden_anthropic_replies.txt", re.sub(r"http://127[\d.:]+\d", "URL", "".join(told_of)))


async def test_anthropic__a_model_that_refuses_to_call_a_tool_is_asked_for_text() -> None:
    refusal = {"type": "invalid_request_error", "message": "tool_choice: forced tools are not allowed while thinking"}

    def server_reply(call: Received) -> Reply:
        if "tool_choice" in call.json:
            return Reply(status=400, body={"type": "error", "error": refusal})
        return message({"type": "thinking", "thinking": "no?", "signature": "s"}, said(GOOD), stop="end_turn")

    with upload_server(server_reply) as server:
        async with open_models(QUICK, anthropic_at(server), models=[CLAUDE]) as pool:
            replies = [await pool.generate(ask(model=CLAUDE, sample=n)) for n in range(2)]
    assert [reply.value for reply in replies] == [VERDICT, VERDICT]
    assert ["tool_choice" in call.json for call in server.received] == [True, False, False]
    assert json.dumps(SCHEMA) in server.received[-1].json["system"]


async def test_anthropic__a_server_that_is_not_there_or_is_silent() -> None:
    def slow(_: Received) -> Reply:
        time.sleep(1)
        return message(called(VERDICT))

    with upload_server(slow) as server:
        async with open_models(quick(attempt_timeout=0.2, call_timeout=0.6), anthropic_at(server)) as pool:
            assert (await failure_of(pool, ask(model=CLAUDE))).kind == "deadline"
    async with open_models(quick(call_timeout=0.6), anthropic_at(server), models=[CLAUDE]) as pool:
        failure = await failure_of(pool, ask(model=CLAUDE))
        assert failure.kind == "unavailable" and "no connection" in failure.message


async def test_bedrock__signs_with_the_credentials_of_the_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
    }.items():
        monkeypatch.setenv(name, value)
    with upload_server(lambda _: message(called(VERDICT))) as server:
        environ = anthropic_at(server)
        del environ["AWS_BEARER_TOKEN_BEDROCK"]
        async with open_models(QUICK, environ, models=[ON_BEDROCK]) as pool:
            assert (await pool.generate(ask(model=ON_BEDROCK))).value == VERDICT
        (call,) = server.received
        assert call.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/")
        assert "/eu-west-1/bedrock/aws4_request" in call.headers["authorization"]
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        # The package remembers the credentials of a region.
        async with open_models(QUICK, {**environ, "AWS_REGION": "eu-west-2"}, models=[ON_BEDROCK]) as pool:
            failure = await failure_of(pool, ask(model=ON_BEDROCK))
    assert failure.kind == "no-credentials" and "AWS_BEARER_TOKEN_BEDROCK" in (failure.hint or "")
    assert len(server.received) == 1


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


# Any answer of a provider is a reply or a failure of that call, never another exception.


DEEP = "[" * 100_000
GEMINI = {
    "candidates": [{"content": {"parts": [{"text": GOOD}], "role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    "modelVersion": "gemini-2.5-flash",
}
OPENAI: Any = completion(
    GOOD, usage={"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "completion_tokens_details": None}
).body
PARTS = [{"type": "thinking", "thinking": [{"type": "text", "text": "no?"}]}, {"type": "text", "text": GOOD}]


def _with(document: Any, path: tuple[str | int, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(document))
    place = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return copy


def _places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if path:
        yield path
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for name, value in items:
        yield from _places(value, (*path, name))


def refused(status: int, error: Any) -> Reply:
    return Reply(status=status, body={"error": error})


def usage(count: Any) -> Reply:
    return completion(GOOD, usage={"prompt_tokens": count, "completion_tokens": count, "total_tokens": 1})


PAGE = {"Content-Type": "text/html"}
GEMINI_SAYS: dict[str, Answer | Fault] = {
    "refused for safety": Answer(parts=[], finish_reason="SAFETY"),
    "prohibited": Answer(parts=[{"text": GOOD}], finish_reason="PROHIBITED_CONTENT"),
    "cut": Answer(parts=[{"text": GOOD}], finish_reason="MAX_TOKENS"),
    "only a thought": Answer(parts=[{"text": GOOD, "thought": True}]),
    "nothing": Answer(parts=[]),
    "prose": Answer.text("I'd say yes"),
    **{f"{status}": Fault(kind=status, message="no") for status in (400, 401, 403, 404)},
}
OPENAI_SAYS: dict[str, Reply | None] = {
    "refused by a filter": completion(GOOD, finish="content_filter"),
    "refused": completion(None, refusal="I can't judge that"),
    "cut": completion(GOOD[:9], finish="length"),
    "nothing": completion(None),
    "parts, as of Mistral": Reply(body=_with(OPENAI, ("choices", 0, "message", "content"), PARTS)),
    "400 of a filter": refused(400, {"code": "content_filter", "message": "violence"}),
    "400": refused(400, {"message": "no such field"}),
    "401 that quotes the key": refused(401, {"message": "Incorrect API key provided: sk-secret-123."}),
    "503": Reply(status=503, body=b"<html>sorry</html>", headers=PAGE),
    "a proxy's page": Reply(body=b"<html>a proxy's page</html>", headers=PAGE),
    "closed connection": None,
    **{
        f"400 with the code {code}": refused(400, {"code": code, "message": [1, 2]})
        for code in (["a"], {"b": 1}, None, 7)
    },
    **{f"usage of {count} tokens": usage(count) for count in (-1_000_000, 10**30, "many")},
}
FAILING: dict[str, Any] = {"error": {"code": 14, "message": "try again"}}
VERTEX_SAYS: dict[str, list[Any]] = {
    **{
        f"{said}, {said}, and a score": [said, said, FINE]
        for said in (503, 429, FAILING, {**FAILING, "error": {"code": 8}})
    },
    "too long": [{"error": {"code": 3, "message": "too long"}}],
    "not allowed": [{"error": {"code": 7, "message": "not yours"}}],
    "no score": [{"explanation": "who knows"}],
    **{f"the score {score}": [{"score": score}] for score in (True, float("nan"), float("inf"))},
    "403": [403],
}


async def test_replies__of_all_services_in_words(service: FakeEvaluation, account: dict[str, str]) -> None:
    said = []
    for name, says in GEMINI_SAYS.items():
        with FakeGemini(in_turn(says)) as gemini:
            async with pool_at(gemini) as pool:
                text = await told(pool, ask(), ask(sample=1))
        said.append(f"Gemini, {name}\n    {text}; {gemini.stats.requests} requests\n")
    with FakeGemini(in_turn(Answer.text(" "), Answer.text("So?"))) as gemini:
        async with pool_at(gemini) as pool:
            text = await told(pool, ask(schema=None))
    said.append(f"Gemini, nothing and then a text, as of a simulated user\n    {text}\n")
    for name, answer in OPENAI_SAYS.items():
        with upload_server(in_turn(answer)) as server:
            async with open_models(QUICK, openai_at(server, OPENAI_API_KEY="sk-secret-123"), models=[JUDGE]) as pool:
                text = await told(pool, ask(model=JUDGE), ask(model=JUDGE, sample=1))
        said.append(f"OpenAI, {name}\n    {text}; {len(server.received)} requests\n")
    for name, verdicts in VERTEX_SAYS.items():
        service.script = in_turn(*verdicts)
        async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
            said.append(f"Vertex AI, {name}\n    {await told(pool, ask_service())}\n")
    for definition in ("prompt_template: [", "name: coherence", "- a list"):
        service.definition = definition
        async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
            text = await told(pool, ask_service(metric="response_evaluation_score"))
        said.append(f"Vertex AI, the definition {definition!r}\n    {text}\n")
    async with open_models(QUICK, account, models=[VERTEX_EVAL]) as pool:
        said.append(f"Vertex AI, another prompt\n    {await told(pool, ask_service(prompt='Is it?'))}\n")
    check("golden_model_replies.txt", re.sub(r"http://127[\d.:]+\d", "URL", "".join(said)))


@pytest.mark.parametrize("model", [MODEL, JUDGE])
async def test_odd_reply__is_a_reply_or_a_failure_of_the_call(model: str) -> None:
    document, place = (
        (GEMINI, ("candidates", 0, "content", "parts", 0, "text"))
        if model == MODEL
        else (OPENAI, ("choices", 0, "message", "content"))
    )
    chance = random.Random(7)
    values: list[Any] = [None, 0, -1, 1e308, True, "", "text", [], [None], [7], {}, {"a": []}, [{"type": "text"}]]
    bad = [b"3", b"null", b"[]", DEEP.encode(), b"\xff\xfe", b'{"candidates": NaN}', b'{"choices": NaN}']
    bad.append(json.dumps(_with(document, place, DEEP)).encode())
    odd = [_with(document, path, value) for path in _places(document) for value in chance.sample(values, 2)]
    replies = [Reply(body=body) for body in [*bad, *odd]]
    replies.insert(len(bad), Reply(body=b"no gzip", headers={"Content-Encoding": "gzip"}))
    settings = quick(retry=Retry(attempts=1), outage=1000.0)
    with upload_server() as server:
        environ = {"GOOGLE_API_KEY": "a-key", "GOOGLE_GEMINI_BASE_URL": server.url}
        async with open_models(settings, {**environ, **openai_at(server)}, models=[model]) as pool:
            for number, reply in enumerate(replies):
                server.respond = in_turn(reply)
                try:
                    answered = await pool.generate(ask(model=model, sample=number))
                    assert answered.value == json.loads(GOOD) and number > len(bad), reply.body
                except ModelFailure as failure:
                    assert len(failure.message) < 600
                    assert failure.kind in {"unavailable", "malformed", "refused"}
                assert len(server.received) > number, "it was asked"
