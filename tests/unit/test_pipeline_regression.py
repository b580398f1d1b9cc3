"""Extra runs of the pipeline: of which side, how many, and what ends them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from history_samples import comparable, report
from policy_texts import policy_of
from runner_doubles import EchoAgent, planned

from agent_eval.agents.discovery.locate import AgentChoices
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.sandbox.isolation import NO_PROCESS
from agent_eval.core.limiter import Limiter
from agent_eval.gate import regression
from agent_eval.gate.history.records import extend
from agent_eval.gate.regression._base_today import CHECK_RUNS
from agent_eval.gate.stats.decision import Budget, Rules
from agent_eval.pipeline._base_checkout import BaseCheckout
from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline._regression import Confirmation
from agent_eval.pipeline.context import RunContext
from agent_eval.results.decision import DecisionReport
from agent_eval.results.history import HistoryReport
from agent_eval.results.report import SCORING_VERSION
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan
from agent_eval.settings.settings import Settings

NEVER_LEARNS, LEARNED = 1_000, 0
PLAN = Plan(cases=(planned("steady"), planned("odd", "learning")), num_runs=1)


@dataclass(kw_only=True)
class Sides:
    """A head that fails `odd` in every run, and a base that never does."""

    head: EchoAgent
    base: EchoAgent
    head_checkout: Checkout
    base_checkout: BaseCheckout
    confirmation: Confirmation
    messages: list[str]
    """In the log."""

    async def decide(self) -> DecisionReport:
        async with asyncio.timeout(20):
            decision, _ = await self.confirmation.decide()
        return decision

    @property
    def extra(self) -> tuple[list[str], list[str]]:
        """The messages that both agents got after the screening."""
        return self.head.sent[2:], self.base.sent


@contextlib.asynccontextmanager
async def sides(folder: Path, *, stored: int, base: EchoAgent | None = None, **settings: Any) -> AsyncIterator[Sides]:
    message: list[str] = []
    async with contextlib.AsyncExitStack() as stack:

        def checkout(agent: EchoAgent, name: str) -> Checkout:
            (folder / name).mkdir()
            journal = Journal(folder / name / "journal.jsonl", resume=False)
            stack.callback(journal.close)
            return Checkout(
                settings=Settings(root=folder, **settings),
                context=RunContext(environ={}, log=message.append),
                agents={"agent": agent},
                isolation=NO_PROCESS,
                journal=journal,
                limiter=Limiter(4),
                models=None,
                until=time.monotonic() + 600,
            )

        head, base = EchoAgent(first_runs_fail=NEVER_LEARNS), base or EchoAgent(first_runs_fail=LEARNED)
        history = HistoryReport(scoring_version=SCORING_VERSION, keep=10)
        for day in range(stored):
            past = checkout(EchoAgent(first_runs_fail=LEARNED), f"day{day}")
            history = extend(history, report(*await past.execute(PLAN), day=day))
        head_checkout = checkout(head, "head")
        base_checkout = BaseCheckout(
            head=head_checkout, plan=PLAN, choices=AgentChoices(by_file={}, problems=()), commit="0" * 40, stack=stack
        )
        base_checkout._checkout, base_checkout._plan = checkout(base, "base"), PLAN
        first = await head_checkout.execute(PLAN)
        confirmation = Confirmation(
            checkout=head_checkout,
            plan=PLAN,
            base_checkout=base_checkout,
            report=report(*first, pull_request=7),
            history=history,
            comparable=comparable(first, history),
        )
        yield Sides(
            head=head,
            base=base,
            head_checkout=head_checkout,
            base_checkout=base_checkout,
            confirmation=confirmation,
            messages=message,
        )


async def test_a_suspicious_case_alone_is_run_again__and_the_base_only_where_its_runs_are_few(tmp_path: Path) -> None:
    async with sides(tmp_path, stored=1) as few:
        decision = await few.decide()
    assert decision.outcome == "failed"
    assert {*few.extra[0], *few.extra[1]} == {"learning"}
    assert len(few.extra[1]) == 4
    assert decision.extra_runs == len(few.extra[0]) + len(few.extra[1])
    assert [(case.eval_id, len(case.runs)) for case in few.confirmation.base] == [("odd", 4)]


@pytest.mark.parametrize(
    ("stored", "same_day", "settings", "runs"),
    [
        (10, False, {"confirm_on_base": "always"}, 4),
        (1, False, {"confirm_on_base": "never"}, 0),
        (6, True, {}, 4),
        (6, False, {}, CHECK_RUNS),
        (10, False, {}, CHECK_RUNS),
    ],
)
async def test_regression__how_often_the_base_is_run(
    tmp_path: Path, stored: int, same_day: bool, settings: dict[str, Any], runs: int
) -> None:
    async with sides(tmp_path, stored=stored, **settings) as made:
        made.confirmation.same_day = same_day
        assert (await made.decide()).outcome == "failed"
    assert len(made.extra[1]) == runs


@pytest.mark.parametrize(("most", "spent"), [(0, 0), (2, 2), (7, 2)])
async def test_regression__max_extra_runs_is_for_both_sides_together(tmp_path: Path, most: int, spent: int) -> None:
    async with sides(tmp_path, stored=1, max_extra_runs=most) as made:
        decision = await made.decide()
    assert len(made.extra[0]) + len(made.extra[1]) == decision.extra_runs == spent
    assert (decision.outcome, decision.reasons[0].code) == ("inconclusive", "budget")


@pytest.mark.parametrize(
    ("setting", "same_day", "has_base", "runs"),
    [
        ("auto", False, True, 8 * 100),
        ("auto", True, True, 10 * 100),
        ("auto", False, False, 5 * 100),
        ("never", False, True, 5 * 100),
    ],
)
async def test_regression__the_limit_of_extra_runs_follows_settings_and_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, same_day: bool, has_base: bool, runs: int
) -> None:
    """100 cases; with a compared metric beside pass or fail half as many again."""
    asked: list[int | None] = []

    def decide(evidence: object, rules: Rules, budget: Budget, retrials: object = ()) -> DecisionReport:
        asked.append(budget.extra_runs)
        return DecisionReport(outcome="passed", alpha=0.05)

    monkeypatch.setattr(regression, "next_step", decide)
    compared, _ = policy_of('[[policy]]\nmetric = "response_match_score"\nmax-drop = 0.1\n')
    async with sides(tmp_path, stored=1, confirm_on_base=setting) as made:
        made.confirmation.same_day = same_day
        made.confirmation.report.cases *= 50
        if not has_base:
            made.confirmation.base_checkout = None
        await made.decide()
        made.head_checkout.settings = replace(made.head_checkout.settings, policy=compared)
        await made.decide()
    assert asked == [runs, runs * 3 // 2]


async def test_regression__recorded_answers_are_not_asked_for_again(tmp_path: Path) -> None:
    async with sides(tmp_path, stored=10) as made:
        made.confirmation.no_more = "recorded"
        decision = await made.decide()
    assert (decision.outcome, [reason.code for reason in decision.reasons]) == ("inconclusive", ["recorded-answers"])
    assert decision.reasons[0].data["remedy"] == "recorded"
    assert all(case.lacks in {None, "recorded"} for case in decision.cases)
    assert made.extra == ([], [])


@pytest.mark.parametrize("why", ["time", "stop"])
async def test_regression__the_end_of_the_time_ends_the_extra_runs(tmp_path: Path, why: str) -> None:
    async with sides(tmp_path, stored=10) as made:
        if why == "time":
            made.head_checkout.until = time.monotonic() - 1
        else:
            made.head_checkout.context.stop.set()
        assert (await made.decide()).outcome == "inconclusive"
    assert made.extra == ([], [])


async def test_regression__a_base_that_can_not_be_checked_out_leaves_it_to_the_threshold(tmp_path: Path) -> None:
    async with sides(tmp_path, stored=1) as made:
        made.base_checkout._checkout = None
        decision = await made.decide()
    assert decision.outcome == "failed"
    assert [reason.code for reason in decision.reasons] == ["broken-case"]
    assert made.confirmation.notices == [
        "The base branch could not be run to confirm a regression: No checkout was looked for."
    ]


async def test_a_base_that_gives_no_answers_is_not_asked_for_ever__and_nothing_passes(tmp_path: Path) -> None:
    down = EchoAgent(refuses=AgentFailure("503", kind=FailureKind.PROVIDER, owner=Owner.PROVIDER))
    async with sides(tmp_path, stored=1, base=down) as made:
        decision = await made.decide()
    assert decision.outcome == "inconclusive"
    assert len(made.extra[0]) <= 15
    assert len(made.messages) <= 6
    assert made.messages[0] == "agent-eval: 2 runs to confirm 1 suspected regression"
