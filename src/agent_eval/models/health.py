"""Whether a model is worth asking: one that is down is given up once, not once for each question."""

from __future__ import annotations

from agent_eval.core.text import plural
from agent_eval.models.protocol import FailureKind, ModelFailure


class Health:
    """Follows the fate of the attempts at one model."""

    def __init__(self, model: str, *, outage: float, enough: int, now: float) -> None:
        """Begins healthy.

        Args:
            model: Its name, for the message.
            outage: Seconds without an answer after which it can count as down.
            enough: Attempts in a row that must have failed as well.
            now: On any clock that only goes forward.
        """
        self._model = model
        self._outage = outage
        self._enough = enough
        self._well_at = now
        self._failed = 0
        self._failure: ModelFailure | None = None

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
                f"`{self._model}` is down and was not asked any more, after {seconds} without an answer: {cause}",
                "Run again when the provider is back; what was judged is kept if a judge cache is set.",
            )

    def hopeless(self, kind: FailureKind, cause: str, hint: str | None) -> None:
        """No question to this model can succeed."""
        if self._failure is None:
            self._failure = ModelFailure(kind, f"`{self._model}` can't be asked: {cause}", hint)
