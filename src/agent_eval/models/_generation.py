"""Sorts the fields of `judge_model_config` into sent, ignored and unknown.

The fields are those of google-genai's GenerateContentConfig (3.4.0, a superset of 2.34), as in ADK.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_eval.core.masking import Masked, first_line

SENT = frozenset(
    {
        "temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences", "presence_penalty",
        "frequency_penalty", "seed", "thinking_config", "safety_settings", "labels", "media_resolution",
        "routing_config", "model_selection_config", "model_armor_config", "service_tier", "response_logprobs",
        "logprobs", "enable_enhanced_civic_answers", "system_instruction",
    }
)  # fmt: skip
"""Passed on to Gemini."""

SENT_TO_OPENAI: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_completion_tokens",
    "stop_sequences": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "service_tier": "service_tier",
}
"""Fields that chat completions support too, with their name there."""

OURS = frozenset(
    {
        # URL and timeouts: a pull request may change the file, and must not redirect the key.
        "http_options", "should_return_http_response",
        # The format of the reply.
        "candidate_count", "response_mime_type", "response_schema", "response_json_schema", "response_modalities",
        "tools", "tool_config", "automatic_function_calling", "cached_content", "continuation_token",
        "automatic_continuation", "generation_output_config", "store",
        "speech_config", "audio_timestamp", "audio_transcription_config", "image_config",
    }
)  # fmt: skip
"""Fields of google-genai that agent-eval sets itself."""


@dataclass(frozen=True, kw_only=True)
class SortedConfig:
    """The fields of a `judge_model_config`."""

    sent: Mapping[str, Any]
    """In snake_case. Null fields are left out, as in google-genai."""
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]

    def suggestion(self, field: str) -> str | None:
        """Returns the known field that is most similar to an unknown one."""
        return next(iter(difflib.get_close_matches(field, SENT | OURS, n=1, cutoff=0.7)), None)


def sort_config(config: Mapping[str, Any], *, for_openai: bool = False) -> SortedConfig:
    """Sorts the fields; accepts camelCase too.

    Args:
        config: The user's config.
        for_openai: Whether the model is called through chat completions, which support fewer fields.
    """
    sent: dict[str, Any] = {}
    ignored, unknown = [], []
    for key, value in config.items():
        name = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), key)
        if name not in SENT | OURS:
            unknown.append(key)
        elif value is None:
            continue
        elif name in OURS or (for_openai and name not in SENT_TO_OPENAI and name != "system_instruction"):
            ignored.append(key)
        else:
            sent[name] = value
    return SortedConfig(sent=sent, ignored=tuple(ignored), unknown=tuple(unknown))


def split_system(sent: Mapping[str, Any], system: str | None) -> tuple[dict[str, Any], str | None]:
    """Separates the system instruction: the user's, followed by the request's."""
    rest = dict(sent)
    from_user = rest.pop("system_instruction", None)
    texts = [text for text in (from_user, system) if text]
    return rest, "\n\n".join(str(text) for text in texts) or None


REMINDER = (
    "\n\nYour last reply could not be read. Reply with a single JSON value that fits the schema you were given, and "
    "with nothing before or after it."
)
"""Appended to the prompt of the second call."""


def parse_reply(text: str, schema: Mapping[str, Any]) -> Any:
    """Parses a reply. Rejects code fences, prose, repeated keys and NaN, since they are ambiguous.

    Args:
        text: The reply without thoughts; may have white space around it.
        schema: JSON Schema, draft 2020-12.

    Raises:
        ValueError: The reply isn't JSON, or doesn't fit the schema; the message is one line.
    """
    from jsonschema import Draft202012Validator

    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        if not text.strip():
            raise ValueError("it is empty") from error
        raise ValueError(f"it is not JSON: {error}") from error
    mismatch = next(iter(Draft202012Validator(dict(schema)).iter_errors(value)), None)
    if mismatch is not None:
        where = "".join(f"[{part!r}]" for part in mismatch.absolute_path)
        raise ValueError(
            f"it does not fit the schema{f' at {where}' if where else ''}: {first_line(Masked(mismatch.message))}"
        )
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("it has a key twice")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
