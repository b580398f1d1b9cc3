"""Scores a new case against the conversation that it was made of."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.core.invocation import Invocation
from agent_eval.evalset.models import EvalCase, EvalConfig
from agent_eval_workbench.recording.live import Take


@dataclass(frozen=True, kw_only=True)
class SelfCheck:
    """The scores of the recorded conversation, measured by the criteria of the file."""

    config: str
    """The config, or a phrase for ADK's defaults."""
    scores: tuple[tuple[str, float | None, float | None], ...] = ()
    """Name, score and threshold of each criterion that needs no model. None: there is no score."""
    reasons: tuple[str, ...] = ()
    """Why criteria have no score."""
    others: tuple[str, ...] = ()
    """Criteria that need a judge or the agent's code."""

    @property
    def passes(self) -> bool:
        """Whether each score reaches its threshold."""
        return all(
            score is not None and (threshold is None or score >= threshold) for _, score, threshold in self.scores
        )


def config_of(path: Path, root: Path, override: Path | None) -> EvalConfig | None:
    """The config that applies to an eval file, which need not exist; None if it is invalid."""
    from agent_eval.evalset.parse import ConfigFinder
    from agent_eval.evalset.paths import absolute

    return ConfigFinder(root=absolute(root), override=None if override is None else absolute(root / override)).for_file(
        path
    )


def most_typical_take(case: EvalCase, takes: Sequence[Take], config: EvalConfig) -> tuple[int, int]:
    """Which of several conversations agrees most with the others, by the criteria of the file.

    Args:
        case: The case; its expectations do not count.
        takes: At least one conversation, all with the same messages.
        config: The criteria of the file.

    Returns:
        Its index, and how many conversations have the same calls, itself included.
    """
    from agent_eval.criteria import build, supported
    from agent_eval_workbench.authoring.choosing import most_typical, route

    configs = [item for item in config.criteria if item.name not in config.custom_metrics and supported(item.metric)]
    runs = [take.turns for take in takes]
    visible = all(take.calls_visible for take in takes)
    index = asyncio.run(most_typical(case, runs, [build(item) for item in configs], calls_visible=visible))
    return index, sum(route(run) == route(runs[index]) for run in runs)


def self_check(
    case: EvalCase, turns: Sequence[Invocation], config: EvalConfig, *, calls_visible: bool = True
) -> SelfCheck:
    """Scores a case against a conversation.

    Args:
        case: The new case.
        turns: What the agent did.
        config: The criteria of the file.
        calls_visible: False if the agent's tool calls are not known.
    """
    from agent_eval.criteria import Conversation, NotEvaluated, build, calls_not_visible, supported

    conversation = Conversation(case=case, actual=turns, expected=case.conversation, calls_visible=calls_visible)
    scores: list[tuple[str, float | None, float | None]] = []
    reasons, others = [], []
    for criterion in config.criteria:
        if criterion.name in config.custom_metrics or not supported(criterion.metric):
            others.append(criterion.name)
            continue
        scorer = build(criterion)
        result = calls_not_visible(scorer, conversation) or asyncio.run(scorer.score(conversation))
        if isinstance(result, NotEvaluated):
            reasons.append(f"{criterion.name}: {result.message}")
            scores.append((criterion.name, None, criterion.threshold))
        else:
            scores.append((criterion.name, result.score, criterion.threshold))
    return SelfCheck(
        config=config.source or "ADK's default criteria",
        scores=tuple(scores),
        reasons=tuple(reasons),
        others=tuple(others),
    )


def score_lines(check: SelfCheck, case: EvalCase, *, changed: bool) -> list[str]:
    """The scores as lines.

    Args:
        check: The scores.
        case: The new case.
        changed: The user expects something else than what the agent did, so that lower scores are right.
    """
    scores = ", ".join(f"{name} {'-' if score is None else f'{score:.2f}'}" for name, score, _ in check.scores)
    what = "the recorded answers score now" if changed else "scored against itself"
    lines = [f"`{case.eval_id}` {what}: {scores} ({check.config})"] if scores else []
    lines += [f"  {reason}" for reason in check.reasons]
    if check.others:
        lines.append(f"  not scored here: {', '.join(check.others)}")
    if not check.passes and not changed:
        lines.append("  The case can't pass as it is: change the criteria, or what it expects (--expect).")
    return lines
