"""LiteLLM: imported while the agent is loaded, since that takes seconds, and not asked again without a key."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from typing import Any

from agent_eval_host.described import agents_of
from agent_eval_host.errors import has_no_key


def prepare(root: Any) -> None:
    """Imports what the first call of a model would import, if a model of the agents is LiteLLM's."""
    registry = sys.modules.get("google.adk.models.registry")
    for agent in agents_of(root):
        if isinstance(name := getattr(agent, "model", None), str) and "/" in name and registry is not None:
            with contextlib.suppress(Exception):  # The turn that needs it reports the error.
                registry.LLMRegistry.resolve(name)
    if (module := sys.modules.get("google.adk.models.lite_llm")) is None:
        return
    with contextlib.suppress(Exception):
        getattr(module, "_ensure_litellm_imported", lambda: None)()  # It sets what ADK wants of LiteLLM.
        library: Any = importlib.import_module("litellm")
        library.acompletion_with_retries = _unless_no_key(library.acompletion_with_retries)


def _unless_no_key(body: Any) -> Any:
    @functools.wraps(body)
    async def acompletion_with_retries(*args: Any, **options: Any) -> Any:
        error = sys.exc_info()[1]  # It is called where the first attempt's error is handled.
        if error is not None and has_no_key(error):
            raise error
        return await body(*args, **options)

    return acompletion_with_retries
