"""The base of everything that is read from or written to a file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class WireModel(BaseModel):
    """Written in snake_case, read in snake_case or camelCase; unknown keys are errors.

    When both spellings of one key are present camelCase wins, as in ADK (measured with google-adk 2.13.0).
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        # A recording of 10,000 cases builds millions of these; deferring keeps `--help` fast as well.
        defer_build=True,
    )
