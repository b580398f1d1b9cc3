"""Secrets on both sides of a comparison: what models get of them, and what the agent gets."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from evalset_samples import loaded
from judged_samples import ScriptedModel, failure, rubric
from runner_doubles import EchoAgent, EchoSession, turn

from agent_eval.runner.execution import Execution, Limits
from agent_eval.runner.journal import Journal, case_lines
from agent_eval.runner.plan import given_by, make_plan
from agent_eval_agents.protocol import Session, SessionRequest
from agent_eval_scoring.core.content import Content, Part, text_of
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.criteria.judged.judge import Judge
from agent_eval_scoring.evalset.models.criterion_options import RubricsBasedCriterion
from agent_eval_scoring.evalset.models.schema import ConversationScenario, CriterionConfig, EvalCase, SessionInput
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models.protocol import ModelRequest
from agent_eval_scoring.simulation import PURPOSE

MASKER = Masker({"postgres": "DB_PASSWORD", "kitchen lamp": "LAMP_KEY", "only-the-gates": "INDEX_TOKEN"})


@dataclass(kw_only=True)
class _Session(EchoSession):
    async def send(self, content: Content, *, timeout: float) -> Invocation:
        masked: Invocation = MASKER.values(await super().send(content, timeout=timeout))
        return masked


class MaskedEcho(EchoAgent):
    """Echoes what it is told; its driver masks it."""

    async def open(self, request: SessionRequest) -> Session:
        self.opened.append(request)
        return _Session(agent=self, request=request)


async def test_execution__models_get_placeholders_and_the_agent_gets_the_secrets(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> object:
        if request.purpose == PURPOSE:
            return ("use ***DB_PASSWORD***, not ***INDEX_TOKEN***", "</finished>")[request.sample - 1]
        return failure("malformed")

    model = ScriptedModel(script=script, any_question=True)
    scenario = ConversationScenario(
        starting_prompt="start with postgres", conversation_plan="Ask for the kitchen lamp."
    )
    state = {"db": "postgres"}
    cases = [
        EvalCase(
            eval_id="fixed-postgres",
            conversation=[turn("which postgres?", "which postgres?")],
            session_input=SessionInput(app_name="a", user_id="u", state=state),
        ),
        EvalCase(eval_id="simulated", conversation_scenario=scenario),
    ]
    rubrics = [rubric("names postgres", "FINAL_RESPONSE_QUALITY")]
    judged = CriterionConfig(
        metric="rubric_based_final_response_quality_v1",
        threshold=0.5,
        options={**criterion("x", RubricsBasedCriterion(threshold=0.5, rubrics=rubrics)).options},
    )
    response = CriterionConfig(metric="response_match_score", threshold=1.0)
    users = {"custom_instructions": "Never name postgres. {{ conversation_plan }} {{ conversation_history }}"}
    file = loaded("a.evalset.json", *cases, criteria=[response, judged], user_simulator_config=users)
    plan = make_plan([file], {file.path: "agent"}, {}, 1, Judge(model=model), masker=MASKER)
    assert given_by(plan.cases[0].given) == given_by(cases[0])
    assert plan.cases[0].content == make_plan([file], {file.path: "agent"}, {}, 1, Judge(model=model)).cases[0].content
    agent = MaskedEcho()
    journal = Journal(tmp_path / "journal.jsonl", resume=False)
    run = Execution(
        plan=plan, agents={"agent": agent}, journal=journal, limits=Limits(), limiter=Limiter(1), model=model
    )
    with contextlib.closing(journal):
        fixed, _ = await run.run()
        lines = journal.lines([plan.cases[0].run_id(0), plan.cases[1].run_id(0)])
        written = b"".join([*case_lines(plan.cases), *lines])
    [score, *_] = fixed.metrics
    assert score.runs[0].score == 1.0
    prompts = [request.prompt + (request.system or "") for request in model.requests]
    assert {request.purpose for request in model.requests} == {PURPOSE, judged.metric}
    assert [prompt for prompt in prompts if "postgres" in prompt or "kitchen lamp" in prompt] == []
    assert all("***DB_PASSWORD***" in prompt for prompt in prompts)
    assert sorted(agent.sent) == ["start with postgres", "use postgres, not ***INDEX_TOKEN***", "which postgres?"]
    assert state in [request.state for request in agent.opened]
    assert b'"eval_id":"fixed-postgres"' in written
    assert b"which ***DB_PASSWORD***?" in written
    assert b"postgres" not in written.replace(b"fixed-postgres", b"")


def test_revealed__only_what_the_agents_have_or_the_case_spells_out() -> None:
    """Any agent can write any placeholder: it must not get the secret, nor learn it from a score."""
    secrets = {"postgres": "DB_PASSWORD", "only-the-gates": "INDEX_TOKEN PROXY_TOKEN", "in-the-case": "CASE_KEY"}
    said = Content(role="user", parts=[Part(text="***DB_PASSWORD*** ***INDEX_TOKEN*** ***CASE_KEY*** ***NONE***")])
    case = EvalCase(eval_id="a", conversation=[turn("in-the-case", "***INDEX_TOKEN*** ***PROXY_TOKEN***")])
    masker = Masker(secrets, held={"DB_PASSWORD"})
    known = masker.placeholders(case)
    assert known == {"***CASE_KEY***"}
    assert text_of(masker.revealed(said, known)) == "postgres ***INDEX_TOKEN*** in-the-case ***NONE***"
    assert text_of(masker.revealed(said)) == "postgres ***INDEX_TOKEN*** ***CASE_KEY*** ***NONE***"
    assert Masker(secrets).revealed(said) is said
