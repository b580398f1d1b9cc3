"""The base of everything that is read from or written to a file."""

from __future__ import annotations

from typing import Any, Self

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


class HostMessage(WireModel):
    """A message of a host process. Unknown keys are ignored, because a newer host may send more."""

    model_config = ConfigDict(extra="ignore", alias_generator=None)


_UNUSED: set[str] = set()


class ReportModel(WireModel):
    """Base class of a report's models.

    No one needs to know which fields were set explicitly, and that set would take most of the memory of 10,000 cases:
    all models share one.
    """

    def model_post_init(self, context: Any, /) -> None:
        """Replaces the set of explicitly set fields."""
        object.__setattr__(self, "__pydantic_fields_set__", _UNUSED)

    def changed(self, **values: Any) -> Self:
        """A copy with other values. Its parts are not copied, and it takes less memory than that of `model_copy`."""
        return type(self)(**{**dict(self), **values})
