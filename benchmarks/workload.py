"""What is evaluated: copies of the weather example with as many cases as a scenario wants, and the model server."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import PROJECT
from measuring import Void

EXAMPLE = PROJECT / "examples" / "gemini_weather"
FORECASTS = {"Berlin": ("rain", 14), "Lisbon": ("sun", 26), "Oslo": ("snow", -3), "Tokyo": ("clouds", 21)}
CALLS_PER_CASE = 2
"""Model calls: one that asks for the tool, one that answers."""


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """The Gemini on loopback, in a process of its own."""

    url: str

    def reset(self) -> None:
        """Counts from zero."""
        request = urllib.request.Request(f"{self.url}/reset", method="POST")
        urllib.request.urlopen(request, timeout=10).close()

    def stats(self) -> dict[str, Any]:
        """What it has counted."""
        with urllib.request.urlopen(f"{self.url}/stats", timeout=10) as response:
            document: dict[str, Any] = json.load(response)
        return document

    def check(self, cases: int, *, judged: int = 0, throttled: bool = False) -> None:
        """Makes sure that the work was really done.

        Args:
            cases: How many the agent had to answer.
            judged: Calls to a judge beside the agent's.
            throttled: Calls may have been refused with 429.

        Raises:
            Void: The server saw another number of calls, or refused one.
        """
        stats = self.stats()
        expected = cases * CALLS_PER_CASE + judged
        statuses = {status: count for status, count in stats["statuses"].items() if not (throttled and status == "429")}
        if statuses != {"200": expected} or stats["refused"]:
            raise Void(f"{expected} model calls expected, the server saw {stats}")


@contextmanager
def model_server(latency: float, *options: str, script: Path = EXAMPLE / "serve.py") -> Iterator[ModelServer]:
    """Runs the weather example's server.

    Args:
        latency: Seconds before each answer.
        options: More options of the script.
        script: Another server that takes `--latency`.
    """
    with _served(script, "--latency", str(latency), *options) as url:
        yield ModelServer(url=url)


def near_index(directory: Path) -> AbstractContextManager[str]:
    """The URL of a package index on loopback, which keeps in the directory what it was asked for."""
    return _served(Path(__file__).with_name("near_index.py"), str(directory))


@contextmanager
def _served(script: Path, *options: str) -> Iterator[str]:
    """Runs a server that prints `NAME=URL` first."""
    process = subprocess.Popen([sys.executable, str(script), *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().partition("=")[2]
    finally:
        process.terminate()
        process.wait(timeout=10)
        if process.stdout is not None:
            process.stdout.close()


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def weather_case(number: int) -> dict[str, Any]:
    """A case of one turn with one tool call."""
    city, (sky, celsius) = list(FORECASTS.items())[number % len(FORECASTS)]
    return {
        "eval_id": f"case_{number:03}",
        "conversation": [
            {
                "user_content": _message("user", f"What is the weather in {city}?"),
                "final_response": _message("model", f"The forecast for {city} is {sky} and {celsius} degrees."),
                "intermediate_data": {"tool_uses": [{"name": "get_forecast", "args": {"city": city}}]},
            }
        ],
    }


def write_json(path: Path, value: object) -> None:
    """Writes a file, making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def weather_workspace(
    directory: Path, *, cases: int, requirements: str | None = None, more: Mapping[str, Any] | None = None
) -> Path:
    """A fresh copy of the example's agent beside one eval file.

    Args:
        directory: Where to put it.
        cases: How many.
        requirements: Of the agent.
        more: Criteria beside those that compare tool calls and words.

    Returns:
        The directory that holds `gemini_weather/`, `weather.test.json` and `test_config.json`.
    """
    shutil.rmtree(directory, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "evals", "serve.py", ".adk")
    shutil.copytree(EXAMPLE, directory / "gemini_weather", ignore=ignored)
    if requirements is not None:
        (directory / "gemini_weather" / "requirements.txt").write_text(requirements + "\n", encoding="utf-8")
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8, **(more or {})}
    write_json(directory / "test_config.json", {"criteria": criteria})
    eval_cases = [weather_case(number) for number in range(cases)]
    write_json(directory / "weather.test.json", {"eval_set_id": "weather", "eval_cases": eval_cases})
    return directory


_TEXT = (
    "the order has been shipped and should reach you within three working days please keep the parcel number at hand "
    "your refund was booked to the card that you paid with it may take some time until the bank shows it "
    "opening hours are from nine to six on weekdays the shop is closed on sundays and public holidays"
)
_WORDS = _TEXT.split()
WRONG_EVERY = 10
"""Each tenth recorded case called another tool and said something else."""


def _recorded_turn(number: int, chance: random.Random, *, actual: bool) -> dict[str, Any]:
    text = " ".join(chance.choices(_WORDS, k=45))
    calls = [
        {"name": "find_order", "args": {"order_id": f"A-{number}", "include": ["items", "payments"]}},
        {"name": "notify", "args": {"customer": number, "channel": "mail"}},
    ]
    if actual and number % WRONG_EVERY == 0:
        calls[1] = {"name": "notify", "args": {"customer": number, "channel": "phone"}}
        text = "I am sorry, something went wrong."
    return {
        "user_content": _message("user", f"Where is my order A-{number}?"),
        "final_response": _message("model", text),
        "intermediate_data": {"tool_uses": calls},
    }


def _recorded_case(number: int, *, actual: bool) -> dict[str, Any]:
    chance = random.Random(number)
    return {
        "eval_id": f"case_{number:05}",
        "conversation": [_recorded_turn(number, chance, actual=actual) for _ in range(2)],
    }


def recorded_workspace(directory: Path, *, files: int, cases_per_file: int) -> Path:
    """Eval files of two turns a case, and in `recording/` what an agent did, one case in ten not as expected."""
    shutil.rmtree(directory, ignore_errors=True)
    criteria = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}
    write_json(directory / "evals" / "test_config.json", {"criteria": criteria})
    recorded = []
    for file in range(files):
        numbers = range(file * cases_per_file, (file + 1) * cases_per_file)
        name = f"set_{file:04}"
        expected = [_recorded_case(number, actual=False) for number in numbers]
        write_json(directory / "evals" / f"{name}.test.json", {"eval_set_id": name, "eval_cases": expected})
        recorded += [_recorded_case(number, actual=True) for number in numbers]
    write_json(directory / "recording" / "actual.json", {"eval_set_id": "actual", "eval_cases": recorded})
    return directory
