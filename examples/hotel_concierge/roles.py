"""What stands in the place of Gemini here, by rules: the concierge's model, the judge, and the guest.

Three parts play in an evaluation, and all three ask a model. Which of them a request comes from is plain from what it
holds: the agent declares its tools, the judge wants a reply by a schema, the simulated guest wants plain text. Which
question a judge is asked is plain from its instruction; the server refuses one that its schema does not belong to.

The judge reads what it is shown and decides by it, so an agent that says or does something else is found out. It
understands no more than these eval files need.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from fake_gemini import Answer, GenerateRequest
from fake_gemini.questions import material, question_of, verdicts_of

Role = Literal["agent", "judge", "guest"]

_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_NUMBER = re.compile(r"\d+")
_FOUND = re.compile(r"\b(?P<name>Harbour double|Garden single|Fjord double)\b", re.I)
_ROOM_IDS = {"harbour double": "L1", "garden single": "L2", "fjord double": "O1"}


def role_of(request: GenerateRequest) -> Role:
    """Who asks."""
    if request.tool_names:
        return "agent"
    return "judge" if "responseJsonSchema" in request.body.get("generationConfig", {}) else "guest"


class Roles:
    """Answers all three; a script for FakeGemini."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def __call__(self, request: GenerateRequest) -> Answer:
        """The answer to one request."""
        role = role_of(request)
        if role == "agent":
            return concierge(request)
        prompt = request.user_texts[-1]
        if role == "guest":
            return Answer.text(guest(prompt))
        return Answer.text(json.dumps(self._judged(prompt)))

    def _judged(self, prompt: str) -> dict[str, Any]:
        question, shown = question_of(prompt), material(prompt)
        if words := verdicts_of(question):
            verdict, why = judge(question, shown, words)
            return {"reasoning": why, "verdict": verdict}
        if question.startswith("rubric"):
            listed = json.loads(
                prompt[prompt.index("[", prompt.index("The properties to check:")) : prompt.rindex("]") + 1]
            )
            self._asked[prompt] += 1
            return {"verdicts": [self._rubric(one, shown, self._asked[prompt]) for one in listed]}
        if question == "hallucinations_v1: sentences":
            return {"sentences": [found.strip() for found in _SENTENCE.findall(shown["The text"])]}
        context = "\n".join(text for label, text in shown.items() if label.startswith("Context"))
        return {"sentences": [label_of(one, context) for one in json.loads(shown["The sentences to check"])]}

    @staticmethod
    def _rubric(asked: Mapping[str, Any], shown: Mapping[str, str], time: int) -> dict[str, Any]:
        met, why = check_property(asked["property"], shown)
        if "friendly" in asked["property"] and time % 5 == 2:
            met, why = False, "It could be friendlier."  # Of taste judges say now this and now that.
        return {"number": asked["number"], "evidence": why, "rationale": why, "verdict": "yes" if met else "no"}


# --- the concierge's model --------------------------------------------------------------------------------------------


def concierge(request: GenerateRequest) -> Answer:
    """One step of the agent: a tool call for a request, a sentence for what the tool returned."""
    if responses := request.tool_responses:
        return Answer.text(" ".join(_say(item["name"], item["response"]) for item in responses))
    said = request.user_texts[-1]
    if "book" in said.lower() and (room := _FOUND.search(said)):
        name = re.search(r"\bfor ([A-Z]\w+)", said)
        return Answer.calls(
            ("book_room", {"room_id": _ROOM_IDS[room["name"].lower()], "guest": name[1] if name else "the guest"})
        )
    city, nights = re.search(r"\bin ([A-Z]\w+)", said), re.search(r"(\d+) nights?", said)
    if city is not None:
        args = {"city": city[1], "nights": int(nights[1]) if nights else 1}
        call = {"functionCall": {"name": "find_rooms", "args": args}}
        return Answer(parts=[{"text": "Let me see what is free."}, call])
    if "thank" in said.lower():
        return Answer.text("You are welcome. Have a good journey!")
    return Answer.text("Gladly! In which city, and for how many nights?")


def _say(tool: str, response: Mapping[str, Any]) -> str:
    if "error" in response:
        return f"Sorry, there is {response['error']}."
    if tool == "book_room":
        booked = f"The {response['room']} is booked for {response['guest']}."
        return f"{booked} Your confirmation number is {response['confirmation']}."
    rooms = " and ".join(f"the {room['name']} for {room['total']} euros" for room in response["rooms"])
    nights = "1 night" if response["nights"] == 1 else f"{response['nights']} nights"
    return f"For {nights} in {response['city']} we have {rooms}."


# --- the guest --------------------------------------------------------------------------------------------------------


def guest(prompt: str) -> str:
    """The next message of the plan that hasn't been said: the plan quotes them."""
    plan, so_far = prompt.split("(End of the plan.)", 1)
    wanted = re.findall(r'^\d+\. "(.+)"$', plan, re.M)
    return next((message for message in wanted if message not in so_far), "</finished>")


# --- the judge --------------------------------------------------------------------------------------------------------


def judge(question: str, shown: Mapping[str, str], words: Sequence[str]) -> tuple[str, str]:
    """A verdict, one of the words (the best first), and the reason."""
    good, bad = words[0], words[-1]
    if question == "final_response_match_v2":
        missing = facts(shown["The reference answer"]) - facts(shown["The agent's answer, to be checked"])
        return (bad, f"It lacks {', '.join(sorted(missing))}.") if missing else (good, "It has all that was asked for.")
    if question == "per_turn_user_simulator_quality_v1":
        message = shown["The simulated user's next message, to be checked"]
        ending = "</finished>" in message
        fits = ending or message in shown["The plan"]
        return (good, "The plan wants that.") if fits else (bad, "The plan doesn't say that.")
    if question.startswith("multi_turn"):
        dialogue = shown["The conversation, to be checked"]
        asked = re.search(r"^USER TURN \d+: .*\bbook\b", dialogue, re.M | re.I) is not None
        booked = "HC-" in dialogue
        return (good, "What was asked for was done.") if asked == booked else (bad, "Nothing was booked as asked.")
    answer = shown["The agent's answer, to be checked"]
    if question == "safety_v1":
        return (bad, "It insults the guest.") if "idiot" in answer else (good, "Nothing in it does harm.")
    return (
        (good, "Each sentence follows from the last.") if answer.endswith((".", "!", "?")) else (bad, "It breaks off.")
    )


def facts(text: str) -> set[str]:
    """Numbers and names of a text."""
    return {*_NUMBER.findall(text), *(match["name"].lower() for match in _FOUND.finditer(text))}


_CHECKS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "price": lambda shown: bool(
        facts(shown["The final answer, to be checked"]) <= facts(shown["Tool calls and what they returned"])
    ),
    "friendly": lambda shown: "idiot" not in shown["The final answer, to be checked"],
    "confirmation": lambda shown: "HC-" in shown["The final answer, to be checked"],
    "find_rooms": lambda shown: '"find_rooms"' in shown["Tool calls and what they returned, to be checked"],
    "the city": lambda shown: all(
        city.lower() in shown["The user's message"].lower()
        for city in re.findall(r'"city": "(\w+)"', shown["Tool calls and what they returned, to be checked"])
    ),
    "before it books": lambda shown: (
        shown["The conversation, to be checked"].find("find_rooms(")
        < shown["The conversation, to be checked"].find("book_room(")
    ),
}
"""By a word of the property."""


def check_property(demanded: str, shown: Mapping[str, str]) -> tuple[bool, str]:
    """Whether a rubric's property holds; one that nobody knows doesn't."""
    check = next((check for word, check in _CHECKS.items() if word in demanded), None)
    if check is None:
        return False, "There is no rule for this property."
    return (True, "It does.") if check(shown) else (False, "It does not.")


def label_of(sentence: Mapping[str, Any], context: str) -> dict[str, Any]:
    """A label for a sentence: its numbers must stand in the context."""
    numbers = set(_NUMBER.findall(sentence["sentence"]))
    known = numbers <= set(_NUMBER.findall(context))
    label = "not_applicable" if not numbers else "supported" if known else "unsupported"
    return {
        "number": sentence["number"],
        "supporting_excerpt": "",
        "contradicting_excerpt": "",
        "rationale": "Its numbers stand in the context." if known else "A number comes from nowhere.",
        "label": label,
    }
