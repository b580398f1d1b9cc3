"""Whether a request and its answer are what GitHub's own OpenAPI description says."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from openapi_core import OpenAPI
from openapi_core.testing import MockRequest, MockResponse

_DESCRIPTION = Path(__file__).parents[2] / "data" / "github" / "api.github.com.json"
_ALWAYS = {401, 403, 404, 429}
"""GitHub may answer every request so; the description lists these for some operations only."""


@functools.cache
def _description() -> tuple[OpenAPI, dict[str, Any]]:
    described = json.loads(_DESCRIPTION.read_text(encoding="utf-8"))
    return OpenAPI.from_dict(described), described


def schema_of(name: str) -> Mapping[str, Any]:
    """A schema of the description by its name."""
    result: Mapping[str, Any] = _description()[1]["components"]["schemas"][name]
    return result


@functools.cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    """Patterns of the paths; the last part of `contents/{path}` may have slashes."""
    result = []
    for template in _description()[1]["paths"]:
        pattern = re.sub(r"\\\{path\\\}", ".+", re.escape(template))
        result.append((re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", pattern)), template))
    return result


def template_of(path: str) -> str | None:
    """The description's path, e.g. `/repos/{owner}/{repo}/pulls/{pull_number}`; None for one that isn't there."""
    return next((template for pattern, template in _templates() if pattern.fullmatch(path)), None)


def _resolved(parameter: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = parameter.get("$ref")
    if not isinstance(reference, str):
        return parameter
    result: Mapping[str, Any] = _description()[1]["components"]["parameters"][reference.rpartition("/")[2]]
    return result


def _request(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> MockRequest:
    # Slashes in the last part would end it, for the validator.
    if "/contents/" in path:
        before, _, after = path.partition("/contents/")
        path = f"{before}/contents/{after.replace('/', '%2F')}"
    return MockRequest(
        "https://api.github.com",
        method,
        path,
        args=dict(parse_qsl(query, keep_blank_values=True)),
        headers=dict(headers),
        data=body,
        content_type=headers.get("content-type", "").partition(";")[0],
    )


def request_violations(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> list[str]:
    """What is wrong with a request; empty if nothing.

    Args:
        method: In upper case.
        path: As it was sent, still percent-encoded.
        query: As it was sent.
        headers: Names in lower case.
        body: Empty for none.
    """
    violations = list(_request_violations(method, path, query, headers.get("content-type", ""), body))
    if not headers.get("user-agent"):
        violations.append(f"{method} {path}: GitHub refuses requests without a User-Agent")
    return violations


@functools.cache
def _request_violations(method: str, path: str, query: str, content_type: str, body: bytes) -> list[str]:
    """Most requests are sent again and again, and looking at one takes 5 ms."""
    openapi, described = _description()
    template = template_of(path)
    if template is None or method.lower() not in described["paths"][template]:
        return [f"{method} {path} is not in GitHub's description"]
    operation = described["paths"][template][method.lower()]
    declared = {item["name"] for item in map(_resolved, operation.get("parameters", [])) if item["in"] == "query"}
    unknown = [name for name, _ in parse_qsl(query, keep_blank_values=True) if name not in declared]
    matches = [f"{method} {path}: GitHub knows no parameter {name}" for name in unknown]
    request = _request(method, path, query, {"content-type": content_type}, body)
    return matches + [f"{method} {path}: {_told(error)}" for error in openapi.iter_request_errors(request)]


def response_violations(
    method: str, path: str, query: str, headers: Mapping[str, str], body: bytes, *, status: int, data: bytes
) -> list[str]:
    """What is wrong with an answer; empty if nothing. The other arguments are those of its request."""
    openapi, described = _description()
    template = template_of(path)
    if template is None:
        return []
    documented = described["paths"][template][method.lower()]["responses"]
    if str(status) not in documented and status in _ALWAYS:
        return [] if "message" in json.loads(data) else [f"{method} {path}: an error of GitHub's has a message"]
    if str(status) == "302":
        return []
    request = _request(method, path, query, headers, body)
    errors = openapi.iter_response_errors(request, MockResponse(data, status))
    return [f"{method} {path} -> {status}: {_told(error)}" for error in errors]


def _told(error: BaseException) -> str:
    """With what caused it: openapi-core's own words leave out which property it was."""
    last = error
    while last.__cause__ is not None and not getattr(last, "schema_errors", None):
        last = last.__cause__
    causes = [
        f"at {'/'.join(map(str, item.path))}: {item.message[-300:]}" for item in getattr(last, "schema_errors", [])
    ]
    return f"{type(error).__name__}: {'; '.join(causes) or str(last)[:600]}"
