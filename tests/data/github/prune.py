"""Makes `api.github.com.json` and `events.json` again from GitHub's own packages. Needs npm, for the download alone.

    python tests/data/github/prune.py [DIRECTORY]

`@octokit/openapi` holds GitHub's OpenAPI description (13 MB). Kept are the operations in OPERATIONS and the components
that they refer to, without examples, descriptions and GitHub's extensions. Two things are fixed: enums of nullable
properties do not list null there, and a validator would refuse a running run, whose conclusion is null; and the
repository of a head is null once the fork has been deleted, of which only the descriptions of webhooks tell
(MAYBE_NULL). `@octokit/webhooks-examples` holds payloads of webhooks; one of each of EVENTS is kept.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

OPENAPI = ("@octokit/openapi@23.0.2", "package/generated/api.github.com.json")
WEBHOOKS = ("@octokit/webhooks-examples@7.6.1", "package/api.github.com/index.json")
_REPO = "/repos/{owner}/{repo}"
OPERATIONS = {
    "/user": ["get"],
    f"{_REPO}/issues/{{issue_number}}/comments": ["get", "post"],
    f"{_REPO}/issues/comments/{{comment_id}}": ["patch"],
    f"{_REPO}/issues/{{issue_number}}/events": ["get"],
    f"{_REPO}/pulls": ["get"],
    f"{_REPO}/pulls/{{pull_number}}": ["get"],
    f"{_REPO}/actions/runs/{{run_id}}": ["get"],
    f"{_REPO}/actions/workflows/{{workflow_id}}/runs": ["get"],
    f"{_REPO}/actions/runs/{{run_id}}/artifacts": ["get"],
    f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": ["get"],
    f"{_REPO}/compare/{{basehead}}": ["get"],
    f"{_REPO}/commits": ["get"],
    f"{_REPO}/git/commits/{{commit_sha}}": ["get"],
    f"{_REPO}/contents/{{path}}": ["get"],
    f"{_REPO}/collaborators/{{username}}/permission": ["get"],
    f"{_REPO}/actions/runs/{{run_id}}/rerun": ["post"],
    f"{_REPO}/actions/workflows/{{workflow_id}}": ["get"],
    f"{_REPO}/actions/workflows/{{workflow_id}}/dispatches": ["post"],
    f"{_REPO}/statuses/{{sha}}": ["post"],
}
EVENTS: dict[str, list[str | None]] = {
    "pull_request": ["opened", "synchronize", "closed"],
    "push": [None],
    "merge_group": ["checks_requested"],
    "workflow_run": ["completed"],
    "workflow_dispatch": [None],
    "issue_comment": ["created"],
}
"""Per event the `action`s; the first example of each is taken."""
MAYBE_NULL = [
    ("workflow-run", "head_repository"),
    ("pull-request", "head", "repo"),
    ("pull-request-simple", "head", "repo"),
]
"""Properties of schemas."""
_DROPPED = {"examples", "example", "externalDocs", "x-github", "x-webhooks"}


def packed(package: str, member: str) -> Any:
    """A JSON file of an npm package."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(["npm", "pack", "--silent", package], cwd=directory, check=True, capture_output=True)
        [archive] = Path(directory).glob("*.tgz")
        with tarfile.open(archive) as tar:
            result = tar.extractfile(member)
            assert result is not None, f"{package} has no {member}"
            return json.load(io.TextIOWrapper(result, encoding="utf-8"))


def pruned(description: dict[str, Any]) -> dict[str, Any]:
    """The operations and what they refer to."""
    paths = {}
    for path, methods in OPERATIONS.items():
        whole = description["paths"][path]
        paths[path] = {method: _plain(whole[method]) for method in methods}
        for method in methods:
            for status, response in whole[method]["responses"].items():
                paths[path][method]["responses"][status] |= _description(response)
    components: dict[str, dict[str, Any]] = {}
    waiting = list(_references(paths))
    while waiting:
        _, _, kind, name = waiting.pop().split("/")
        if name in components.setdefault(kind, {}):
            continue
        part = _plain(description["components"][kind][name])
        if kind == "responses":
            part |= _description(description["components"][kind][name])
        components[kind][name] = part
        waiting += _references(part)
    for schema, *keys, last in MAYBE_NULL:
        result = components["schemas"][schema]["properties"]
        for key in keys:
            result = result[key]["properties"]
        result[last] = {"oneOf": [result[last], {"type": "object", "nullable": True, "maxProperties": 0}]}
    return {
        "openapi": description["openapi"],
        "info": {key: description["info"][key] for key in ("title", "version", "license")},
        "servers": description["servers"],
        "paths": paths,
        "components": {kind: dict(sorted(parts.items())) for kind, parts in sorted(components.items())},
    }


def _plain(value: Any, *, properties: bool = False) -> Any:
    """Without what validates nothing. Below `properties` keys are names, e.g. of a property called `description`."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: _plain(item, properties=key == "properties" and not properties)
        for key, item in value.items()
        if properties or (key not in _DROPPED and not (key == "description" and isinstance(item, str)))
    }
    if not properties and kept.get("nullable") and "enum" in kept and None not in kept["enum"]:
        kept["enum"] = [*kept["enum"], None]
    return kept


def _description(response: dict[str, Any]) -> dict[str, str]:
    """OpenAPI wants one for each response."""
    return {"description": response["description"]} if "description" in response else {}


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {matches for item in value for matches in _references(item)}
    if not isinstance(value, dict):
        return set()
    matches = {matches for item in value.values() for matches in _references(item)}
    reference = value.get("$ref")
    return matches | {reference} if isinstance(reference, str) else matches


def events(examples: list[dict[str, Any]]) -> dict[str, Any]:
    """Payloads by event, or `event.action` where there are several."""
    by_name = {entry["name"]: entry["examples"] for entry in examples}
    chosen = {}
    for name, actions in EVENTS.items():
        for action in actions:
            example = next(item for item in by_name[name] if action is None or item.get("action") == action)
            chosen[name if len(actions) == 1 else f"{name}.{action}"] = example
    return chosen


def main(directory: Path) -> None:
    for name, made in (("api.github.com.json", pruned(packed(*OPENAPI))), ("events.json", events(packed(*WEBHOOKS)))):
        text = json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n"
        (directory / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} characters")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
