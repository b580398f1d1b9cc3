"""`per_turn_user_simulator_quality_v1`: judges whether the simulated user, not the agent, follows its scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.means import running_sum
from agent_eval_scoring.core.prompt_fence import Data, Draft
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria._explain import LONGEST_TEXT
from agent_eval_scoring.criteria.base import Conversation, Judgement, NotEvaluated, Result, TurnFinding, Vote, no_turns
from agent_eval_scoring.criteria.judged._material import NO_TEXT, RULE, history
from agent_eval_scoring.criteria.judged.final_response import VALIDITY_SCALE, read_verdict
from agent_eval_scoring.criteria.judged.judge import Judge, Options, Panel, Question, Unjudgeable, together
from agent_eval_scoring.criteria.judged.quality import verdict_schema
from agent_eval_scoring.criteria.judged.settling import filled, settle, why
from agent_eval_scoring.evalset.models import ConversationScenario
from agent_eval_scoring.evalset.templates import TemplateError
from agent_eval_scoring.simulation.persona_rendering import Persona, persona_of

_SCHEMA = verdict_schema(list(VALIDITY_SCALE))

_TASK = f"""You check a simulated user: a model that plays the user of an AI agent by a plan.

{RULE}

You get the plan, the conversation so far, and the simulated user's next message. Decide whether that message is what a
user who follows the plan would say at this point. Judge the user's message only, whatever mistakes the agent made.
"""

_PLAIN = """The message is valid only if all of these hold:
- Plan: it pursues the next open request of the plan, or answers the agent, and makes nothing up beyond the plan.
- End: it is the stop signal if, and only if, the conversation should end now: all requests of the plan are dealt with,
  the agent failed at the same request more than once, it did something wrong that it can't put right, or it handed the
  user over to a person.
- Goal: it moves the conversation toward what the plan wants, one request at a time, without small talk or repeating
  what is settled.
- Details: it gives no details of a request before the agent asked for them, unless it makes that request.
- Troubleshooting: after the agent's first failure it tries again, instead of ending the conversation; it does so once.
- Answers: it answers what the agent asked, as far as the plan tells.
- Correction: if the agent misunderstood or did something else than asked, it says so.
- Tone: it sounds like a person chatting, not like an assistant or a document.
"""

_STRICT = "Any violation makes it invalid. Give your reasoning first, then the verdict."


def _demands(persona: Persona | None) -> str:
    if persona is None:
        return _PLAIN
    lines = ["The message is valid only if it fits the persona below, and follows the plan. Violations are listed."]
    for behavior in persona.behaviors:
        lines.append(f"- {behavior.name}: {behavior.description}")
        lines += [f"  - violated if: {rubric}" for rubric in behavior.violation_rubrics]
    return "\n".join([f"Persona {persona.id}: {persona.description}", *lines])


def _draft(
    scenario: ConversationScenario,
    persona: Persona | None,
    stop_signal: str,
    before: Sequence[Invocation],
    message: str,
) -> Draft:
    return (
        _TASK,
        _demands(persona),
        Data(label="The stop signal, which the user sends to end the conversation", text=stop_signal),
        Data(label="The plan", text=scenario.conversation_plan or NO_TEXT),
        Data(label="The conversation so far", text=history(before) or NO_TEXT),
        Data(label="The simulated user's next message, to be checked", text=message or NO_TEXT),
        _STRICT,
    )


@dataclass(frozen=True, kw_only=True)
class SimulatorQuality:
    """The share of turns in which the simulated user follows the scenario, 0..1.

    The first turn must be the starting prompt. The judge votes on the others; a tie is invalid. It also votes on
    whether the conversation should have ended where it did; if not, the last turn scores 0.
    """

    threshold: float
    judge: Judge
    options: Options
    stop_signal: str = "</finished>"
    name: str = "per_turn_user_simulator_quality_v1"

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run; NotEvaluated without a scenario."""
        scenario, turns = conversation.case.conversation_scenario, conversation.actual
        if scenario is None:
            return NotEvaluated.of("needs-scenario")
        if not turns:
            return no_turns()
        try:
            persona = persona_of(scenario, stop_signal=self.stop_signal)
        except TemplateError as error:
            return NotEvaluated.of("persona-template-failed", message=str(error))
        panel = Panel(self.judge, self.options, self.name, conversation)
        messages = [text_of(turn.user_content) for turn in turns]
        questions = [
            self._question(turn, scenario, persona, turns[:turn], message)
            for turn, message in enumerate(messages)
            if turn > 0
        ]
        ending = self._question(len(turns) - 1, scenario, persona, turns, self.stop_signal)
        ending = replace(ending, subjects=("ending",))
        try:
            asked = await together([panel.poll(question) for question in (*questions, ending)])
        except Unjudgeable as stopped:
            return stopped.result
        *later, [ended] = asked
        judgements = [_first_turn(turns[0], scenario), *(judgement for [judgement] in later)]

        def turn_scores(fill: float | None) -> list[float | None]:
            scores = [filled(judgement.score, fill) for judgement in judgements]
            end = filled(ended.score, fill)
            if end is not None and end < self.threshold:
                scores[-1] = end
            return scores

        def measure(fill: float | None) -> float | None:
            # As in ADK all turns are in the denominator, and a turn counts only if it passes by itself.
            counted = (score for score in turn_scores(fill) if score is not None and score >= self.threshold)
            return running_sum(counted) / len(turns)

        scores = turn_scores(None)
        return settle(
            [*judgements, ended],
            measure,
            panel=panel,
            threshold=self.threshold,
            turn_scores=scores,
            findings=[
                self._finding(turn, score, messages[turn], scenario, judgements[turn], ended)
                for turn, score in enumerate(scores)
                if score is not None and score < self.threshold
            ],
        )

    def _question(
        self,
        turn: int,
        scenario: ConversationScenario,
        persona: Persona | None,
        before: Sequence[Invocation],
        message: str,
    ) -> Question:
        draft = _draft(scenario, persona, self.stop_signal, before, message)
        return Question(turn=turn, subjects=("",), draft=draft, schema=_SCHEMA, scale=VALIDITY_SCALE, read=read_verdict)

    def _finding(
        self,
        turn: int,
        score: float,
        message: str,
        scenario: ConversationScenario,
        judgement: Judgement,
        ended: Judgement,
    ) -> TurnFinding:
        expected = scenario.starting_prompt if turn == 0 else scenario.conversation_plan
        # The last turn can be valid by itself and fail because of the ending.
        failed = [each for each in (judgement, ended) if each.score is not None and each.score < self.threshold]
        shown = [each for each in failed if each is judgement or each.turn == turn]
        return TurnFinding(
            turn=turn,
            score=score,
            expected=shorten(expected, LONGEST_TEXT) or NO_TEXT,
            actual=shorten(message, LONGEST_TEXT) or NO_TEXT,
            why=tuple(map(why, shown)),
        )


def _first_turn(turn: Invocation, scenario: ConversationScenario) -> Judgement:
    """The first message is compared with the starting prompt, not judged."""
    matches = text_of(turn.user_content).strip() == scenario.starting_prompt.strip()
    verdict = "valid" if matches else "invalid"
    reason = f"the first message {'is' if matches else 'is not'} the starting prompt"
    vote = Vote(sample=0, verdict=verdict, score=VALIDITY_SCALE[verdict], rationale=reason)
    return Judgement(turn=0, subject="", verdict=verdict, score=vote.score, rationale=reason, votes=(vote,), planned=1)
