"""Client for Vertex AI's evaluation service, a paid service that scores five of ADK's metrics.

Requests match those of google-cloud-aiplatform 2.7.0 for google-adk 2.13.0: `evaluateInstances` of API version v1beta1,
one metric and one instance per request (`make conformance` compares the bodies). The service is wrapped as a model: the
prompt is the request's body as JSON, the reply is a verdict (RESULT). Retries, limits, cache and usage accounting are
those of all models.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.text import whole_line
from agent_eval_scoring.models._endpoint import Endpoint
from agent_eval_scoring.models._gemini import google_credentials
from agent_eval_scoring.models._provider import (
    ProviderError,
    ProviderReply,
    ProviderRequest,
    credentials_rejected,
    error_text,
    retry_info_delay,
    status_error,
    timeout_error,
)
from agent_eval_scoring.models.protocol import ModelFailure, ModelUsage

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from httpx2 import AsyncClient, Response

_COHERENCE = "response_evaluation_score"
JUDGED_BY_SERVICE = (
    "safety_v1",
    _COHERENCE,
    "multi_turn_task_success_v1",
    "multi_turn_trajectory_quality_v1",
    "multi_turn_tool_use_quality_v1",
)
"""ADK's metrics that the service scores, all but one by its predefined specification of that name.

google-adk 2.13.0 pins SAFETY to v1; COHERENCE defaults to v1. COHERENCE is not a predefined specification but a file of
prompts in a public bucket (_definition)."""

RESULT: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "score": {"type": "number"},
        "explanation": {"type": "string"},
        "rubrics": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "rubric": {"type": "string"},
                    "met": {"type": "boolean"},
                    "reasoning": {"type": "string"},
                },
                "required": ["rubric", "met", "reasoning"],
            },
        },
    },
    "required": ["score", "explanation", "rubrics"],
}
"""The JSON Schema of a reply."""

_API_VERSION = "v1beta1"
_BUCKET = "vertex-ai-generative-ai-eval-sdk-resources"
_STORAGE = "https://storage.googleapis.com"
_DEFINITION = "definition"
"""Placeholder key of a metric whose definition the client has to fetch."""
_RETRIED_CODES = {4: False, 8: True, 10: False, 13: False, 14: False}
"""Retryable `google.rpc.Code` values of a result; the value says whether it means throttling."""
_NOT_ALLOWED = {7, 16}


def metric_spec(metric: str) -> dict[str, Any]:
    """Returns the metric entry of a request.

    Args:
        metric: One of JUDGED_BY_SERVICE.

    Returns:
        The wire form, or `{"definition": ...}`, which the client replaces.
    """
    if metric == _COHERENCE:
        return {_DEFINITION: "coherence/v1"}
    return {"predefined_metric_spec": {"metric_spec_name": metric, "metric_spec_parameters": None}}


def service_url(endpoint: Endpoint) -> str:
    """Returns the service's URL: one host per location, special hosts for multi-regions, as in google-genai."""
    if endpoint.base_url is not None:
        return endpoint.base_url
    location = endpoint.location
    if location == "global":
        return "https://aiplatform.googleapis.com"
    if location in {"us", "eu"}:
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


class VertexEvalClient:
    """The service in one project and location."""

    def __init__(self, endpoint: Endpoint, credentials: Credentials, client: AsyncClient) -> None:
        """Wraps credentials and an HTTP client; its own retries must be off."""
        parent = f"projects/{endpoint.project}/locations/{endpoint.location}"
        self._url = f"{service_url(endpoint)}/{_API_VERSION}/{parent}:evaluateInstances"
        self._storage = endpoint.storage_url
        self._credentials = credentials
        self._client = client
        # One refresh for all calls in flight: each would fetch a token of its own.
        self._refreshing = asyncio.Lock()
        self._defining = asyncio.Lock()
        self._definitions: dict[str, dict[str, Any]] = {}

    async def send(self, request: ProviderRequest) -> ProviderReply:
        """Makes one attempt: one metric, one instance."""
        body = _body(request.prompt)
        try:
            async with asyncio.timeout(request.timeout):
                # Inside of the time limit: the first call fetches the definition, too.
                body["metrics"] = [await self._defined(metric) for metric in body["metrics"]]
                response = await self._request("POST", self._url, json=body)
        except TimeoutError as error:
            raise timeout_error(request.timeout) from error
        return ProviderReply(text=json.dumps(_result(response.json())), usage=ModelUsage(), model_version=None)

    async def close(self) -> None:
        """Closes connections."""
        await self._client.aclose()

    async def _request(self, method: str, url: str, *, anonymous: bool = False, **options: Any) -> Response:
        import httpx2

        try:
            headers = {} if anonymous else await self._headers()
            response = await self._client.request(method, url, headers=headers, **options)
        except httpx2.ConnectError as error:
            raise ProviderError(f"no connection: {error_text(error)}", then="retry", sent=False) from error
        except httpx2.TransportError as error:
            raise ProviderError(f"the connection broke: {error_text(error)}", then="retry") from error
        if response.status_code != 200:
            raise _refusal(response)
        return response

    async def _headers(self) -> dict[str, str]:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        async with self._refreshing:
            if not self._credentials.valid:
                try:
                    # google-auth is synchronous, and would stop every other call meanwhile.
                    await asyncio.to_thread(self._credentials.refresh, Request())
                except GoogleAuthError as error:
                    raise credentials_rejected(error) from error
        headers = {"Authorization": f"Bearer {self._credentials.token}"}
        # Of a user's credentials: without the header, the request would count for gcloud's own project.
        if project := getattr(self._credentials, "quota_project_id", None):
            headers["x-goog-user-project"] = str(project)
        return headers

    async def _defined(self, metric: dict[str, Any]) -> dict[str, Any]:
        """Returns the metric with its definition, which is fetched once."""
        name = metric.get(_DEFINITION)
        if name is None:
            return metric
        async with self._defining:
            if name not in self._definitions:
                # An object's name is one segment of Cloud Storage's path.
                path = f"metrics/{name}.yaml".replace("/", "%2F")
                url = f"{self._storage or _STORAGE}/download/storage/v1/b/{_BUCKET}/o/{path}"
                # An emulator of Cloud Storage gets no token, as with Google's own client.
                response = await self._request("GET", url, params={"alt": "media"}, anonymous=self._storage is not None)
                self._definitions[name] = _definition(response.text)
        return self._definitions[name]


def _body(prompt: str) -> dict[str, Any]:
    try:
        body = json.loads(prompt)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("metrics"), list):
        raise ProviderError(
            "Vertex AI's evaluation service only evaluates its own metrics",
            kind="invalid-request",
            then="give-up",
            sent=False,
        )
    return body


def _definition(text: str) -> dict[str, Any]:
    """Converts a definition file to the wire form, as google-cloud-aiplatform 2.7.0 does."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        # Safe, though Google wrote it: it comes over the network.
        definition = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise _no_definition("it is not YAML") from error
    if not isinstance(definition, dict) or not isinstance(definition.get("prompt_template"), str):
        raise _no_definition("it has no `prompt_template`")
    spec: dict[str, Any] = {"metric_prompt_template": definition["prompt_template"]}
    if instruction := definition.get("judge_model_system_instruction"):
        spec["system_instruction"] = instruction
    if group := definition.get("rubric_group_name"):
        spec["rubric_group_key"] = group
    if raw := definition.get("return_raw_output"):
        spec["custom_output_format_config"] = {"return_raw_output": raw}
    names = {
        "judge_model": "autorater_model",
        "judge_model_generation_config": "generation_config",
        "judge_model_sampling_count": "sampling_count",
    }
    if judge := {name: definition[key] for key, name in names.items() if definition.get(key)}:
        spec["judge_autorater_config"] = judge
    if parser := definition.get("result_parsing_function"):
        spec["result_parser_config"] = {"custom_code_parser_config": {"parsing_function": parser}}
    return {"llm_based_metric_spec": spec}


def _no_definition(why: str) -> ProviderError:
    return ProviderError(
        f"Google's definition of the metric can't be used: {why}", kind="invalid-request", then="give-up", sent=False
    )


def _result(answer: Any) -> dict[str, Any]:
    """Converts an answer to a verdict in the form of RESULT."""
    results = answer.get("metricResults") if isinstance(answer, dict) else None
    result = results[0] if isinstance(results, list) and results else None
    if not isinstance(result, dict):
        raise ProviderError("the answer could not be parsed: it has no `metricResults`", then="retry")
    error = result.get("error")
    # The service answers 200 and puts a metric's failure into its result. Code 0 is OK.
    if isinstance(error, dict) and error.get("code"):
        raise _result_error(error)
    score = result.get("score")
    # A missing score is no 0: it would fail the case for what the service has not said.
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        explanation = whole_line(str(result.get("explanation") or ""))
        raise ProviderError(f"the service gave no score{f': {explanation}' if explanation else ''}", kind="malformed")
    verdicts = result.get("rubricVerdicts")
    return {
        "score": float(score),
        "explanation": str(result.get("explanation") or ""),
        "rubrics": [
            _rubric(number, verdict)
            for number, verdict in enumerate(verdicts if isinstance(verdicts, list) else ())
            if isinstance(verdict, dict)
        ],
    }


def _rubric(number: int, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a rubric verdict, with ADK's name; a missing verdict counts as not met."""
    rubric = verdict.get("evaluatedRubric")
    rubric = rubric if isinstance(rubric, dict) else {}
    content = rubric.get("content")
    criterion = content.get("property") if isinstance(content, dict) else None
    description = criterion.get("description") if isinstance(criterion, dict) else None
    return {
        "rubric": str(description or rubric.get("rubricId") or f"rubric_{number}"),
        "met": bool(verdict.get("verdict")),
        "reasoning": str(verdict.get("reasoning") or ""),
    }


def _result_error(error: Mapping[str, Any]) -> ProviderError:
    code = error["code"]
    message = f"the service returned an error ({code}: {whole_line(str(error.get('message', '')))})"
    if code in _RETRIED_CODES:
        return ProviderError(message, then="slow-down" if _RETRIED_CODES[code] else "retry")
    # The rest is about this one instance, e.g. that its content is blocked.
    if code in _NOT_ALLOWED:
        return ProviderError(message, kind="invalid-request", then="give-up")
    return ProviderError(message, kind="refused")


def _refusal(response: Response) -> ProviderError:
    try:
        details = response.json()
    except ValueError:
        details = {}
    error = details.get("error") if isinstance(details, dict) else None
    message = str(error.get("message", "")) if isinstance(error, dict) else ""
    return status_error(response.status_code, whole_line(message), response.headers, wait=retry_info_delay(details))


def open_vertex_eval(endpoint: Endpoint, *, connections: int) -> VertexEvalClient:
    """Creates the client. Run it in a thread: it may query the metadata server for credentials.

    Raises:
        ModelFailure: `no-credentials`.
    """
    import httpx2

    try:
        import ruamel.yaml  # noqa: F401 - a missing package is reported before anything runs
    except ImportError as error:
        raise ModelFailure(
            "no-credentials",
            "Vertex AI's evaluation service needs the package `ruamel.yaml`, which is not installed.",
            "Install `agent-eval-action[yaml]`; the action's image has it.",
        ) from error
    credentials, _ = google_credentials(endpoint)
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    client = httpx2.AsyncClient(limits=limits, timeout=None)  # Each attempt has its own deadline.
    return VertexEvalClient(endpoint, credentials, client)
