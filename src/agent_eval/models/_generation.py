"""A user's `judge_model_config`, sorted: what is sent, what is ours to decide, and what nobody knows.

The fields are those of google-genai's GenerateContentConfig (3.4.0, which has all of 2.34's), as ADK takes them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
"""Fields that chat completions have as well, by their name there."""

OURS = frozenset(
    {
        # Where the key is sent and for how long: never the word of a file that a pull request may change.
        "http_options", "should_return_http_response",
        # The form of the reply.
        "candidate_count", "response_mime_type", "response_schema", "response_json_schema", "response_modalities",
        "tools", "tool_config", "automatic_function_calling", "cached_content", "continuation_token",
        "automatic_continuation", "generation_output_config", "store",
        "speech_config", "audio_timestamp", "audio_transcription_config", "image_config",
    }
)  # fmt: skip
"""Known to google-genai, and left out: we decide these."""


@dataclass(frozen=True, kw_only=True)
class SortedConfig:
    """A `judge_model_config`, field by field."""

    sent: Mapping[str, Any]
    """In snake_case; fields that are null are left out, as google-genai does."""
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]

    def suggestion(self, field: str) -> str | None:
        """The field that an unknown one may have been meant to be."""
        return next(iter(difflib.get_close_matches(field, SENT | OURS, n=1, cutoff=0.7)), None)


def sort_config(config: Mapping[str, Any], *, for_openai: bool = False) -> SortedConfig:
    """Sorts the fields; camelCase is read as well.

    Args:
        config: As the user wrote it.
        for_openai: Whether the model is asked through chat completions, which have fewer fields.
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
    """The other fields, and the system instruction: the request's with the user's before it."""
    rest = dict(sent)
    users = rest.pop("system_instruction", None)
    texts = [text for text in (users, system) if text]
    return rest, "\n\n".join(str(text) for text in texts) or None
