"""Runs in an ADK environment: lists and opens the results of an agent, and prints them as JSON.

With `web`, ADK's own server answers; otherwise the manager that it uses.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def by_server(agents_dir: str, app: str) -> list[Any]:
    """Through the endpoints that the Eval tab uses."""
    from fastapi.testclient import TestClient
    from google.adk.cli.fast_api import get_fast_api_app

    client = TestClient(get_fast_api_app(agents_dir=agents_dir, web=True), base_url="http://127.0.0.1")
    names = client.get(f"/dev/apps/{app}/eval-results").raise_for_status().json()
    listed = names if isinstance(names, list) else names["evalResultIds"]
    return [client.get(f"/dev/apps/{app}/eval-results/{name}").raise_for_status().json() for name in sorted(listed)]


def by_manager(agents_dir: str, app: str) -> list[Any]:
    from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager

    manager = LocalEvalSetResultsManager(agents_dir=agents_dir)
    results = [manager.get_eval_set_result(app, name) for name in sorted(manager.list_eval_set_results(app))]
    return [json.loads(result.model_dump_json(by_alias=True)) for result in results]


if __name__ == "__main__":
    read = by_server if sys.argv[1] == "web" else by_manager
    print("\n" + json.dumps(read(sys.argv[2], sys.argv[3])))
