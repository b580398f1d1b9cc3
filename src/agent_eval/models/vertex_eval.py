"""Vertex AI's evaluation service, which judges five metrics of ADK by itself and is paid for it.

It is asked as google-cloud-aiplatform 2.7.0 asks it for google-adk 2.13.0: `evaluateInstances` of API version v1beta1,
one metric and one instance at a time (`make conformance` compares the bodies). Seen from outside it is a model whose
prompt is the request's body as JSON and whose reply is a verdict (RESULT); so retries, limits, the cache and the bill
are those of all models.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent_eval.core.text import first_line
from agent_eval.models._endpoint import Endpoint
from agent_eval.models._gemini import google_credentials
from agent_eval.models._provider import Ask, Told, Trouble, said, status_trouble, told_delay
from agent_eval.models.protocol import ModelFailure, ModelUsage

if TYPE_CHECKING:
    from google.auth.credentials import Credentials
    from httpx2 import AsyncClient, Response

JUDGED_BY_SERVICE: Mapping[str, Mapping[str, str]] = {
    "safety_v1": {"predefined": "safety_v1"},
    "response_evaluation_score": {"definition": "coherence/v1"},
    "multi_turn_task_success_v1": {"predefined": "multi_turn_task_success_v1"},
    "multi_turn_trajectory_quality_v1": {"predefined": "multi_turn_trajectory_quality_v1"},
    "multi_turn_tool_use_quality_v1": {"predefined": "multi_turn_tool_use_quality_v1"},
}
"""By ADK's metric: the name of the service's own specification, or where the definition lies that is sent along.

google-adk 2.13.0 pins SAFETY to v1, and COHERENCE is v1 unless told otherwise; the latter is no specification of the
service but a file of prompts in a public bucket (_definition)."""

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
"""The key of a metric in a request that stands for a definition still to be fetched."""
_RETRIED_CODES = {4: False, 8: True, 10: False, 13: False, 14: False}
"""Of a result's own `google.rpc.Code`, those that another attempt may mend; true where there were too many calls."""
_NOT_ALLOWED = {7, 16}


def metric_spec(metric: str) -> dict[str, Any]:
    """What a request says of the metric.

    Args:
        metric: One of JUDGED_BY_SERVICE.

    Returns:
        The wire form, or `{"definition": ...}`, which the client replaces.
    """
    known = JUDGED_BY_SERVICE[metric]
    if _DEFINITION in known:
        return {_DEFINITION: known[_DEFINITION]}
    return {"predefined_metric_spec": {"metric_spec_name": known["predefined"], "metric_spec_parameters": None}}


def service_url(endpoint: Endpoint) -> str:
    """Where the service is: a host for each location, others for the multi-regions, as in google-genai."""
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
        """Takes credentials and a client that does not retry by itself."""
        place = f"projects/{endpoint.project}/locations/{endpoint.location}"
        self._url = f"{service_url(endpoint)}/{_API_VERSION}/{place}:evaluateInstances"
        self._storage = endpoint.storage_url
        self._credentials = credentials
        self._client = client
        self._refreshing = asyncio.Lock()
        self._defining = asyncio.Lock()
        self._definitions: dict[str, dict[str, Any]] = {}

    async def ask(self, ask: Ask) -> Told:
        """Makes one attempt: one metric on one instance."""
        body = _body(ask.prompt)
        try:
            async with asyncio.timeout(ask.timeout):
                body["metrics"] = [await self._defined(metric) for metric in body["metrics"]]
                response = await self._send("POST", self._url, json=body)
        except TimeoutError as error:
            raise Trouble(f"no answer within {round(ask.timeout, 1):g} s", kind="deadline", again=True) from error
        return Told(text=json.dumps(_result(response.json())), usage=ModelUsage(), model_version=None)

    async def close(self) -> None:
        """Gives up connections."""
        await self._client.aclose()

    async def _send(self, method: str, url: str, *, anonymous: bool = False, **options: Any) -> Response:
        import httpx2

        try:
            headers = {} if anonymous else await self._headers()
            response = await self._client.request(method, url, headers=headers, **options)
        except httpx2.ConnectError as error:
            raise Trouble(f"no connection: {said(error)}", again=True, sent=False) from error
        except httpx2.TransportError as error:
            raise Trouble(f"the connection broke: {said(error)}", again=True) from error
        if response.status_code != 200:
            raise _refusal(response)
        return response

    async def _headers(self) -> dict[str, str]:
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request

        async with self._refreshing:
            if not self._credentials.valid:
                try:
                    await asyncio.to_thread(self._credentials.refresh, Request())
                except GoogleAuthError as error:
                    retryable = bool(getattr(error, "retryable", False))
                    raise Trouble(
                        f"Google's credentials did not work: {said(error)}",
                        kind="no-credentials",
                        again=retryable,
                        hopeless=not retryable,
                        hint="Check the service account or the workload identity that the job uses.",
                        sent=False,
                    ) from error
        headers = {"Authorization": f"Bearer {self._credentials.token}"}
        if project := getattr(self._credentials, "quota_project_id", None):
            headers["x-goog-user-project"] = str(project)
        return headers

    async def _defined(self, metric: dict[str, Any]) -> dict[str, Any]:
        """The metric with what had to be fetched for it, once for all."""
        name = metric.get(_DEFINITION)
        if name is None:
            return metric
        async with self._defining:
            if name not in self._definitions:
                path = f"metrics/{name}.yaml".replace("/", "%2F")
                url = f"{self._storage or _STORAGE}/download/storage/v1/b/{_BUCKET}/o/{path}"
                # What stands in for Cloud Storage is not shown the token, as with Google's own client.
                found = await self._send("GET", url, params={"alt": "media"}, anonymous=self._storage is not None)
                self._definitions[name] = _definition(found.text)
        return self._definitions[name]


def _body(prompt: str) -> dict[str, Any]:
    try:
        body = json.loads(prompt)
    except ValueError:
        body = None
    if not isinstance(body, dict) or not isinstance(body.get("metrics"), list):
        raise Trouble(
            "Vertex AI's evaluation service judges its own metrics and can't be asked anything else",
            kind="invalid-request",
            hopeless=True,
            sent=False,
        )
    return body


def _definition(text: str) -> dict[str, Any]:
    """The wire form of a definition: what google-cloud-aiplatform 2.7.0 makes of the fields of such a file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        found = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise _no_definition("it is no YAML") from error
    if not isinstance(found, dict) or not isinstance(found.get("prompt_template"), str):
        raise _no_definition("it has no `prompt_template`")
    spec: dict[str, Any] = {"metric_prompt_template": found["prompt_template"]}
    if told := found.get("judge_model_system_instruction"):
        spec["system_instruction"] = told
    if group := found.get("rubric_group_name"):
        spec["rubric_group_key"] = group
    if raw := found.get("return_raw_output"):
        spec["custom_output_format_config"] = {"return_raw_output": raw}
    names = {
        "judge_model": "autorater_model",
        "judge_model_generation_config": "generation_config",
        "judge_model_sampling_count": "sampling_count",
    }
    if judge := {name: found[key] for key, name in names.items() if found.get(key)}:
        spec["judge_autorater_config"] = judge
    if parser := found.get("result_parsing_function"):
        spec["result_parser_config"] = {"custom_code_parser_config": {"parsing_function": parser}}
    return {"llm_based_metric_spec": spec}


def _no_definition(why: str) -> Trouble:
    return Trouble(
        f"Google's definition of the metric can't be used: {why}", kind="invalid-request", hopeless=True, sent=False
    )


def _result(answer: Any) -> dict[str, Any]:
    """The verdict in an answer, in the form of RESULT."""
    listed = answer.get("metricResults") if isinstance(answer, dict) else None
    found = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(found, dict):
        raise Trouble("the answer makes no sense: it has no `metricResults`", again=True)
    error = found.get("error")
    if isinstance(error, dict) and error.get("code"):
        raise _result_trouble(error)
    score = found.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
        explained = first_line(str(found.get("explanation") or ""))
        raise Trouble(f"the service gave no score{f': {explained}' if explained else ''}", kind="malformed")
    verdicts = found.get("rubricVerdicts")
    return {
        "score": float(score),
        "explanation": str(found.get("explanation") or ""),
        "rubrics": [
            _rubric(number, verdict)
            for number, verdict in enumerate(verdicts if isinstance(verdicts, list) else ())
            if isinstance(verdict, dict)
        ],
    }


def _rubric(number: int, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Named as ADK names it; a verdict that isn't there is a no."""
    rubric = verdict.get("evaluatedRubric")
    rubric = rubric if isinstance(rubric, dict) else {}
    content = rubric.get("content")
    demanded = content.get("property") if isinstance(content, dict) else None
    description = demanded.get("description") if isinstance(demanded, dict) else None
    return {
        "rubric": str(description or rubric.get("rubricId") or f"rubric_{number}"),
        "met": bool(verdict.get("verdict")),
        "reasoning": str(verdict.get("reasoning") or ""),
    }


def _result_trouble(error: Mapping[str, Any]) -> Trouble:
    code = error["code"]
    message = f"the service could not judge ({code}: {first_line(str(error.get('message', '')))})"
    if code in _RETRIED_CODES:
        return Trouble(message, again=True, throttled=_RETRIED_CODES[code])
    if code in _NOT_ALLOWED:
        return Trouble(message, kind="invalid-request", hopeless=True)
    return Trouble(message, kind="refused")


def _refusal(response: Response) -> Trouble:
    try:
        details = response.json()
    except ValueError:
        details = {}
    error = details.get("error") if isinstance(details, dict) else None
    message = str(error.get("message", "")) if isinstance(error, dict) else ""
    return status_trouble(response.status_code, first_line(message), response.headers, wait=told_delay(details))


def open_vertex_eval(endpoint: Endpoint, *, connections: int) -> VertexEvalClient:
    """Makes the client. May ask the machine for credentials: run it in a thread.

    Raises:
        ModelFailure: `no-credentials`.
    """
    import httpx2

    try:
        import ruamel.yaml  # noqa: F401 - what is missing is said before anything runs
    except ImportError as error:
        raise ModelFailure(
            "no-credentials",
            "Vertex AI's evaluation service needs the package `ruamel.yaml`, which is not installed.",
            "Install `agent-eval-action[vertex]`; the action's image has it.",
        ) from error
    credentials, _ = google_credentials(endpoint)
    limits = httpx2.Limits(max_connections=connections, max_keepalive_connections=connections)
    client = httpx2.AsyncClient(limits=limits, timeout=None)  # Each attempt has a deadline of its own.
    return VertexEvalClient(endpoint, credentials, client)
