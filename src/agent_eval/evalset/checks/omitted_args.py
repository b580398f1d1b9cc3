"""Finds expected calls without `args`, which mean something else to each criterion of tool calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval.core.invocation import Invocation, tool_calls
from agent_eval.core.problem import Problem
from agent_eval.evalset.json import JsonPath
from agent_eval.evalset.models import CriterionConfig, MetricSpec
from agent_eval.evalset.parse import EvalFile


def omitted_args(
    file: EvalFile,
    turns: Sequence[Invocation],
    path: JsonPath,
    builtin: Sequence[tuple[MetricSpec, CriterionConfig]],
) -> Iterator[Problem]:
    """A finding for each turn with such calls.

    Args:
        file: The file.
        turns: The expected turns of a case.
        path: The path of the case.
        builtin: The built-in criteria of the case.
    """
    permissive = [spec.name for spec, criterion in builtin if _allows_any_args(criterion)]
    refusing = [spec.name for spec, criterion in builtin if spec.name == _PARTIAL and criterion.options.get("compat")]
    if not permissive and not refusing:
        return
    for number, turn in enumerate(turns):
        calls = [call for call in tool_calls(turn.intermediate_data) if call.args is None]
        if not calls:
            continue
        at: JsonPath = (*path, "conversation", number)
        message = f"An expected call of `{calls[0].name}` has no `args`."
        hint = 'For a call without arguments write "args": {}.'
        if permissive:
            names = " and ".join(f"`{metric}`" for metric in permissive)
            accept = "accepts" if len(permissive) == 1 else "accept"
            yield file.notice("omitted-args", f"{message} {names} {accept} any arguments for it.", at, hint)
        for metric in refusing:
            yield file.warning(
                "omitted-args", f"{message} As in adk-rust, `{metric}` matches no call with it.", at, hint
            )


_PARTIAL = "tool_trajectory_partial"


def _allows_any_args(criterion: CriterionConfig) -> bool:
    if criterion.metric == _PARTIAL:
        return not criterion.options.get("compat")
    return criterion.options.get("args_match") == "subset" and not criterion.options.get("ignore_args")
