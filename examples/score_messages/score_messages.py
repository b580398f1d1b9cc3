"""Scores a list of messages with Google ADK's criteria. Needs agent-eval-scoring: no google-adk, no agent, no key.

python examples/score_messages/score_messages.py
"""

import asyncio

from agent_eval_scoring.criteria.api import (
    Content,
    Conversation,
    CriterionConfig,
    EvalCase,
    FunctionCall,
    IntermediateData,
    Invocation,
    Part,
    Result,
    build,
)

EXPECTED = [
    {
        "user": "Is the lamp on?",
        "calls": [("get_state", {"device": "lamp"})],
        "agent": "The lamp in the bedroom is on.",
    },
    {"user": "Switch it off.", "calls": [("set_state", {"device": "lamp", "on": False})], "agent": "The lamp is off."},
]
ACTUAL = [
    {"user": "Is the lamp on?", "calls": [("get_state", {"device": "lamp"})], "agent": "The bedroom lamp is on."},
    {
        "user": "Switch it off.",
        "calls": [("set_state", {"device": "heater", "on": False})],
        "agent": "The lamp is off.",
    },
]
CRITERIA = {"response_match_score": 0.8, "tool_trajectory_avg_score": 1.0}


def turns(messages: list[dict]) -> list[Invocation]:
    """The messages as turns: what the user said, the tools that were called, the answer."""
    return [
        Invocation(
            user_content=Content(role="user", parts=[Part(text=message["user"])]),
            intermediate_data=IntermediateData(
                tool_uses=[FunctionCall(name=name, args=args) for name, args in message["calls"]]
            ),
            final_response=Content(role="model", parts=[Part(text=message["agent"])]),
        )
        for message in messages
    ]


async def score(metric: str, threshold: float) -> Result:
    expected, actual = turns(EXPECTED), turns(ACTUAL)
    case = EvalCase(eval_id="lamp", conversation=expected)
    criterion = build(CriterionConfig(metric=metric, threshold=threshold, options={}))
    return await criterion.score(Conversation(case=case, actual=actual, expected=expected))


for metric, threshold in CRITERIA.items():
    result = asyncio.run(score(metric, threshold))
    print(f"{metric}: {result.score:.2f}, {'passed' if result.score >= threshold else 'failed'}")
    for finding in result.findings:
        print(f"  turn {finding.turn + 1}: expected {finding.expected}, was {finding.actual}")
