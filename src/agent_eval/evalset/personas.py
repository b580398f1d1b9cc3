"""The personas that a scenario can name: what they do as in google-adk 2.13.0, in our own words."""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval.evalset.schema import UserBehavior, UserPersona


def _behavior(name: str, description: str, instructions: list[str], violations: list[str]) -> UserBehavior:
    return UserBehavior(
        name=name, description=description, behavior_instructions=instructions, violation_rubrics=violations
    )


_ADVANCE_BY_DETAIL = _behavior(
    "Advances with every detail",
    "Moves the conversation on step by step and gives all details of a step at once.",
    ["State the next request of the plan with everything that the plan says about it.", "One request at a time."],
    ["The message leaves out details that the plan gives for this request.", "It skips a step of the plan."],
)
_ADVANCE_BY_GOAL = _behavior(
    "Advances toward the goal",
    "Says what it wants to achieve and leaves the details to the agent.",
    ["State the goal of the next step.", "Give details only when the agent asks for them."],
    ["The message volunteers details that nobody asked for.", "It pursues something that is not in the plan."],
)
_ANSWERS_RELEVANT = _behavior(
    "Answers what is relevant",
    "Answers questions that the plan's goals need, and no others.",
    ["Answer with what the plan says.", "Turn down questions that don't serve the current request."],
    ["The message answers a question that has nothing to do with the request.", "It ignores a question that has."],
)
_ANSWERS_ALL = _behavior(
    "Answers everything",
    "Answers every question of the agent as well as it can.",
    ["Answer with what the plan says; where it says nothing, say that you don't know or don't mind."],
    ["The message leaves a question of the agent without an answer."],
)
_CORRECTS = _behavior(
    "Corrects the agent",
    "Points out when the agent misunderstood or did the wrong thing.",
    ["When the agent's words or deeds don't fit the plan, say what is wrong and what you want instead."],
    ["The agent made a mistake that the plan shows, and the message doesn't mention it."],
)
_DOES_NOT_CORRECT = _behavior(
    "Does not correct the agent",
    "Takes what the agent says at face value.",
    ["Don't point out mistakes of the agent; go on with the plan."],
    ["The message corrects the agent."],
)
_TROUBLESHOOTS_ONCE = _behavior(
    "Troubleshoots once",
    "Gives the agent one more chance when something fails.",
    ["When a request failed, rephrase it or help once.", "Don't try the same thing a third time."],
    ["The message gives up at the first failure.", "It keeps trying after a second failure."],
)
_ENDS_AFTER_TROUBLESHOOTING = _behavior(
    "Ends after limited troubleshooting",
    "Ends the conversation when all is done, or when a second try failed too.",
    ["End when every request was dealt with.", "End when the same request failed twice."],
    ["The conversation ends while requests are open and nothing failed twice.", "It goes on after all is done."],
)
_ENDS_AT_FAILURE = _behavior(
    "Ends at the first failure",
    "Ends the conversation when all is done, or as soon as the agent fails at something.",
    ["End when every request was dealt with.", "End at once when the agent can't do a request."],
    ["The conversation goes on after the agent failed.", "It ends while requests are open and nothing failed."],
)
_PROFESSIONAL = _behavior(
    "Professional tone",
    "Writes briefly, politely and to the point.",
    ["Use complete, matter-of-fact sentences."],
    ["The message is chatty, emotional or sloppy."],
)
_CONVERSATIONAL = _behavior(
    "Conversational tone",
    "Writes the way people chat.",
    ["Use everyday words and short sentences."],
    ["The message sounds like a document, or like an AI assistant."],
)

PERSONAS: Mapping[str, UserPersona] = {
    persona.id: persona
    for persona in (
        UserPersona(
            id="EXPERT",
            description="Knows the subject, knows what to ask for, and expects the agent to get it right.",
            behaviors=[
                _ADVANCE_BY_DETAIL,
                _ANSWERS_RELEVANT,
                _CORRECTS,
                _TROUBLESHOOTS_ONCE,
                _ENDS_AFTER_TROUBLESHOOTING,
                _PROFESSIONAL,
            ],
        ),
        UserPersona(
            id="NOVICE",
            description="Is new to the subject, knows what it wants but not how, and relies on the agent.",
            behaviors=[_ADVANCE_BY_GOAL, _DOES_NOT_CORRECT, _ANSWERS_ALL, _ENDS_AT_FAILURE, _CONVERSATIONAL],
        ),
        UserPersona(
            id="EVALUATOR",
            description="Tests what the agent can do, without helping it.",
            behaviors=[
                _ADVANCE_BY_DETAIL,
                _ANSWERS_RELEVANT,
                _ENDS_AT_FAILURE,
                _DOES_NOT_CORRECT,
                _CONVERSATIONAL,
            ],
        ),
    )
}
"""By id; the ids are those of schema.PERSONA_IDS."""
