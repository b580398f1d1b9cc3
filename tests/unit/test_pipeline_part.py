"""One part's share of the budget of the whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_samples import case, report

from agent_eval.evalset.models import CriterionConfig, EvalCase, EvalConfig, EvalSet, LoadedFile
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import ConversationScenario
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.pipeline._part import _shares, part_verdict
from agent_eval.results import RunError, ShardReport
from agent_eval.settings import read_settings


def judged(name: str) -> CriterionConfig:
    options: dict[str, Any] = {"threshold": 1.0, "judge_model_options": {"num_samples": 5}}
    return criterion(name, CRITERION_MODELS[name].model_validate(options))


def test_share__all_parts_together_never_exceed_the_whole(tmp_path: Path) -> None:
    turn: Any = {"user_content": {"role": "user", "parts": [{"text": "hi"}]}}
    fixed = [EvalCase.model_validate({"eval_id": name, "conversation": [turn]}) for name in ("a", "b")]
    plan = ConversationScenario(starting_prompt="hi", conversation_plan="p")
    unlimited = EvalCase(eval_id="s", conversation_scenario=plan)
    file = LoadedFile(
        path="x.test.json",
        eval_set=EvalSet(eval_set_id="x", eval_cases=[*fixed, unlimited]),
        config=EvalConfig(
            source=None,
            criteria=(judged("final_response_match_v2"),),
            user_simulator_config={"max_allowed_invocations": -1},
        ),
        cases=(*fixed, unlimited),
    )
    settings, _ = read_settings(tmp_path)

    for shares in zip(*(_shares([file], {f"x.test.json:{name}"}, settings) for name in ("a", "b", "s")), strict=True):
        assert {share.everywhere for share in shares} == {sum(share.here for share in shares)}
        assert all(share.here > 0 for share in shares)


@pytest.mark.parametrize(("owners", "remedy"), [("gate gate", "tools"), ("gate provider", "again")])
def test_part_verdict__says_what_completes_the_part(owners: str, remedy: str) -> None:
    shard = ShardReport(index=1, total=2, plan="p", cases=["a", "b"], suite_cases=3, weights_from="turns")
    cases = [
        case(f"c{number}", "errored", errors={0: RunError(kind="tool-tape-stale", owner=owner, message="m")})
        for number, owner in enumerate(owners.split())
    ]

    [reason] = part_verdict(shard, report("inconclusive", cases)).reasons

    assert reason.data == {"part": 1, "total": 2, "runs": 2, "count": 2, "remedy": remedy}
