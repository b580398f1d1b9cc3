"""Whether a model is worth asking: one that is down is given up once, not once for each question."""

from __future__ import annotations

from collections.abc import Hashable

from agent_eval.core.text import plural
from agent_eval.models.protocol import FailureKind, ModelFailure

_JUDGED_HINT = "Run again when the provider is back; what was judged is kept if a judge cache is set."
_SILENT_CALLS = 3


class Health:
    """Follows the fate of the attempts at one model."""

    def __init__(
        self, model: str, *, outage: float, enough: int, now: float, where: str = "", hint: str = _JUDGED_HINT
    ) -> None:
        """Begins healthy.

        Args:
            model: Its name, for the message.
            outage: Seconds without an answer after which it can count as down.
            enough: Attempts in a row that must have failed as well.
            now: On any clock that only goes forward.
            where: Follows the name in the message: ` at http://...`.
            hint: What to do when it is down.
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
        """Why it is not worth asking; None while it is."""
        return self._failure

    def check(self) -> None:
        """Does nothing while the model is worth asking.

        Raises:
            ModelFailure: It isn't; always in the same words.
        """
        if self._failure is not None:
            raise ModelFailure(self._failure.kind, self._failure.message, self._failure.hint)

    def answered(self, now: float) -> None:
        """An attempt was answered."""
        self._well_at = now
        self._failed = 0
        self._silent.clear()

    def silent(self, call: Hashable, seconds: float) -> None:
        """A call was sent nothing for so long that several of them mean an outage."""
        self._silent.add(call)
        if self._failure is None and len(self._silent) >= _SILENT_CALLS:
            calls, waited = plural(len(self._silent), "call"), plural(round(seconds), "second")
            self._failure = ModelFailure(
                "unavailable",
                f"{self._model} is down and was not asked any more: it sent nothing to {calls} in {waited}",
                f"{self._hint} A model that takes so long? Raise `--turn-timeout`.",
            )

    def failed(self, now: float, cause: str) -> None:
        """An attempt failed in a way that another may not."""
        if self._failed == 0:
            # Nobody asked in the meantime, so nobody knows since when it is down.
            self._well_at = now
        self._failed += 1
        if self._failure is None and self._failed >= self._enough and now - self._well_at >= self._outage:
            seconds = plural(round(now - self._well_at), "second")
            self._failure = ModelFailure(
                "unavailable",
                f"{self._model} is down and was not asked any more, after {seconds} without an answer: {cause}",
                self._hint,
            )

    def hopeless(self, kind: FailureKind, cause: str, hint: str | None) -> None:
        """No question to this model can succeed."""
        if self._failure is None:
            self._failure = ModelFailure(kind, f"{self._model} can't be asked: {cause}", hint)
