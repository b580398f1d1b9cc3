"""The plugin with which ADK reports the calls of a turn."""

from __future__ import annotations

from typing import Any

from agent_eval_host.errors import raised_by
from agent_eval_host.model_calls import ModelWatch
from agent_eval_host.turns import current_turn, in_call
from agent_eval_host.values import text_of

_TOKENS = {
    "input_tokens": ("prompt_token_count", "tool_use_prompt_token_count"),
    "output_tokens": ("candidates_token_count", "thoughts_token_count"),
}
"""Counts of a model's usage metadata that make up each of a span's, as in ADK's `token_usage_v1`."""


def _tokens(llm_response: Any) -> dict[str, int]:
    """Tokens of a model call, as far as the model reports them."""
    usage = getattr(llm_response, "usage_metadata", None)
    counts = {
        name: [count for key in keys if isinstance(count := getattr(usage, key, None), int) and count >= 0]
        for name, keys in _TOKENS.items()
    }
    return {name: sum(reported) for name, reported in counts.items() if reported}


def _with_retries(llm_request: Any, context: Any, options: dict[str, Any]) -> None:
    """Configures HTTP retries for a model call if neither it nor the agent's model does."""
    from google.genai import types

    if not hasattr(types, "HttpRetryOptions") or "retry_options" not in types.HttpOptions.model_fields:
        return
    agent = getattr(getattr(context, "_invocation_context", None), "agent", None)
    model = getattr(agent, "model", None)
    if getattr(model, "retry_options", None) is not None:
        return
    config = llm_request.config = llm_request.config or types.GenerateContentConfig()
    http = config.http_options = config.http_options or types.HttpOptions()
    if http.retry_options is None:
        http.retry_options = types.HttpRetryOptions(**options)


def _model_of(context: Any) -> Any:
    agent = getattr(getattr(context, "_invocation_context", None), "agent", None)
    return getattr(agent, "canonical_model", None)


def make_plugin(models: ModelWatch) -> Any:
    from google.adk.plugins.base_plugin import BasePlugin

    class Watch(BasePlugin):  # type: ignore[misc]
        """The last of the app's plugins. It changes nothing except the retries."""

        @staticmethod
        def _key(context: Any) -> tuple[Any, ...]:
            inner = getattr(context, "_invocation_context", None)
            return (context.invocation_id, context.agent_name, getattr(inner, "branch", None))

        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
            _with_retries(llm_request, callback_context, models.retry)
            turn = current_turn()
            turn.request(callback_context.invocation_id, callback_context.agent_name, llm_request)
            call = models.begin(turn, llm_request, _model_of(callback_context))
            key, agent = self._key(callback_context), callback_context.agent_name
            turn.begin("model", key, agent, call.model, call=call).contents = len(llm_request.contents or ())

        async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
            call = current_turn().end("model", self._key(callback_context), _tokens(llm_response))
            if call is not None:
                models.end(call)

        async def on_model_error_callback(self, *, callback_context: Any, llm_request: Any, error: Exception) -> None:
            call = current_turn().end("model", self._key(callback_context))
            models.failed(call, error)
            if call is not None:
                models.end(call, error)

        async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
            call_id = tool_context.function_call_id
            call = current_turn().begin("tool", call_id, tool_context.agent_name, tool.name, call_id)
            if call_id not in current_turn().shown:
                call.keep("args", tool_args)
            in_call.set(call)

        async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
            current_turn().end("tool", tool_context.function_call_id, response=result)

        async def on_tool_error_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, error: Any) -> None:
            failed = {"error": text_of(error)}
            current_turn().end("tool", tool_context.function_call_id, raised=raised_by(error), response=failed)

    return Watch(name="agent_eval_host")
