"""Circuit breaker of a model: an outage is detected once, and all later calls fail at once."""

from __future__ import annotations

from collections.abc import Hashable

from agent_eval.core.text import plural
from agent_eval.models.protocol import FailureKind, ModelFailure

_JUDGED_HINT = "Run again when the provider is back; finished verdicts are reused if a judge cache is set."
_SILENT_CALLS = 3


class Health:
    """Tracks the attempts at one model."""

    def __init__(
        self, model: str, *, outage: float, enough: int, now: float, where: str = "", hint: str = _JUDGED_HINT
    ) -> None:
        """Starts healthy.

        Args:
            model: The model's name, for the message.
            outage: Seconds without an answer after which the model can count as down.
            enough: Consecutive failed attempts that are required as well.
            now: Time in seconds of a monotonic clock.
            where: Text after the name in the message, e.g. ` at http://...`.
            hint: What to do during an outage.
        """
        self._model = f"`{model}`{where}"
        self._hint = hint
        self._outage = outage
        self._enough = enough
        self._well_at = now
        self._failed = 0
        self._silent: set[Hashable] = set()
        self._failure: ModelFailure | None = None

    @property
    def failure(self) -> ModelFailure | None:
        """Why the model is unusable; None while it is usable."""
        return self._failure

    def check(self) -> None:
        """Checks that the model is usable.

        Raises:
            ModelFailure: It is unusable; the message is always the same.
        """
        if self._failure is not None:
            raise ModelFailure(self._failure.kind, self._failure.message, self._failure.hint)

    def answered(self, now: float) -> None:
        """Records an answered attempt."""
        self._well_at = now
        self._failed = 0
        self._silent.clear()

    def silent(self, call: Hashable, seconds: float) -> None:
        """Records a call that received no data for so long that several such calls mean an outage."""
        self._silent.add(call)
        if self._failure is None and len(self._silent) >= _SILENT_CALLS:
            calls, duration = plural(len(self._silent), "call"), plural(round(seconds), "second")
            self._failure = ModelFailure(
                "unavailable",
                f"{self._model} is down, so no more calls were made: it sent no data to {calls} in {duration}",
                f"{self._hint} If the model needs that long, raise `--turn-timeout`.",
            )

    def failed(self, now: float, cause: str) -> None:
        """Records an attempt that failed with a retryable error."""
        if self._failed == 0:
            # The outage starts now: without calls since the last answer its true start is unknown.
            self._well_at = now
        self._failed += 1
        if self._failure is None and self._failed >= self._enough and now - self._well_at >= self._outage:
            seconds = plural(round(now - self._well_at), "second")
            self._failure = ModelFailure(
                "unavailable",
                f"{self._model} is down, so no more calls were made after {seconds} without an answer: {cause}",
                self._hint,
            )

    def disable(self, kind: FailureKind, cause: str, hint: str | None) -> None:
        """Marks the model as unusable: no call can succeed."""
        if self._failure is None:
            self._failure = ModelFailure(kind, f"{self._model} can't be used: {cause}", hint)
