"""Imports whatever a run of the gate may import, so that the image has bytecode of it, and of nothing else.

Run in the image, by its Dockerfile and by its test: all modules of ours, and what they import when it is needed.
"""

from __future__ import annotations

import compileall
import importlib
import importlib.util
import pkgutil

OURS = ("agent_eval", "agent_eval_agents", "agent_eval_results", "agent_eval_scoring", "agent_eval_workbench")
LATER = (
    "anyio._backends._asyncio",
    "google.auth.aio.credentials",
    "google.auth.transport.requests",
    "google.genai",
    "google.oauth2.service_account",
    "httpcore2",
    "idna.uts46data",
    "jinja2",
    "jsonschema",
    "junit_xml",
    "numpy.random",
    "requests",
    "rich.progress",
    "rich.table",
    "ruamel.yaml",
    "uv",
)
PYTEST = "agent_eval.pytest_plugin"
"""Needs pytest, which the image has not."""


def main() -> None:
    for name in LATER:
        importlib.import_module(name)
    for name in OURS:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.startswith(PYTEST):
                importlib.import_module(module.name)
    from openai import AsyncOpenAI

    from agent_eval_results.report.renderers import environment
    from agent_eval_scoring.criteria.tokenize import stemming_tokenizer

    for template in environment().list_templates():
        environment().get_template(template)
    # It imports the parts of its client when they are used.
    assert callable(AsyncOpenAI(api_key="none").chat.completions.create)
    assert stemming_tokenizer()("stemming") == ["stem"]
    # Imported in the agent's interpreter, beside google-adk. It is made of this one's base, so bytecode is the same.
    host = importlib.util.find_spec("agent_eval_host")
    assert host is not None
    for place in host.submodule_search_locations or ():
        compileall.compile_dir(place, quiet=1)
    print("imported")


if __name__ == "__main__":
    main()
