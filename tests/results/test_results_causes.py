"""What failing cases have in common: small runs, one table a code, and that noise has no cause."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from typing import Any

import pytest
from golden_files import check
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_samples import recording
from report_samples import HOME, case, metric, report

from agent_eval_results import CaseReport, CauseReport, Recording, RunError, Waited
from agent_eval_results.causes import CaseRuns, find_causes
from agent_eval_results.causes import _values as values
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval_scoring.core.invocation import Invocation, InvocationEvent, InvocationEvents, Raised


@dataclass(frozen=True, kw_only=True)
class Call:
    """A tool call, with its response; None: it did not return."""

    tool: str
    args: dict[str, Any]
    response: dict[str, Any] | None
    agent: str = "home"


OK: dict[str, Any] = {"ok": True}


def call(tool: str, response: dict[str, Any] | None = OK, **args: Any) -> Call:
    return Call(tool=tool, args=args, response=response)


@dataclass(frozen=True)
class Turn:
    """What an agent did, and said."""

    calls: Sequence[Call] = ()
    answer: str | None = "Done."

    def invocation(self) -> Invocation:
        events = []
        for number, made in enumerate(self.calls):
            parts = [Part(function_call=FunctionCall(id=f"c{number}", name=made.tool, args=made.args))]
            if made.response is not None:
                answered = FunctionResponse(id=f"c{number}", name=made.tool, response=made.response)
                parts.append(Part(function_response=answered))
            events += [InvocationEvent(author=made.agent, content=Content(parts=[part])) for part in parts]
        return Invocation(
            user_content=user_message("Please."),
            intermediate_data=InvocationEvents(invocation_events=events),
            final_response=None if self.answer is None else model_message(self.answer),
        )


def turn(*calls: Call, answer: str | None = "Done.") -> Turn:
    return Turn(calls, answer)


Make = Callable[[int], Turn]


@dataclass(kw_only=True)
class Case:
    """A case with its runs on both sides, of one turn each; None: it is not recorded."""

    name: str
    head: Sequence[Turn | None]
    base: Sequence[Turn] = ()
    expected: Sequence[Turn] = ()
    passed: bool = False
    passes: Sequence[bool] | None = None
    """By run; None: as the case."""
    error: RunError | None = None
    """Of every run."""
    metrics: Mapping[str, bool] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def number(self) -> int:
        return int(self.name[-1])

    def report(self) -> CaseReport:
        scores = [(name, [1.0 if passed else 0.0] * len(self.head)) for name, passed in self.metrics.items()]
        measured = [metric(name, *values, threshold=0.5, details=self.details) for name, values in scores]
        made = case(self.name, "passed" if self.passed else "failed", *measured, runs=len(self.head))
        for run, passed in zip(made.runs, self.passes or (), strict=False):
            run.status = "passed" if passed else "failed"
        return made

    def recordings(self, runs: Sequence[Turn | None], error: RunError | None = None) -> list[Recording]:
        def recorded(number: int, made: Turn | None) -> Recording:
            turns = [] if made is None else [made.invocation()]
            ends = {"unfinished": next(iter(turns), None), "error": error} if error is not None else {}
            return recording(self.name, *([] if error is not None else turns), run=number, file=HOME, **ends)

        return [recorded(number, made) for number, made in enumerate(runs)]


def causes_of(cases: Sequence[Case], *, few: bool = False, read: list[str] | None = None) -> list[CauseReport]:
    """The causes; `read` gets the names of the cases whose recordings are read."""
    run = report("failed", [each.report() for each in cases])
    by_id = {made.case_id: each for made, each in zip(run.cases, cases, strict=True)}

    def runs_of(case_id: str) -> CaseRuns:
        found = by_id[case_id]
        if read is not None:
            read.append(found.name)
        return CaseRuns(
            head=found.recordings(found.head, found.error),
            base=found.recordings(found.base),
            expected=[each.invocation() for each in found.expected],
        )

    return find_causes(run, runs_of, few=few)


def broken(
    count: int, good: Make, bad: Callable[[int], Turn | None], *, passing: int = 8, runs: int = 1, **more: Any
) -> list[Case]:
    """Failing cases that do `bad` where the base branch does `good`, and passing ones that do what it does."""
    failing = [Case(name=f"bad{n}", head=[bad(n)] * runs, base=[good(n)] * runs, **more) for n in range(count)]
    fine = [Case(name=f"good{n}", head=[good(n)] * runs, base=[good(n)] * runs, passed=True) for n in range(passing)]
    return [*failing, *fine]


def lamp(n: int) -> Turn:
    found = call("find", {"devices": [f"lamp{n}"]}, room=f"room {n}")
    return turn(found, call("set", device=f"lamp{n}"), answer=f"Lamp {n} is on now.")


def unanswered(n: int) -> Turn:
    return turn(call("find", None, room=f"room {n}"))


def nothing_found(n: int) -> Turn:
    return turn(call("find", {"devices": []}, room=f"room {n}"), answer=f"No lamp {n} here.")


TABLE: dict[str, Make] = {
    "tool-empty": nothing_found,
    "tool-error": lambda n: turn(call("find", {"error": f"no room '{n}'"}, room=f"room {n}"), answer=f"Sorry {n}."),
    "tool-response": lambda n: turn(
        call("find", {"devices": [f"fan{n}"]}, room=f"room {n}"), call("set", device=f"fan{n}"), answer=f"Fan {n}."
    ),
    "call-argument": lambda n: turn(
        call("find", {"devices": [f"lamp{n}"]}, place=f"room {n}"), *lamp(n).calls[1:], answer="?"
    ),
    "call-missing": lambda n: turn(*lamp(n).calls[1:], answer=f"Lamp {n} is on."),
    "call-extra": lambda n: turn(lamp(n).calls[0], call("check"), *lamp(n).calls[1:], answer=f"Lamp {n}."),
    "answer": lambda n: turn(*lamp(n).calls, answer="I must not say."),
    "answer-change": lambda n: turn(*lamp(n).calls, answer=f"Lamp {n} is on."),
}


def without_base(bad: Make, *, some: bool = False) -> list[Case]:
    """Expectations count instead. A case need not expect every call."""
    cases = broken(4, lamp, bad)
    for each in cases:
        named = lamp(each.number % 4)
        each.base, each.expected = (), [replace(named, calls=named.calls[some and not each.number % 2 :])]
    return cases


# -- shapes of breaks, each with the claim that is made of it


def handed_over(to: str | None) -> Turn:
    if to is None:
        return turn(answer="I can't do that.")
    done = replace(call("find", {"devices": ["x"]}), agent=to)
    return turn(call("transfer_to_agent", {"result": None}, agent_name=to), done)


def visa(n: int) -> Turn:
    return turn(
        call("rules", {"stay": f"{n} days", "kind": "tourist visa"}, country=f"land {n}"),
        call("fee", {"euros": 10 * n}, country=f"land {n}"),
        answer=f"You may stay {n} days, the fee is {10 * n} euros.",
    )


def no_fee(n: int) -> Turn:
    return turn(visa(n).calls[0], answer=f"You may stay {n} days.")


def longer(n: int) -> Call:
    return call("rules", {"stay": f"{n} days at most", "kind": "tourist visa"}, country=f"land {n}")


def logged(made: Turn, response: dict[str, Any]) -> Turn:
    return replace(made, calls=[call("log", response), *made.calls])


def device(name: str, answer: str) -> Turn:
    return turn(call("find", {"device": name}), call("set", device=name), answer=answer)


def asked(n: int, at: int = 0, answer: str = "") -> Turn:
    return turn(call("find", {"devices": [f"lamp{n}"]}, at=at), answer=answer or f"Lamp {n} is on now.")


def of_product(n: int, answer: str = "We have it.", **facts: Any) -> Turn:
    return turn(call("product", {"sku": f"s{n}", **facts}), answer=answer)


def at_random(n: int) -> Turn:
    number, second = random.getrandbits(64), random.randint(10, 59)
    return turn(call("find", id=f"{number:016x}", at=f"2026-01-0{n + 1}T10:00:{second}Z"))


def heat(n: int) -> Turn:
    return turn(call("heat", {"target": n}, room=f"room {n}"), answer=f"It is {n} degrees.")


def cold(n: int) -> Turn:
    return turn(call("heat", {"error": "no such room"}, room=f"room {n}"), answer="No.")


CLAIMS: dict[str, Sequence[Case]] = {
    "a hand-over to another agent": broken(4, lambda n: handed_over("lights"), lambda n: handed_over("heat")),
    "a hand-over to none": broken(4, lambda n: handed_over("lights"), lambda n: handed_over(None)),
    "a response with one more name hides nothing": broken(
        5,
        lambda n: turn(call("rules", {"days": n}), call("fee", {"euros": n}), answer=f"{n} euros"),
        lambda n: turn(call("rules", {"days": n, "checked": True}), answer="There are rules."),
    ),
    "a harmless change that is quoted hides no missing call": broken(
        5, visa, lambda n: turn(longer(n), answer=f"You may stay {n} days at most.")
    ),
    "nor other words": broken(
        5,
        visa,
        lambda n: turn(
            longer(n), visa(n).calls[1], answer=f"Tourists may remain {n} days at most and pay {10 * n} euros for it."
        ),
    ),
    "a tool of which nothing was used may return nothing": broken(
        5, lambda n: logged(visa(n), OK), lambda n: logged(no_fee(n), {})
    ),
    "the same words beside others are one cause": broken(
        8,
        lambda n: replace(visa(n), answer=f"For you: {visa(n).answer}"),
        lambda n: replace(visa(n), answer=f"{visa(n).answer} Kind regards, {'your ' * (n % 2)}visa team"),
    ),
    "what differs between runs of the base is noise": [
        replace(each, base=[asked(each.number, at) for at in (0, 1, 2)])
        for each in broken(4, asked, lambda n: asked(n, 9, "I must not say."))
    ],
    "a value that passing cases do not use is no evidence against it": [
        *broken(
            4,
            lambda n: of_product(n, f"It costs {10 + n} euros.", price=10 + n),
            lambda n: of_product(n, "It costs some euros."),
            passing=0,
        ),
        *(Case(name=f"q{n}", head=[of_product(n)], base=[of_product(n, price=10 + n)], passed=True) for n in range(12)),
    ],
    "ids and times are no difference": broken(4, at_random, at_random, passing=0),
    "an answer needs two expected ones": broken(
        6, lambda n: turn(answer="Lamps, fans and heating."), lambda n: turn(answer="No.")
    ),
    "new words from a response are a symptom": broken(6, lamp, lambda n: replace(lamp(n), answer=f"Lamp {n} true.")),
    "words that only go for others are none": broken(
        6, visa, lambda n: replace(visa(n), answer=" ".join(random.Random(n).sample("abcdefghijklmnopqrstuvwxyz", 9)))
    ),
    "what passing cases have is none, and neither is what follows from it": [
        replace(each, head=[device(f"fan{each.number}", "I must not say.")])
        for each in broken(4, lambda n: device(f"lamp{n}", "Done."), lamp)
    ],
    "two causes": [
        *broken(5, lamp, nothing_found),
        *(replace(each, name=f"heat {each.name}") for each in broken(3, heat, cold, passing=3)),
    ],
}


def instead(n: int) -> Turn:
    """A call in the place of several others."""
    return turn(visa(n).calls[0], call(f"other{n}", {}), answer=visa(n).answer)


def passing_half_of_the_time() -> list[Case]:
    """One passing case has it, too, and one that passes half of the time is in no group."""
    cases = broken(6, lamp, nothing_found, runs=2)
    cases[0].passes, cases[0].head = [True, False], [lamp(0), nothing_found(0)]
    return [*cases, Case(name="none9", head=[nothing_found(9)] * 2, base=[lamp(9)] * 2, passed=True)]


# The least sizes of groups: failing cases, and runs of each.
SIZES = {
    **{
        f"{count} cases of {runs} runs": broken(count, lamp, nothing_found, runs=runs)
        for count, runs in ((2, 1), (3, 1), (2, 2), (1, 3))
    },
    **{
        f"{count} cases of {runs} runs, without a call": broken(count, lamp, TABLE["call-missing"], runs=runs)
        for count, runs in ((3, 1), (4, 1), (2, 2), (3, 2))
    },
    **{f"{count} cases with another call": broken(count, visa, instead, runs=2) for count in (3, 4)},
    "a passing case and one that passes half of the time": passing_half_of_the_time(),
}


# -- errors

IN_ADK = '  File "/venv/lib/python3.11/site-packages/google/adk/tools.py", line 5, in run\n    return await f()\n'
IN_AGENT = '  File "/home/dev/repo/home_automation/{file}", line {line}, in {function}\n    return ROOMS[room]\n'


def raised(*frames: tuple[str, str, int], error: str = "KeyError: 'kitchen'", **more: Any) -> RunError:
    """An exception in these functions of the agent: name, file, and line."""
    own = "".join(IN_AGENT.format(function=function, file=file, line=line) for function, file, line in frames)
    text = f"Traceback (most recent call last):\n{IN_ADK}{own}{error}\n"
    return RunError(kind="agent-exception", owner="agent", message="503", **{"traceback": text, "turn": 0, **more})


def late(waited: Waited | None) -> RunError:
    return RunError(kind="deadline", owner="agent", message="The turn did not end", turn=0, waited=waited)


FIND, MODEL = ("find", "tools.py", 30), ("generate", "model.py", 5)
TOOLS = "home_automation/tools.py"
AS_DATA = Raised(type="KeyError", file=TOOLS, line=33, symbol="find")


NOT_FOUND, AT = "ValueError: Tool 'find' not found", {"file": TOOLS, "line": 7, "symbol": "find"}
ERRORS: dict[str, tuple[Callable[[int], Turn | None], RunError]] = {
    "in a turn that is not recorded": (lambda n: None, raised(FIND)),
    "as data": (unanswered, raised(traceback=None, raised=AS_DATA)),
    "in an expression": (unanswered, raised(FIND, ("<genexpr>", "tools.py", 40))),
    "of ADK": (unanswered, raised(error=NOT_FOUND)),
    # It may follow from another one in a turn that nobody saw.
    "of the model, nobody knows why": (lambda n: None, raised(MODEL)),
    "of the model, after nothing was found": (lambda n: replace(nothing_found(n), answer=None), raised(MODEL)),
    # An outage is no cause, of the agent's own model either.
    "an outage of the agent's model": (lambda n: turn(lamp(n).calls[0]), raised(MODEL, error="ServerError: 503")),
    "an outage": (lambda n: None, RunError(kind="provider-unavailable", owner="provider", message="503", turn=0)),
    "waiting for a tool": (unanswered, late(Waited(kind="tool", name="find", seconds=4.04, **AT))),
    "its process did not respond": (unanswered, late(Waited())),
    "waiting for the model": (unanswered, late(Waited(kind="model", name="a-large", seconds=60.0))),
    "waiting, nobody knows for what": (unanswered, late(None)),
}


def slow(several: bool) -> list[Case]:
    """Deadlines of several tools are a slow machine."""
    cases = broken(8, lamp, unanswered)
    for each in cases[:8]:
        each.error = late(Waited(kind="tool", name=f"find{each.number % 2 * several}", seconds=4.0))
    return cases


# -- criteria

RUBRICS = "rubric_based_final_response_quality_v1"


def by_rubrics(*rubrics: str) -> list[Case]:
    cases = broken(4, lamp, lamp, metrics={RUBRICS: False})
    for each in cases[:4]:
        said = {"subject": rubrics[each.number % 2], "score": 0.0, "verdict": "no"}
        each.details = {"judgements": [{"subject": "polite", "score": 1.0, "verdict": "yes"}, said]}
    return cases


def without_fee(n: int) -> Turn:
    return turn(visa(n).calls[0], answer=f"Tourists may remain there for {n} days.")


def with_free(named: int) -> list[Case]:
    """A passing case that is not scored by a call is no evidence against it."""
    cases = broken(5, visa, no_fee, passing=3)
    for n in range(4):
        expected = [replace(visa(n), calls=visa(n).calls[:named])]
        cases.append(Case(name=f"free{n}", head=[no_fee(n)], base=[visa(n)], expected=expected, passed=True))
    return cases


def priced(n: int, price: int) -> Turn:
    cost = f"{price + n / 2} USD"
    return turn(call("price", {"cost": cost}, item=f"i{n}"), call("respond", text=f"Item {n} is {cost}."), answer=None)


METRICS = [
    {"tool_trajectory_avg_score": False, "response_match_score": True},
    {"tool_trajectory_avg_score": True, "response_match_score": False},
    {"tone_of_ours": False},
]
PAGE = {
    **{code: broken(4, lamp, bad) for code, bad in TABLE.items()},
    **{f"{code}, without a base": without_base(TABLE[code]) for code in list(TABLE) if code != "tool-response"},
    "without a base, some calls expected": without_base(nothing_found, some=True),
    **CLAIMS,
    **SIZES,
    **{f"error: {name}": broken(4, lamp, bad, error=error) for name, (bad, error) in ERRORS.items()},
    **{f"error: of {'two tools' if several else 'a tool'}": slow(several) for several in (True, False)},
    "error: in two cases": broken(2, unanswered, unanswered, error=raised(FIND)),
    "a full stop after a passed value": broken(4, lambda n: priced(n, 10), lambda n: priced(n, 12)),
    "two criteria": broken(4, lamp, lamp, metrics={"tone": False, "response_match_score": False}),
    "a rubric": by_rubrics("friendly", "friendly"),
    "two rubrics": by_rubrics("friendly", "short"),
    **{f"failed by {metrics}": broken(5, visa, without_fee, metrics=metrics) for metrics in METRICS},
    **{f"{named} calls expected of cases that pass without": with_free(named) for named in (1, 2)},
}


def test_find_causes__on_a_page_and_in_any_order() -> None:
    page = []
    for name, cases in PAGE.items():
        found = causes_of(cases)
        page += [f"# {name}"]
        for each in found:
            facts = each.data.model_dump(mode="json", exclude_defaults=True)
            counts = ((side.having, side.total) for side in (each.failing, each.passing, each.base) if side)
            page.append(f"{each.code} {facts} {[*counts]} {each.message}")
            example = each.example
            page.append(f"  in {', '.join(case_id.rpartition(':')[2] for case_id in each.cases)}")
            page.append(f"  e.g. {example.case_id}, run {example.run}, turn {example.turn}, call {example.call}")
        others = causes_of(random.Random(1).sample(cases, len(cases)))
        counted = [{(of.code, *sorted(of.cases), str(of.passing)) for of in side} for side in (found, others)]
        assert counted[0] == counted[1]
    check("golden_causes_found.txt", "\n".join(page) + "\n")


@pytest.mark.parametrize("code", TABLE)
def test_find_causes__of_one_case_only_for_who_asks_for_few(code: str) -> None:
    cases = broken(1, lamp, TABLE[code])
    assert causes_of(cases) == []
    found = causes_of(cases, few=True)
    assert code in {each.code for each in found} or code == "answer-change"
    assert all(each.few and each.cases[0].endswith(":bad0") for each in found), found


def test_find_causes__a_response_that_no_answer_shows_and_another_type() -> None:
    def made(days: float, note: str) -> Make:
        return lambda n: turn(call("plan", {"days": days, "note": note}), answer=f"Trip {n}: {days} days")

    for good, bad in (
        (made(4, "a"), made(4.0, "a")),
        (made(4, "a"), lambda n: turn(*made(4, "b")(n).calls, answer="?")),
    ):
        found = causes_of(broken(1, good, bad), few=True)
        assert [(each.code, each.data.tool) for each in found][-1] == ("tool-response", "plan")
        again = causes_of(
            [replace(each, head=[*each.head, *each.head], passes=[False, True]) for each in broken(1, good, bad)],
            few=True,
        )
        assert again == [], "every run shows it"


def test_find_causes__the_example_is_easy_to_type() -> None:
    cases = broken(4, lamp, nothing_found)
    for each, name in zip(cases, ("客房灯1", "a-long-name2", "short3", "longer-name4"), strict=False):
        each.name = name
    [found] = causes_of(cases)
    assert found.example.case_id.endswith(":short3")


@pytest.mark.parametrize(("showing", "counts"), [(8, True), (10, False)])
def test_find_causes__of_many_passing_cases_2000_are_read__and_stand_for_all(showing: int, counts: bool) -> None:
    """Five of six, so 10 speak against a difference as 12 do: too many beside 40 failing cases."""
    fine = [Case(name=f"good{n}", head=[lamp(n)], base=[lamp(n)], passed=True) for n in range(2_400)]
    for n in range(showing):
        fine[6 * n].head = [TABLE["call-missing"](n)]
    read: list[str] = []
    found = causes_of([*fine, *broken(40, lamp, TABLE["call-missing"], passing=0)], read=read)
    assert sum(name.startswith("good") for name in read) == 2_000
    counted = [(each.passing.having, each.passing.total) for each in found if each.code == "call-missing"]
    assert counted == [(showing, 2_000)] * counts


# -- what broke, beside what is harmless, and noise


def other_stay(n: int) -> Turn:
    stay = call("rules", {"stay": f"{n + 50} days", "kind": "tourist visa"}, country=f"land {n}")
    return turn(stay, visa(n).calls[1], answer=f"You may stay {n + 50} days, the fee is {10 * n} euros.")


def other_country(n: int) -> Turn:
    rules, fee = visa(n).calls
    return turn(call("rules", rules.response, country=f"LAND {n}", lang="en"), fee, answer=f"You may stay {n} days.")


PLANTED: dict[str, Make] = {
    "call-missing": no_fee,
    "tool-empty": lambda n: turn(call("rules", {}, country=f"land {n}"), answer=f"I know nothing about {n}."),
    "tool-response": other_stay,
    "answer-change": lambda n: replace(
        visa(n), answer=f"Tourists may remain there for {n} days and pay {10 * n} euros."
    ),
    "call-argument": other_country,
}


def with_response(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Turn], Turn]:
    def harmless(made: Turn) -> Turn:
        calls = (replace(each, response=change(each.response)) if each.response else each for each in made.calls)
        return replace(made, calls=[*calls])

    return harmless


def of_kind(kind: str) -> Callable[[Turn], Turn]:
    return with_response(lambda response: {**response, "kind": kind} if "kind" in response else response)


HARMLESS: dict[str, Callable[[Turn], Turn]] = {
    "a name more": with_response(lambda response: {**response, "checked": "by the desk"}),
    "a time": with_response(lambda response: {**response, "at": random.random()}),
    "a flag": with_response(lambda response: {"fresh": True, **response}),
    "other order": with_response(lambda response: dict(reversed(response.items()))),
    "a full stop": with_response(
        lambda response: {k: f"{v}." if isinstance(v, str) else v for k, v in response.items()}
    ),
    "a capital": of_kind("Tourist visa"),
    "an unused value": of_kind("none"),
    "spaces": lambda made: replace(made, answer=(made.answer or "").replace(" ", "  ")),
}


@pytest.mark.parametrize("code", PLANTED)
@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("number", [1, 2])
def test_find_causes__harmless_changes_do_not_change_the_claim(code: str, everywhere: bool, number: int) -> None:
    [plain] = causes_of(broken(5, visa, PLANTED[code], passing=5))
    assert plain.code == code
    for harmless in combinations(HARMLESS, number):
        cases = broken(5, visa, PLANTED[code], passing=5)
        for each, name in product(cases, harmless):
            if everywhere or not each.passed:
                each.head = [made and HARMLESS[name](made) for made in each.head]
        found = [(cause.code, cause.cases, cause.data.tool, cause.data.names) for cause in causes_of(cases)]
        assert found == [(plain.code, plain.cases, plain.data.tool, plain.data.names)], harmless


@st.composite
def noisy_cases(draw: st.DrawFn) -> list[Case]:
    """Cases that fail independently, each in its own way, and passing ones that are like the base branch."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    cases = broken(0, lamp, lamp, passing=14)
    for n in range(draw(st.integers(2, 6))):
        first, second = lamp(n).calls
        word = f"w{rng.getrandbits(40)}x"
        ways = [
            turn(first, second, answer=f"Lamp {n} {word}."),
            turn(call("find", first.response, room=word), second, answer=f"Lamp {n} is on now."),
            turn(call("find", {"devices": [word]}, **first.args), second, answer=f"Lamp {n} is on now."),
            turn(first, second, call(f"tool_{word}", {"ok": 1}), answer=f"Lamp {n} is on now."),
        ]
        cases.append(Case(name=f"noise{n}", head=[rng.choice(ways)], base=[lamp(n)]))
    return cases


def test_find_causes__a_tool_that_varies_on_the_base_branch_is_no_cause_of_few_cases() -> None:
    odd = random_tool(1, random.Random(1))
    for others, is_found in (([visa(1)] * 4, True), ([visa(1)] * 3 + [odd], False)):
        bad = Case(name="bad", head=[random_tool(2, random.Random(3))], base=[visa(2)] * 5)
        good = Case(name="good", head=[visa(1)], base=[visa(1), *others], passed=True)
        same = [Case(name=f"same{n}", head=[visa(n)], base=[visa(n)] * 2, passed=True) for n in range(3, 9)]
        codes = {cause.code for cause in causes_of([bad, good, *same], few=True)}
        assert ("tool-response" in codes) is is_found


def test_find_causes__a_call_that_the_case_expects_is_no_cause() -> None:
    """The base branch's only run happened to leave it out."""
    words = ["lamp", "sorry", "maybe", "later", "nothing"]
    cases = [
        Case(name=f"bad{n}", head=[replace(visa(n), answer=words[n])], base=[no_fee(n)], expected=[visa(n)])
        for n in range(5)
    ]
    assert [cause.code for cause in causes_of(cases)] == []


@given(noisy_cases(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_find_causes__noise_has_no_cause(cases: list[Case], rng: random.Random) -> None:
    found = causes_of(cases)
    # Three changed responses of one tool may be one change; four are what no rule can tell from one.
    assert all(len(cause.cases) >= 4 for cause in found)
    rng.shuffle(cases)
    assert {frozenset(cause.cases) for cause in causes_of(cases)} == {frozenset(cause.cases) for cause in found}


# -- an unchanged agent that is noisy on both sides

OFTEN = 0.4
"""How often a step of it is another than expected."""


def other_answers(n: int, rng: random.Random, often: float = OFTEN) -> Turn:
    said = rng.choice(["I can't help with that.", "Sorry, please try again."])
    return replace(visa(n), answer=said) if rng.random() < often else visa(n)


def skipped_calls(n: int, rng: random.Random, often: float = OFTEN) -> Turn:
    calls = [each for each in visa(n).calls if rng.random() > often]
    made = {each.tool for each in calls}
    stay = f"You may stay {n} days" if "rules" in made else "I don't know how long you may stay"
    return turn(*calls, answer=f"{stay}, " + (f"the fee is {10 * n} euros." if "fee" in made else "nor the fee."))


def other_arguments(n: int, rng: random.Random, often: float = OFTEN) -> Turn:
    def asked_for(each: Call) -> Call:
        return replace(each, args={"country": rng.choice([f"LAND {n}", f"the land {n}"])})

    return replace(visa(n), calls=[asked_for(each) if rng.random() < often else each for each in visa(n).calls])


def random_tool(n: int, rng: random.Random, often: float = 1.0) -> Turn:
    fee = rng.randrange(5, 500) if rng.random() < often else 10 * n
    answer = f"You may stay {n} days, the fee is {fee} euros."
    return turn(visa(n).calls[0], call("fee", {"euros": fee}, country=f"land {n}"), answer=answer)


Noise = Callable[..., Turn]
NOISE: Sequence[Noise] = (other_answers, skipped_calls, other_arguments, random_tool)


def claims_of_noise(
    noise: Noise, runs: int, rng: random.Random, *, on_base: int = 0, often: float | None = None, few: bool = False
) -> list[CauseReport]:
    """What is claimed of a run of 16 cases against another one, of the same agent; `on_base`: its runs, if others."""
    make = partial(noise, rng=rng, **({} if often is None else {"often": often}))
    cases = []
    for n in range(1, 17):
        head, base = [make(n) for _ in range(runs)], [make(n) for _ in range(on_base or runs)]
        passes = [each == visa(n) for each in head]
        case = Case(name=f"c{n:02d}", head=head, base=base, expected=[visa(n)], passed=all(passes), passes=passes)
        cases.append(case)
    return causes_of(cases, few=few)


@pytest.mark.parametrize("noise", NOISE)
def test_find_causes__what_the_base_branch_does_as_well_is_noise(noise: Noise) -> None:
    """`benchmarks/cause_noise.py` counts how often."""
    rng = random.Random(1)
    assert [each.code for _ in range(6) for each in claims_of_noise(noise, 1, rng)] == []


@given(st.from_regex(values._CHANGING))
def test_plain_text__what_changes_from_run_to_run_is_looked_for(text: str) -> None:
    assert values._MAY_CHANGE.search(text)
    assert re.search("<(id|time)>", values.plain_text(text))
