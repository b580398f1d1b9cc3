"""What failing cases have in common: small runs, one table a code, and that noise has no cause."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording_samples import recording
from report_samples import HOME, case, metric, report

from agent_eval.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval.core.invocation import Invocation, InvocationEvent, InvocationEvents, Raised
from agent_eval.gate.causes import CaseRuns, find_causes
from agent_eval.results import CaseReport, CauseReport, Place, Recording, RunError, Waited


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


def causes_of(cases: Sequence[Case]) -> list[CauseReport]:
    run = report("failed", [each.report() for each in cases])
    by_id = {made.case_id: each for made, each in zip(run.cases, cases, strict=True)}

    def runs_of(case_id: str) -> CaseRuns:
        found = by_id[case_id]
        return CaseRuns(
            head=found.recordings(found.head, found.error),
            base=found.recordings(found.base),
            expected=[each.invocation() for each in found.expected],
        )

    return find_causes(run, runs_of)


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


TABLE: dict[str, tuple[Make, dict[str, Any]]] = {
    "tool-empty": (
        nothing_found,
        {"tool": "find", "actual": '{"devices": []}', "expected": '{"devices": ["lamp0"]}', "agent": "home"},
    ),
    "tool-error": (
        lambda n: turn(call("find", {"error": f"no room '{n}'"}, room=f"room {n}"), answer=f"Sorry {n}."),
        {"tool": "find", "actual": "no room '0'", "expected": '{"devices": ["lamp0"]}'},
    ),
    "tool-response": (
        lambda n: turn(
            call("find", {"devices": [f"fan{n}"]}, room=f"room {n}"), call("set", device=f"fan{n}"), answer=f"Fan {n}."
        ),
        {"tool": "find", "names": ["devices"], "actual": '["fan0"]', "expected": '["lamp0"]'},
    ),
    "call-argument": (
        lambda n: turn(call("find", {"devices": [f"lamp{n}"]}, place=f"room {n}"), *lamp(n).calls[1:], answer="?"),
        {"tool": "find", "names": ["place", "room"], "renamed": True, "new": ["place"], "gone": ["room"]},
    ),
    "call-missing": (
        lambda n: turn(*lamp(n).calls[1:], answer=f"Lamp {n} is on."),
        {"tool": "find", "agent": "home"},
    ),
    "call-extra": (
        lambda n: turn(lamp(n).calls[0], call("check"), *lamp(n).calls[1:], answer=f"Lamp {n}."),
        {"tool": "check"},
    ),
    "answer": (
        lambda n: turn(*lamp(n).calls, answer="I must not say."),
        {"actual": "I must not say.", "expected": "Lamp 0 is on now."},
    ),
    "answer-change": (lambda n: turn(*lamp(n).calls, answer=f"Lamp {n} is on."), {"gone": ["now"], "new": []}),
}


@pytest.mark.parametrize("code", TABLE)
def test_find_causes__each_code_with_a_base_in_any_order(code: str) -> None:
    bad, data = TABLE[code]
    cases = broken(4, lamp, bad)
    [found] = causes_of(cases)
    assert found.code == code
    assert found.data.model_dump().items() >= data.items()
    assert (found.failing.total, found.failing.having) == (4, 4)
    assert (found.passing.total, found.passing.having) == (8, 0)
    assert found.base is not None and (found.base.total, found.base.having) == (4, 0)
    assert found.example.case_id == f"{HOME}:bad0"
    assert found.message == ""

    [other] = causes_of(random.Random(1).sample(cases, len(cases)))
    assert sorted(found.cases) == sorted(other.cases) == sorted(f"{HOME}:bad{n}" for n in range(4))
    assert (found.code, found.passing, found.failing) == (other.code, other.passing, other.failing)


@pytest.mark.parametrize(
    ("code", "some"),
    [
        *((code, False) for code in ("tool-empty", "tool-error", "call-argument", "call-missing", "call-extra")),
        ("tool-empty", True),  # A case need not expect every call.
    ],
)
def test_find_causes__without_a_base_expectations_count(code: str, some: bool) -> None:
    cases = broken(4, lamp, TABLE[code][0])
    for each in cases:
        named = lamp(each.number % 4)
        each.base, each.expected = (), [replace(named, calls=named.calls[some and not each.number % 2 :])]
    [found] = causes_of(cases)
    assert (found.code, found.base, len(found.cases)) == (code, None, 4)


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


CLAIMS: dict[str, tuple[Sequence[Case], dict[str, Any] | None]] = {
    "a hand-over to another agent": (
        broken(4, lambda n: handed_over("lights"), lambda n: handed_over("heat")),
        {"code": "sub-agent", "expected": "lights", "actual": "heat", "agent": "home"},
    ),
    "a hand-over to none": (
        broken(4, lambda n: handed_over("lights"), lambda n: handed_over(None)),
        {"code": "sub-agent", "expected": "lights", "actual": None},
    ),
    "a response with one more name hides nothing": (
        broken(
            5,
            lambda n: turn(call("rules", {"days": n}), call("fee", {"euros": n}), answer=f"{n} euros"),
            lambda n: turn(call("rules", {"days": n, "checked": True}), answer="There are rules."),
        ),
        {"code": "call-missing", "tool": "fee"},
    ),
    "a harmless change that is quoted hides no missing call": (
        broken(5, visa, lambda n: turn(longer(n), answer=f"You may stay {n} days at most.")),
        {"code": "call-missing", "tool": "fee"},
    ),
    "nor other words": (
        broken(
            5,
            visa,
            lambda n: turn(
                longer(n),
                visa(n).calls[1],
                answer=f"Tourists may remain {n} days at most and pay {10 * n} euros for it.",
            ),
        ),
        {"code": "answer-change"},
    ),
    "a tool of which nothing was used may return nothing": (
        broken(5, lambda n: logged(visa(n), OK), lambda n: logged(no_fee(n), {})),
        {"code": "call-missing", "tool": "fee"},
    ),
    "the same words beside others are one cause": (
        broken(
            8,
            lambda n: replace(visa(n), answer=f"For you: {visa(n).answer}"),
            lambda n: replace(visa(n), answer=f"{visa(n).answer} Kind regards, {'your ' * (n % 2)}visa team"),
        ),
        {"code": "answer-change"},
    ),
    "what differs between runs of the base is noise": (
        [
            replace(each, base=[asked(each.number, at) for at in (0, 1, 2)])
            for each in broken(4, asked, lambda n: asked(n, 9, "I must not say."))
        ],
        {"code": "answer"},
    ),
    "a value that passing cases do not use is no evidence against it": (
        [
            *broken(
                4,
                lambda n: of_product(n, f"It costs {10 + n} euros.", price=10 + n),
                lambda n: of_product(n, "It costs some euros."),
                passing=0,
            ),
            *(
                Case(name=f"q{n}", head=[of_product(n)], base=[of_product(n, price=10 + n)], passed=True)
                for n in range(12)
            ),
        ],
        {"code": "tool-response", "names": ["price"], "expected": "10"},
    ),
    "ids and times are no difference": (broken(4, at_random, at_random, passing=0), None),
    "an answer needs two expected ones": (
        broken(6, lambda n: turn(answer="Lamps, fans and heating."), lambda n: turn(answer="No.")),
        None,
    ),
    "new words from a response are a symptom": (
        broken(6, lamp, lambda n: replace(lamp(n), answer=f"Lamp {n} true.")),
        None,
    ),
    "words that only go for others are none": (
        broken(
            6,
            visa,
            lambda n: replace(visa(n), answer=" ".join(random.Random(n).sample("abcdefghijklmnopqrstuvwxyz", 9))),
        ),
        None,
    ),
    "what passing cases have is none, and neither is what follows from it": (
        [
            replace(each, head=[device(f"fan{each.number}", "I must not say.")])
            for each in broken(4, lambda n: device(f"lamp{n}", "Done."), lamp)
        ],
        None,
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_find_causes__claims(name: str) -> None:
    cases, expected = CLAIMS[name]
    found = causes_of(cases)
    claims = [{"code": cause.code, **cause.data.model_dump()} for cause in found]
    assert [{key: claim[key] for key in expected or ()} for claim in claims] == [expected] * (expected is not None)
    assert all(len(cause.cases) == sum(not each.passed for each in cases) for cause in found)


def test_find_causes__two_causes() -> None:
    def heat(n: int) -> Turn:
        return turn(call("heat", {"target": n}, room=f"room {n}"), answer=f"It is {n} degrees.")

    def cold(n: int) -> Turn:
        return turn(call("heat", {"error": "no such room"}, room=f"room {n}"), answer="No.")

    other = [replace(each, name=f"heat {each.name}") for each in broken(3, heat, cold, passing=3)]
    first, second = causes_of([*broken(5, lamp, nothing_found), *other])
    assert (first.code, len(first.cases)) == ("tool-empty", 5)
    assert (second.code, len(second.cases)) == ("tool-error", 3)


def instead(n: int) -> Turn:
    """A call in the place of several others."""
    return turn(visa(n).calls[0], call(f"other{n}", {}), answer=visa(n).answer)


@pytest.mark.parametrize(
    ("good", "bad", "count", "runs", "code"),
    [
        (lamp, nothing_found, 2, 1, None),
        (lamp, nothing_found, 3, 1, "tool-empty"),
        (lamp, nothing_found, 2, 2, "tool-empty"),
        (lamp, TABLE["call-missing"][0], 3, 1, None),
        (lamp, TABLE["call-missing"][0], 4, 1, "call-missing"),
        (lamp, TABLE["call-missing"][0], 2, 2, None),
        (lamp, TABLE["call-missing"][0], 3, 2, "call-missing"),
        (lamp, nothing_found, 1, 3, None),
        (visa, instead, 3, 2, None),
        (visa, instead, 4, 2, "call-missing"),
    ],
)
def test_find_causes__least_sizes_of_groups(good: Make, bad: Make, count: int, runs: int, code: str | None) -> None:
    assert [found.code for found in causes_of(broken(count, good, bad, runs=runs))] == ([code] if code else [])


def test_find_causes__one_passing_case_may_have_it_and_one_that_passes_half_of_the_time_is_in_no_group() -> None:
    cases = broken(6, lamp, nothing_found, runs=2)
    cases[0].passes, cases[0].head = [True, False], [lamp(0), nothing_found(0)]
    cases.append(Case(name="none9", head=[nothing_found(9)] * 2, base=[lamp(9)] * 2, passed=True))
    [found] = causes_of(cases)
    assert (found.failing.total, found.failing.having, len(found.cases)) == (6, 5, 5)
    assert (found.passing.having, found.passing.total) == (1, 9)


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


def key_error(line: int) -> tuple[str, str, str, Place]:
    return "exception", "KeyError", "find", Place(file=TOOLS, first=line, last=line, symbol="find")


@pytest.mark.parametrize(
    ("bad", "error", "expected"),
    [
        (lambda n: None, raised(FIND), key_error(30)),  # The turn that raised is not recorded.
        (unanswered, raised(traceback=None, raised=AS_DATA), key_error(33)),
        (unanswered, raised(FIND, ("<genexpr>", "tools.py", 40)), key_error(40)),
        (unanswered, raised(error="ValueError: Tool 'find' not found"), ("exception", "ValueError", "find", None)),
        # It may follow from another one in a turn that nobody saw.
        (lambda n: None, raised(MODEL), None),
        (lambda n: replace(nothing_found(n), answer=None), raised(MODEL), ("tool-empty", "", "find", None)),
        # An outage is no cause, of the agent's own model either.
        (lambda n: turn(lamp(n).calls[0]), raised(MODEL, error="ServerError: 503"), None),
        (lambda n: None, RunError(kind="provider-unavailable", owner="provider", message="503", turn=0), None),
        (
            unanswered,
            late(Waited(kind="tool", name="find", seconds=4.04, file=TOOLS, line=7, symbol="find")),
            ("deadline", "", "find", Place(file=TOOLS, first=7, symbol="find")),
        ),
        (unanswered, late(Waited()), ("deadline", "", "find", None)),  # Its process did not respond.
        (unanswered, late(Waited(kind="model", name="a-large", seconds=60.0)), None),
        (unanswered, late(None), None),
    ],
)
def test_find_causes__errors(
    bad: Callable[[int], Turn | None], error: RunError, expected: tuple[str, str, str, Place | None] | None
) -> None:
    found = causes_of(broken(4, lamp, bad, error=error))
    claims = [(cause.code, cause.data.exception, cause.data.tool, cause.data.place) for cause in found]
    assert claims == ([] if expected is None else [expected])
    assert all(len(cause.cases) == 4 for cause in found)
    waited = error.waited.seconds if error.waited is not None else 0
    assert all(cause.data.seconds == (round(waited, 1) or None) for cause in found)


def test_find_causes__deadlines_of_several_tools_are_a_slow_machine() -> None:
    cases = broken(8, lamp, unanswered)
    for several, causes in ((True, 0), (False, 1)):
        for each in cases[:8]:
            each.error = late(Waited(kind="tool", name=f"find{each.number % 2 * several}", seconds=4.0))
        assert len(causes_of(cases)) == causes


# -- criteria


def test_find_causes__a_criterion_that_says_no_to_the_same_behaviour() -> None:
    [found] = causes_of(broken(4, lamp, lamp, metrics={"tone": False, "response_match_score": False}))
    assert (found.code, found.data.metric, found.example.call) == ("criterion", "tone", None)


@pytest.mark.parametrize("rubrics", [("friendly", "friendly"), ("friendly", "short")])
def test_find_causes__rubrics_of_a_criterion(rubrics: tuple[str, str]) -> None:
    name = "rubric_based_final_response_quality_v1"
    cases = broken(4, lamp, lamp, metrics={name: False})
    for each in cases[:4]:
        said = {"subject": rubrics[each.number % 2], "score": 0.0, "verdict": "no"}
        each.details = {"judgements": [{"subject": "polite", "score": 1.0, "verdict": "yes"}, said]}
    [found] = causes_of(cases)
    assert found.data.metric == name
    assert found.data.rubric == ("friendly" if len(set(rubrics)) == 1 else "")


@pytest.mark.parametrize(
    ("metrics", "code"),
    [
        ({"tool_trajectory_avg_score": False, "response_match_score": True}, "call-missing"),
        ({"tool_trajectory_avg_score": True, "response_match_score": False}, "answer-change"),
        ({"tone_of_ours": False}, "call-missing"),
    ],
)
def test_find_causes__what_no_failed_metric_looks_at_is_none(metrics: dict[str, bool], code: str) -> None:
    def bad(n: int) -> Turn:
        return turn(visa(n).calls[0], answer=f"Tourists may remain there for {n} days.")

    [found] = causes_of(broken(5, visa, bad, metrics=metrics))
    assert found.code == code


@pytest.mark.parametrize(("named", "found"), [(1, [("call-missing", "fee", 4)]), (2, [])])
def test_find_causes__a_passing_case_that_is_not_scored_by_a_call_is_no_evidence_against_it(
    named: int, found: list[tuple[str, str, int]]
) -> None:
    cases = broken(5, visa, no_fee, passing=3)
    for n in range(4):
        expected = [replace(visa(n), calls=visa(n).calls[:named])]
        cases.append(Case(name=f"free{n}", head=[no_fee(n)], base=[visa(n)], expected=expected, passed=True))
    assert [(cause.code, cause.data.tool, cause.passing.having) for cause in causes_of(cases)] == found


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


@given(noisy_cases(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_find_causes__noise_has_no_cause(cases: list[Case], rng: random.Random) -> None:
    found = causes_of(cases)
    # Three changed responses of one tool may be one change; four are what no rule can tell from one.
    assert all(len(cause.cases) >= 4 for cause in found)
    rng.shuffle(cases)
    assert {frozenset(cause.cases) for cause in causes_of(cases)} == {frozenset(cause.cases) for cause in found}
