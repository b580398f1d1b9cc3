"""An agent with five tools, 16 cases, and the Gemini on loopback that leads it and errs by chance, with a seed."""

from __future__ import annotations

import math
import random
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))

from fake_gemini import Answer, GenerateRequest

AGENT = '''
"""Tells visitors about a few cities."""

from google.adk.agents import Agent

from . import tools

root_agent = Agent(
    name="guide",
    model="gemini-2.5-flash",
    instruction="Answer questions about cities. Ask the tools, never guess.",
    tools=[tools.get_weather, tools.get_time, tools.get_population, tools.find_museum, tools.get_fare],
)
'''
TOOLS = '''
"""What is known about the cities."""

KNOWN = {
    "weather": {"berlin": "rain", "lisbon": "sun", "oslo": "snow", "tokyo": "clouds", "lima": "fog"},
    "time": {"berlin": "14:00", "lisbon": "13:00", "oslo": "14:05", "tokyo": "21:00"},
    "population": {"berlin": "3.7 million", "lisbon": "0.5 million", "oslo": "0.7 million"},
    "museum": {"berlin": "the Pergamon", "tokyo": "the Mori", "lima": "the Larco"},
    "fare": {"oslo": "44 crowns"},
}


def look_up(subject: str, city: str) -> dict[str, str]:
    found = KNOWN[subject].get(city.casefold())
    return {"error": f"nothing is known about {city}"} if found is None else {"city": city, "found": found}


def get_weather(city: str) -> dict[str, str]:
    """Tells today's weather in a city."""
    return look_up("weather", city)


def get_time(city: str) -> dict[str, str]:
    """Tells the local time in a city."""
    return look_up("time", city)


def get_population(city: str) -> dict[str, str]:
    """Tells how many people live in a city."""
    return look_up("population", city)


def find_museum(city: str) -> dict[str, str]:
    """Finds the museum of a city that is worth a visit."""
    return look_up("museum", city)


def get_fare(city: str) -> dict[str, str]:
    """Tells what a bus ticket costs in a city."""
    return look_up("fare", city)
'''


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What people ask about, and the tool that knows."""

    tool: str
    question: str
    answer: str
    rates: Mapping[str, float]
    """By city, the share of runs in which the model leads the agent to the right answer."""

    @property
    def name(self) -> str:
        """Of the subject, e.g. `weather`."""
        return self.tool.partition("_")[2]


SUBJECTS = (
    Subject(
        tool="get_weather",
        question="What is the weather in {city}?",
        answer="The forecast for {city} today is {found}.",
        rates={"Berlin": 1.0, "Lisbon": 1.0, "Oslo": 0.95, "Tokyo": 1.0, "Lima": 0.8},
    ),
    Subject(
        tool="get_time",
        question="What time is it in {city}?",
        answer="The clocks in {city} show {found} now.",
        rates={"Berlin": 1.0, "Lisbon": 0.95, "Oslo": 1.0, "Tokyo": 0.5},
    ),
    Subject(
        tool="get_population",
        question="How many people live in {city}?",
        answer="About {found} people live in {city}.",
        rates={"Berlin": 1.0, "Lisbon": 1.0, "Oslo": 0.8},
    ),
    Subject(
        tool="find_museum",
        question="Which museum should I see in {city}?",
        answer="In {city} you should not miss {found}.",
        rates={"Berlin": 1.0, "Tokyo": 0.95, "Lima": 1.0},
    ),
    Subject(
        tool="get_fare",
        question="What does a bus ticket cost in {city}?",
        answer="A bus ticket in {city} costs {found}.",
        rates={"Oslo": 1.0},
    ),
)
"""16 cases with the mix of docs/statistics.md: ten always pass, three in 95% of their runs, two in 80%, one in half."""


def eval_id(subject: Subject, city: str) -> str:
    """Of a case."""
    return f"{subject.name}_{city.lower()}"


def cases_of(tool: str) -> set[str]:
    """The ids of the cases that need a tool."""
    return {eval_id(subject, city) for subject in SUBJECTS if subject.tool == tool for city in subject.rates}


def eval_set() -> dict[str, object]:
    """All cases, as ADK writes them."""
    facts: dict[str, dict[str, dict[str, str]]] = {}
    exec(TOOLS, facts)
    listed = []
    for subject in SUBJECTS:
        for city in subject.rates:
            answer = facts["KNOWN"][subject.name][city.lower()]
            listed.append(
                {
                    "eval_id": eval_id(subject, city),
                    "conversation": [
                        {
                            "user_content": _text("user", subject.question.format(city=city)),
                            "final_response": _text("model", subject.answer.format(city=city, found=answer)),
                            "intermediate_data": {"tool_uses": [{"name": subject.tool, "args": {"city": city}}]},
                        }
                    ],
                }
            )
    return {"eval_set_id": "guide", "eval_cases": listed}


def break_tool(tool: str, tools: str = TOOLS) -> str:
    """The tools with a mistake in one of them: it looks for the city under a name that is not in the table."""
    good, bad = (f'look_up("{tool.partition("_")[2]}", city{more})' for more in ("", '.upper() + "!"'))
    assert tools.count(good) == 1
    return tools.replace(good, bad)


def halve_tool(tool: str) -> str:
    """`TOOLS` with a mistake in one of them that shows in half of the processes' calls, by chance."""
    good = f'look_up("{tool.partition("_")[2]}", city)'
    bad = good.replace("city)", 'city if random.random() < 0.5 else city + "!")')
    assert TOOLS.count(good) == 1
    return TOOLS.replace(good, bad).replace("\nKNOWN", "\nimport random\n\nKNOWN", 1)


def _text(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"text": text}]}


class ErringModel:
    """Leads the agent as a model would, and errs as often as `SUBJECTS` say: half of the times before a tool is asked.

    The n-th time that a question is at the same step in a job, the model errs or doesn't, whatever else is asked
    meanwhile and in whatever order. So a job with the same seed and name sees the same errors.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._job = seed, ""
        self.stricter = 0.0
        """The share of what would pass that fails today."""
        self._asked: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._subjects = {
            subject.question.format(city=city): (subject, city) for subject in SUBJECTS for city in subject.rates
        }

    def begin(self, job: str) -> None:
        """Starts a job, such as the run of one pull request's workflow."""
        with self._lock:
            self._job = job
            self._asked.clear()

    def __call__(self, request: GenerateRequest) -> Answer:
        """The next step of the conversation."""
        question = request.user_texts[-1]
        subject, city = self._subjects[question]
        responses = request.tool_responses
        if self._errs(question, "tell" if responses else "ask", subject.rates[city]):
            return Answer.text("That I can't say, sorry. Is there anything else?" if responses else "Everybody knows.")
        if not responses:
            return Answer.calls((subject.tool, {"city": city}))
        [response] = [item["response"] for item in responses]
        if "error" in response:
            return Answer.text(f"Sorry, {response['error']}.")
        return Answer.text(subject.answer.format(city=city, found=response["found"]))

    def _errs(self, question: str, step: str, rate: float) -> bool:
        with self._lock:
            self._asked[question, step] += 1
            drawn = random.Random(f"{self._seed} {self._job} {question} {step} {self._asked[question, step]}").random()
        return drawn >= math.sqrt(rate * (1 - self.stricter))
