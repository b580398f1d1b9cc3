"""The personas that a scenario can name: what they do as in google-adk 2.13.0, in our own words."""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval_scoring.evalset.models.schema import UserBehavior, UserPersona


def _behavior(name: str, description: str, instructions: list[str], violations: list[str]) -> UserBehavior:
    return UserBehavior(
        name=name, description=description, behavior_instructions=instructions, violation_rubrics=violations
    )


_ONE_TASK = "The message asks for more than one thing at once."
_DONE_BEFORE = "The message asks again for something that the agent has already done, or gives details for it."
_NOT_VOLUNTEERED = "Add nothing that the agent did not ask for."
_NOT_INVENTED = "If the plan does not say what the agent asks for, say that you don't know. Make nothing up."
_FAILURE = (
    "The agent fails if it can't do what was asked (it calls a function wrongly, for example) or does not give the "
    "answer that the plan expects. A question that clears something up is no failure."
)

_ADVANCE_BY_DETAIL = _behavior(
    "Advances with all details",
    "Keeps to the plan. Opens a new request with everything that the agent needs for it.",
    [
        "When the agent has done a request, make the next one of the plan.",
        "Skip requests that the agent has already dealt with.",
        "Open a request with what you want to achieve and all details that the plan gives for it.",
    ],
    [
        _DONE_BEFORE,
        "The message agrees to another topic or to a task that is not in the plan.",
        "The message pursues a goal that is not in the plan.",
        "The message makes up a detail that the plan does not give, such as an address or a phone number.",
        "The message states only the goal, so that the agent has to ask for the details.",
        _ONE_TASK,
    ],
)
_ADVANCE_BY_GOAL = _behavior(
    "Advances by goals",
    "Keeps to the plan as far as the agent lets it. States goals and leaves it to the agent to ask for details.",
    [
        "When the agent has done a request, make the next one of the plan.",
        "Skip requests that the agent has already dealt with.",
        "State only what you want to achieve next.",
        "Give no detail of it before the agent asks for that detail.",
    ],
    [
        _DONE_BEFORE,
        "The message pursues a goal that neither the plan nor the agent brought up.",
        "The message makes up a detail that neither the plan nor the agent gave.",
        "The message gives details of a request (a text, an address, a phone number) before the agent asked for them.",
        _ONE_TASK,
    ],
)
_ANSWERS_RELEVANT = _behavior(
    "Answers relevant questions only",
    "Does not answer questions that have nothing to do with the goals of the plan. If the agent asks only such "
    "questions, insists on the plan.",
    [
        "Answer the agent's questions with what the plan says, and with nothing else.",
        _NOT_VOLUNTEERED,
        _NOT_INVENTED,
        "Do not answer questions that have nothing to do with the goals of the plan.",
    ],
    ["The agent asked a question that has nothing to do with the goal, and the message answers it."],
)
_ANSWERS_ALL = _behavior(
    "Answers all questions",
    "Answers every question of the agent, small talk included.",
    ["Answer the agent's questions with what the plan says, and with nothing else.", _NOT_VOLUNTEERED, _NOT_INVENTED],
    [
        "The agent asked something, and the message leaves one of its questions without an answer.",
        "The agent asked for something that the plan does not say, and the message makes up an answer.",
    ],
)
_CORRECTS = _behavior(
    "Corrects the agent",
    "Notices the agent's mistakes and corrects them.",
    [
        "Object when the agent says something illogical or wrong.",
        "If the agent did something wrong, ask it to put that right.",
    ],
    [
        "The agent said something wrong, and the message goes on as if it were right.",
        "The agent assumed something risky (it sent an email without asking what to write, for example), and the "
        "message does not object.",
    ],
)
_DOES_NOT_CORRECT = _behavior(
    "Does not correct the agent",
    "Ends the conversation when the agent says something illogical or wrong.",
    ["If the agent said something illogical or wrong, end the conversation with `{{ stop_signal }}`."],
    ["The agent made a mistake or assumed something, and the message corrects it."],
)
_TROUBLESHOOTS_ONCE = _behavior(
    "Troubleshoots once",
    "Helps the agent after a failure once in the whole conversation. " + _FAILURE,
    [
        "Help the agent at its first failure.",
        "Help once in the whole conversation: if you have helped with any request before, do not help again.",
    ],
    [
        "The message ends the conversation at the agent's first failure.",
        "The agent failed a second time, and the message does not end the conversation with `{{ stop_signal }}`.",
        "After the agent's second failure, the message goes on or deals with failures.",
    ],
)


def _ends(name: str, failed: str, rules: list[str], violations: list[str]) -> UserBehavior:
    return _behavior(
        name,
        "The conversation is complete if one of these holds:\n- The agent has confirmed that all goals of the plan are "
        f"reached.\n- The agent has handed the user over to a person.\n- {failed}\n{_FAILURE}",
        [
            "End the conversation only when it is complete.",
            "Before you end it because all goals are reached, wait until the agent has confirmed that.",
            "To end it, write `{{ stop_signal }}`.",
            *rules,
        ],
        [
            "The conversation is complete, and the message does not use `{{ stop_signal }}`.",
            "The message uses `{{ stop_signal }}`, and the conversation is not complete.",
            *violations,
        ],
    )


_ENDS_AFTER_TROUBLESHOOTING = _ends(
    "Ends at the second failure",
    "The agent has failed more than once.",
    ["Count the agent's failures in the conversation so far. The second one, of whatever request, ends it."],
    [],
)
_ENDS_AT_FAILURE = _ends(
    "Ends at the first failure",
    "The agent has failed.",
    ["Look at the agent's last message. If it contains a failure, end the conversation."],
    ["The agent failed, and the message goes on without `{{ stop_signal }}`."],
)
_OTHER_TONE = "The tone does not fit the user's earlier messages."
_PROFESSIONAL = _behavior(
    "Professional tone",
    "Writes clear, technical language. `{{ stop_signal }}` fits this tone.",
    ["Write clear, technical language.", "Avoid slang, abbreviations, emojis and small talk."],
    [
        "The message has slang, many abbreviations or emojis.",
        "The message has small talk or personal remarks.",
        "The message is long where one direct sentence would do.",
        _OTHER_TONE,
    ],
)
_CONVERSATIONAL = _behavior(
    "Conversational tone",
    "Writes informally. `{{ stop_signal }}` fits this tone.",
    [
        "Write as an ordinary person chats.",
        "Avoid formal and overly polite phrases.",
        "Avoid bare commands; write what makes a message sound natural.",
    ],
    [
        "The message is a bare command without anything that makes it sound natural.",
        "The message is formal or overly polite.",
        "The message is long where a simple sentence would do.",
        _OTHER_TONE,
    ],
)

PERSONAS: Mapping[str, UserPersona] = {
    persona.id: persona
    for persona in (
        UserPersona(
            id="EXPERT",
            description="Knows exactly what it wants and uses the agent as a tool to get it quickly. Has little "
            "patience for small talk and needless questions.",
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
            description="Wants to solve a problem that it does not fully understand, and relies on the agent. Is "
            "patient with the agent's questions, but can neither help it out of a failure nor correct it.",
            behaviors=[_ADVANCE_BY_GOAL, _DOES_NOT_CORRECT, _ANSWERS_ALL, _ENDS_AT_FAILURE, _CONVERSATIONAL],
        ),
        UserPersona(
            id="EVALUATOR",
            description="Finds out whether the agent can help to reach the goals of the plan.",
            behaviors=[_ADVANCE_BY_DETAIL, _ANSWERS_RELEVANT, _ENDS_AT_FAILURE, _DOES_NOT_CORRECT, _CONVERSATIONAL],
        ),
    )
}
"""By id; the ids are those of schema.PERSONA_IDS."""
