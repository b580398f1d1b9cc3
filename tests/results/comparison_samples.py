"""Situations of a pull request, as the comment, the summary, the annotations and the console show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from history_samples import compare, replayed
from report_samples import (
    EVIL,
    HOME,
    MORNING,
    RESPONSE,
    SINGLE,
    TRAJECTORY,
    WITHOUT_REFERENCE,
    case,
    crash,
    efficiency,
    good,
    metric,
    numbered,
    outage,
    report,
    saying,
    turn_of,
    wide,
    wrong_room,
)

from agent_eval_results.data.causes import (
    AgentChange,
    CauseCode,
    CauseCounts,
    CauseData,
    CauseExample,
    CauseReport,
    Place,
)
from agent_eval_results.data.comparison import (
    BaselineReport,
    BaselineStep,
    ChangedAnswer,
    ChangedValue,
    RemovedCases,
    RuleChange,
    RuleChangesReport,
)
from agent_eval_results.data.conversation import ConversationReport, StepReport, TurnReport
from agent_eval_results.data.decision import (
    CaseDecisionReport,
    CaseRunsReport,
    DecisionReasonReport,
    DecisionReport,
    FlakinessReport,
    SuiteTestReport,
)
from agent_eval_results.data.origin import CaseWord
from agent_eval_results.data.report import (
    CaseReport,
    CaseUsageReport,
    Origin,
    ProblemReport,
    Reason,
    RunReport,
    VerdictValue,
)
from agent_eval_results.report.phrases import say
from agent_eval_results.report.views import Links
from agent_eval_scoring.core.recording import RunError

SERVER = "https://github.com"
HEAD = "5f0c1d2e3a4b5c6d7e8f90123456789abcdef012"
BASE = "b45e0ff1c2d3e4f5061728394a5b6c7d8e9f0a1b"
LINKS = Links(
    server_url=SERVER,
    repository="example/repo",
    source_url=f"{SERVER}/example/repo/blob/{HEAD}",
    run_url=f"{SERVER}/example/repo/actions/runs/1234567",
    artifacts=("agent-eval-results",),
)


def baseline(message: str, **facts: Any) -> BaselineReport:
    """What was found of the base branch, or why nothing."""
    return BaselineReport(**{"status": "found", "branch": "main", "wanted_commit": BASE, "message": message, **facts})


FOUND = baseline(
    "The base branch's results come from main at b45e0ff.",
    source="artifact",
    commit=BASE,
    distance=0,
    run_url=f"{SERVER}/example/repo/actions/runs/1234000",
    recorded_at=MORNING - 86_400,
)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a comment is written about."""

    report: RunReport
    links: Links = LINKS
    warnings: Sequence[str] = field(default_factory=tuple)


def identified(cases: Sequence[CaseReport]) -> list[CaseReport]:
    """The cases, telling what they ask and how they are measured."""
    for item in cases:
        item.fingerprint = item.fingerprint or f"asks {item.eval_id}"
        for each in item.metrics:
            each.fingerprint = each.fingerprint or f"measures {each.name}"
    return list(cases)


def pull_request(
    verdict: VerdictValue,
    cases: list[CaseReport],
    base: list[CaseReport] | None = None,
    *,
    blocking: Sequence[CaseReport] = (),
    cost: tuple[float, float] | None = None,
    problems: list[ProblemReport] | None = None,
    reasons: list[Reason] | None = None,
    **facts: Any,
) -> RunReport:
    run_report = report(verdict, identified(cases), problems=problems, reasons=reasons)
    origin = Origin(repository="example/repo", commit="1" * 40, head_commit=HEAD, pull_request=7)
    facts = {"origin": origin, "baseline": FOUND, "gate": "thresholds", **facts}
    run_report = run_report.model_copy(update={**facts, "blocking": [item.case_id for item in blocking]})
    if base is not None:
        before = report("passed", identified(base))
        for sample, spent in zip((run_report, before), cost or (), strict=False):
            sample.case_usage = [
                CaseUsageReport(case_id="x", purpose="safety_v1", model="gemini-2.5-flash", calls=12, cost=spent)
            ]
        run_report.comparison = compare(run_report, before)
    return run_report


Word = tuple[CaseDecisionReport, CaseRunsReport]


def decided(
    outcome: Literal["passed", "failed", "inconclusive"],
    *words: Word,
    extra_runs: int = 0,
    reason: tuple[str, str] | None = None,
    suite: SuiteTestReport | None = None,
) -> DecisionReport:
    """A decision with what it says of cases, by `word_of`."""
    return DecisionReport(
        outcome=outcome,
        alpha=0.05,
        extra_runs=extra_runs,
        cases=[item for item, _ in words],
        runs=[runs for _, runs in words],
        reasons=[DecisionReasonReport(code=reason[0], message=reason[1])] if reason else [],
        suites=[suite] if suite else [],
    )


def word_of(
    sample_case: CaseReport, word: CaseWord, head: tuple[int, int], base: tuple[int, int], **facts: Any
) -> Word:
    """What the statistics say of a case, and its passed and judged runs on both sides."""
    case_id, evidence = sample_case.case_id, f"{head[0]} of {head[1]} now, {base[0]} of {base[1]} on base"
    facts = {"would_decide": "", **facts}
    return (
        CaseDecisionReport(case_id=case_id, metric="pass", word=word, evidence=evidence, **facts),
        CaseRunsReport(case_id=case_id, head_passed=head[0], head_runs=head[1], base_passed=base[0], base_runs=base[1]),
    )


def judged(eval_id: str, *, score: float = 0.33, line: int = 160) -> CaseReport:
    """A case that a model judges."""
    failed = score < 0.8
    evidence = turn_of(
        "Is the front door locked?",
        "politeness: yes\naccuracy: yes\nbrevity: yes",
        "politeness: yes\naccuracy: no\nbrevity: no",
        'accuracy: no (3 of 3 votes): "The answer says that the door is locked; the tool reported UNLOCKED."',
        'brevity: no (2 of 3 votes): "It repeats the question and adds advice nobody asked for."',
        score=score,
    )
    judge = "gemini-2.5-flash"
    by_model = metric(
        "rubric_based_final_response_quality_v1",
        score,
        threshold=0.8,
        evidence={0: [evidence]} if failed else None,
        details={"judge": judge} if failed else None,
    )
    by_model.judge = judge
    return case(eval_id, "failed" if failed else "passed", by_model, line=line)


def fine_cases() -> list[CaseReport]:
    return [
        good("lamp_on", file=SINGLE, line=4),
        good("lamp_off", file=SINGLE, line=31, response=0.8004),
        good("thermostat_up", line=3),
        good("thermostat_in_bedroom", line=48),
        good("good_morning", line=77, response=1.0),
        good("garage_door", line=97),
        good("weather_question", line=120),
        good("good_night", line=140),
    ]


def but(*others: CaseReport) -> list[CaseReport]:
    """The fine cases, with these in the place of their namesakes."""
    instead = {item.eval_id: item for item in others}
    fine = [instead.pop(item.eval_id, item) for item in fine_cases()]
    return [*fine, *instead.values()]


def first_run() -> Situation:
    none_yet = baseline(
        "No run of .github/workflows/evals.yml on main has results for b45e0ff or the 20 commits before it. It exists "
        "once the workflow has run on a push to main.",
        status="none-yet",
    )
    return Situation(report=pull_request("passed", fine_cases(), baseline=none_yet))


def fine() -> Situation:
    return Situation(report=pull_request("passed", fine_cases(), fine_cases()))


def regression() -> Situation:
    thermostat, door = wrong_room(), judged("front_door")
    decision = decided(
        "failed",
        word_of(thermostat, "broken", (0, 7), (10, 10), blocking=True, p_value=0.00012),
        word_of(
            door, "suspicious", (3, 7), (9, 10), p_value=0.118, would_decide="5 more runs of the base would decide"
        ),
        extra_runs=10,
        suite=SuiteTestReport(
            metric="pass", cases=9, drop=0.111, p_value=0.061, p_confirm=0.0004, p_adjusted=0.0008,
            minimum_detectable_drop=0.14, blocking=True,
        ),
    )  # fmt: skip
    base = [*fine_cases(), judged("front_door", score=1.0)]
    return Situation(report=pull_request("failed", but(thermostat, door), base, decision=decision, cost=COST))


def flaky() -> Situation:
    """Two cases failed by chance, of which one did so on the base too."""
    thermostat, morning = wrong_room(), case_that_failed("good_morning")
    before = FlakinessReport(failures=3, runs=10, low=0.1078, high=0.6032, since="9c8b7a6" + "0" * 33)
    decision = decided(
        "passed",
        word_of(thermostat, "flaky as before", (2, 4), (7, 10), p_value=0.98, flakiness=before),
        word_of(morning, "flaky as before", (6, 7), (10, 10), p_value=1.0),
        extra_runs=9,
    )
    head = but(thermostat, morning)
    return Situation(report=pull_request("passed", head, fine_cases(), decision=decision, gate="regressions"))


def fix() -> Situation:
    return Situation(report=pull_request("passed", fine_cases(), but(wrong_room(), crash())))


COST = (0.0421, 0.0398)
"""In dollars, of the pull request and of the base branch."""
GOODS = ("lamp", "chair", "table", "sofa", "shelf", "desk")
SHOP = "evals/price.test.json"


def price(good_: str, number: int, *, broken: bool = False) -> CaseReport:
    """A case of a shop's agent whose tool may be broken."""
    answer = f"The {good_} costs {12 + number} euros today."
    why = ("0 of 6 expected words found (recall 0.00)", f"missing words: the, {good_}, costs, euros, today")
    turn = turn_of(f"What does the {good_} cost?", answer, "Sorry, I could not find out.", *why)
    low = metric(RESPONSE, 0.0, threshold=0.8, evidence={0: [turn]})
    return case(
        f"price_{good_}",
        "failed" if broken else "passed",
        metric(TRAJECTORY, 1.0, threshold=1.0),
        low if broken else metric(RESPONSE, 1.0, threshold=0.8),
        file=SHOP,
        line=4 + 20 * number,
    )


def prices() -> list[CaseReport]:
    return [price(name, n) for n, name in enumerate(GOODS)]


def greetings(count: int = 6) -> list[CaseReport]:
    return [good(f"greet_{n}", file="evals/greet.test.json", line=3 + 12 * n) for n in range(count)]


def of_shop(run_report: RunReport) -> RunReport:
    for file in run_report.files:
        file.agent = "shop"
    return run_report


def shop(verdict: VerdictValue, head: list[CaseReport], base: list[CaseReport] | None = None, **more: Any) -> Situation:
    """A pull request of the shop, which a comparison decides; by default the base branch's cases pass."""
    more = {"gate": "regressions", "decision": decided("passed"), **more}
    before = [*prices(), *greetings()] if base is None else base
    return Situation(report=of_shop(pull_request(verdict, head, before, **more)))


def tool_broken() -> Situation:
    """A tool that always fails: four cases are named by the statistics, two before they had enough runs."""
    head = [price(name, n, broken=True) for n, name in enumerate(GOODS)]
    decision = decided(
        "failed",
        *(word_of(item, "broken", (0, 9), (10, 10), blocking=True) for item in head[:4]),
        *(word_of(item, "suspicious", (0, 6), (7, 7), p_value=0.001) for item in head[4:]),
        extra_runs=47,
        reason=("case-worse", "4 cases are worse than on the base: a, b"),
    )
    return shop("failed", [*head, *greetings()], decision=decision, blocking=head[:4])


def lamp(eval_id: str, number: int, status: Literal["passed", "no devices", "not called"]) -> CaseReport:
    """A case of the home's agent, which looks a device up and switches it."""
    line = 6 + 20 * number
    if status == "passed":
        return good(eval_id, file=HOME, line=line)
    calls = ['find_devices(room="bedroom")', 'set_device_status(device_id="bedroom_lamp", status="off")']
    step = StepReport(call=calls[0], responses=['{"devices": []}'])
    if status == "not called":
        found = '{"devices": [{"device_id": "bedroom_lamp", "room": "bedroom"}]}'
        step = StepReport(call='set_device_status(device_id="lamp", status="off")', responses=[found])
    user, answer, expected = (
        "Turn off the lamp in the bedroom.",
        "I could not find any such device in the bedroom.",
        "The bedroom lamp is now off.",
    )
    said = TurnReport(turn=0, user=user, steps=[step], answer=answer, expected_calls=calls, expected_answer=expected)
    turn = turn_of(user, expected, answer, "1 of 2 calls", "x")
    return case(
        eval_id,
        "failed",
        metric(TRAJECTORY, 0.0, threshold=1.0, evidence={0: [turn]}),
        metric(RESPONSE, 0.4, threshold=0.8, evidence={0: [turn]}),
        line=line,
        conversation=ConversationReport(run=0, turns=[said]),
    )


def cause(
    code: CauseCode, cases: Sequence[CaseReport], places: list[Place], *, call: int, failing: int, **data: Any
) -> CauseReport:
    return CauseReport(
        code=code,
        data=CauseData(**data),
        cases=[item.case_id for item in cases],
        failing=CauseCounts(total=failing, having=len(cases)),
        passing=CauseCounts(total=6, having=1),
        base=CauseCounts(total=len(cases), having=0),
        example=CauseExample(case_id=cases[0].case_id, run=0, turn=0, call=call),
        changed_here=places,
    )


LAMPS = ("bedroom_lamp_off", "fan_on", "list_a_room", "关灯", "消灯", "扇風機", "two_turns", "events", "fan_off")
FIND_DEVICES = Place(file="home_automation/tools.py", first=42, last=47, symbol="find_devices")


def home(head: list[CaseReport], base: list[CaseReport], causes: list[CauseReport], *changes: AgentChange) -> Situation:
    """A pull request that changes the home's agent, and breaks cases by that."""
    run_report = pull_request("failed", [*head, *greetings()], [*base, *greetings()], gate="regressions", blocking=head)
    run_report.causes, run_report.agent_changes = causes, [*changes]
    return Situation(report=run_report)


def changed(code: Literal["tool-source", "instruction"], place: Place, **more: Any) -> AgentChange:
    return AgentChange(code=code, path="home_automation", agent="home_automation", places=[place], **more)


def one_cause() -> Situation:
    """A tool returns nothing in nine cases, and the pull request changes its source."""
    head = [lamp(name, n, "no devices") for n, name in enumerate(LAMPS)]
    values = {
        "actual": '{"devices": []}',
        "expected": '{"devices": [{"device_id": "bedroom_lamp", "room": "bedroom"}]}',
    }
    nothing = cause("tool-empty", head, [FIND_DEVICES], call=0, failing=9, tool="find_devices", **values)
    base = [lamp(name, n, "passed") for n, name in enumerate(LAMPS)]
    return home(head, base, [nothing], changed("tool-source", FIND_DEVICES, tool="find_devices"))


def two_causes() -> Situation:
    """Two causes, and a case that neither of them explains."""
    empty = [lamp(name, n, "no devices") for n, name in enumerate(LAMPS[:3])]
    missing = [lamp(name, n, "not called") for n, name in enumerate(LAMPS[3:6], start=3)]
    base = [*(lamp(name, n, "passed") for n, name in enumerate(LAMPS[:6])), good("thermostat_in_bedroom")]
    instruction = Place(file="home_automation/agent.py", first=15)
    causes = [
        cause("tool-empty", empty, [FIND_DEVICES], call=0, failing=7, tool="find_devices", actual='{"devices": []}'),
        cause("call-missing", missing, [instruction], call=0, failing=7, tool="find_devices"),
    ]
    changes = (
        changed("tool-source", FIND_DEVICES, tool="find_devices"),
        changed("instruction", instruction, removed=1),
    )
    return home([*empty, *missing, wrong_room()], base, causes, *changes)


def most_broken() -> Situation:
    """40 of 46 cases, judged together after three fresh runs of each."""
    head = [price(f"good_{n:02}", n, broken=n < 40) for n in range(46)]
    decision = decided(
        "failed",
        *(word_of(item, "suspicious", (0, 4), (10, 10), p_value=0.0029) for item in head[:40]),
        reason=("suite-worse", "The suite as a whole got worse: 87 points lower"),
        suite=SuiteTestReport(metric="pass", cases=46, drop=0.87, p_value=3e-12, p_adjusted=3e-12, blocking=True),
    )
    return shop("failed", head, [price(f"good_{n:02}", n) for n in range(46)], decision=decision)


NOT_IMPORTED = RunError(
    kind="agent-import",
    owner="agent",
    message="The agent can't be imported: ModuleNotFoundError: No module named 'nothing_there'",
    hint="Correct the import, or add the package of `nothing_there` to the agent's requirements. Importable are the "
    "agent's parent directory, the repository's root and `src`.",
    traceback="Traceback (most recent call last):\n"
    '  File "/github/workspace/shop/agent.py", line 5, in <module>\n    from . import tools\n'
    '  File "/github/workspace/shop/tools.py", line 1, in <module>\n    import nothing_there\n'
    "ModuleNotFoundError: No module named 'nothing_there'\n",
)


def import_error(count: int = 22) -> Situation:
    head = [case(f"price_{n:02}", "failed", file=SHOP, line=4 + n, errors={0: NOT_IMPORTED}) for n in range(count)]
    base = [good(f"price_{n:02}", file=SHOP) for n in range(count)]
    return shop("failed", head, base, decision=None, blocking=head)


def not_evaluated(error: RunError, *, lines: int) -> list[CaseReport]:
    """The cases of the shop, which all met an error of the provider."""
    return [
        case(f"price_{name}", "errored", file=SHOP, line=4 + lines * n, errors={0: error})
        for n, name in enumerate(GOODS)
    ]


UNAVAILABLE = Reason(code="provider-unavailable", message="6 cases could not be evaluated (provider-unavailable)")


def provider_down() -> Situation:
    """A provider's outage in six of twelve cases."""
    error = RunError(
        kind="provider-unavailable",
        owner="provider",
        message="The agent's model provider failed: 503 UNAVAILABLE: The model is overloaded (after 5 attempts).",
        hint="Run the job again; nothing in the pull request caused this.",
        turn=0,
    )
    return shop("inconclusive", [*not_evaluated(error, lines=20), *greetings()], reasons=[UNAVAILABLE])


def unchanged() -> Situation:
    """Nothing got worse, and the notes of old files are nothing for a comment."""
    suite = SuiteTestReport(metric="pass", cases=8, drop=0.0, p_value=1.0, minimum_detectable_drop=0.2)
    old = ProblemReport(severity="notice", code="legacy-eval-set", message="an old form", file=SINGLE, line=1)
    facts: dict[str, Any] = {"gate": "regressions", "cost": COST, "problems": [old]}
    run_report = pull_request("passed", fine_cases(), fine_cases(), decision=decided("passed", suite=suite), **facts)
    assert run_report.comparison is not None
    run_report.comparison.base_records = 10
    return Situation(report=run_report)


def changed_answers() -> Situation:
    """Every case passes, and two say something else."""
    situation = unchanged()
    assert situation.report.comparison is not None
    situation.report.comparison.changed_answers = [
        answers_otherwise(situation.report.cases[0], ("150 thousand", "0 thousand"), ("150", "0")),
        answers_otherwise(situation.report.cases[1], ("open", "OPEN"), *[("21 °C", None)] * 4),
    ]
    return situation


def answers_otherwise(case: CaseReport, *sides: tuple[str, str | None], name: str = "get_sales") -> ChangedAnswer:
    """The first pair is of the answer, the others of a tool's responses."""
    path = "total" if name == "get_sales" else name
    values = [
        ChangedValue(
            kind="response" if at else "answer", turn=0, tool=name * bool(at), path=path, before=old, after=new
        )
        for at, (old, new) in enumerate(sides)
    ]
    names = {"case_id": case.case_id, "file": case.file, "eval_id": case.eval_id}
    return ChangedAnswer(**names, passes=case.status == "passed", runs=1, base_runs=3, values=values)


def improved() -> Situation:
    """One case is fixed by the word of the statistics; another passed by luck, which nobody calls better."""
    base = but(wrong_room(), case_that_failed("good_morning"))
    decision = decided("passed", word_of(base[3], "fixed", (8, 8), (0, 10)), extra_runs=7)
    decision.runs.append(word_of(base[4], "unchanged", (1, 1), (5, 10))[1])
    return Situation(report=pull_request("passed", fine_cases(), base, decision=decision, gate="regressions"))


def too_few_runs() -> Situation:
    head = but(case_that_failed("good_morning"))
    limit = "More runs may decide it: raise `max-extra-runs`"
    word = word_of(head[4], "suspicious", (4, 13), (8, 10), lacks="limit", would_decide=limit)
    reason = Reason(code="budget", message=f"1 suspected regression is undecided: good_morning. {limit}")
    decision = decided("inconclusive", word, extra_runs=12)
    return Situation(
        report=pull_request("inconclusive", head, fine_cases(), decision=decision, gate="regressions", reasons=[reason])
    )


def loosened() -> Situation:
    """Rules that the pull request loosens, and that somebody has accepted."""
    cases = [*prices(), *greetings()]
    config = "evals/test_config.json"
    looser = RuleChange(kind="threshold", metric=RESPONSE, config=config, cases=12, base="0.80", head="0.00", fails=6)
    sample = shop("passed", cases, cases)
    sample.report.rule_changes = RuleChangesReport(
        base_ref="main",
        decides="head",
        accepted="octocat set the label `agent-eval: accept rules`",
        changes=[looser],
        only_here=[item.case_id for item in cases[:6]],
        base_cases=12,
    )
    return sample


def removed() -> Situation:
    """Half of the cases are deleted; the rest passes."""
    sample = shop("passed", greetings())
    gone = RemovedCases(file=SHOP, base=6, removed=6)
    sample.report.rule_changes = RuleChangesReport(base_ref="main", removed=[gone], base_cases=12)
    return sample


def fork_without_key() -> Situation:
    error = RunError(
        kind="provider-unavailable",
        owner="provider",
        message="The agent's model provider failed: ValueError: No API key was provided.",
        hint="Give the job the model's credentials (for Gemini `GOOGLE_API_KEY`), and see that the variable is among "
        "those that the agent gets (`--agent-env`). A pull request from a fork has no secrets.",
        traceback='Traceback (most recent call last):\n  File "/usr/lib/site-packages/google/genai/_api_client.py", '
        'line 1, in __init__\n    raise ValueError("No API key was provided.")\nValueError: No API key was provided.\n',
        turn=0,
    )
    no_secrets = Reason(code="no-secrets", data={"is_fork": True}, message=say("no-secrets", is_fork=True))
    sample = shop("inconclusive", not_evaluated(error, lines=1), prices(), reasons=[no_secrets, UNAVAILABLE])
    warning = (
        "These results were uploaded by the fork's own run, which could have changed them: trust the required check, "
        "not this comment."
    )
    return Situation(report=sample.report, warnings=[warning])


def replayed_in_part() -> Situation:
    """Most cases are replayed; one is live and fails."""
    live = wrong_room()
    fine = [*(item for item in fine_cases() if item.eval_id != live.eval_id), good("thermostat_down")]
    head = [*(replayed(item.model_copy(deep=True)) for item in fine), live]
    run_report = pull_request("failed", head, [*fine, good(live.eval_id)])
    run_report.options = {"replay": "missing-live"}
    calls, total = 2 * (len(head) - 1), len(head)
    asked = 'The first difference is in instruction: "Be <b>kind</b>." on the tape, "Be *rude* | `now`." now'
    run_report.notices = [
        say("replayed", count=total - 1, total=total, calls=calls, cost=0.25),
        say("not-replayed", cases=[head[-1].case_id], message=f"What the agent asks is not on the tape. {asked}"),
    ]
    return Situation(report=run_report)


def mixed() -> Situation:
    renamed = good("lamp_is_on", file=SINGLE, line=4, response=0.99)
    renamed.fingerprint = "asks lamp_on"
    changed = good("good_night", line=140)
    changed.fingerprint = "asks something else"
    slow = good("thermostat_up", line=3, response=0.83)
    for run in slow.runs:
        run.duration, run.usage.output_tokens = 4.5, 640
    head = [
        item for item in but(wrong_room(), crash(), judged("front_door"), changed, slow) if item.eval_id != "lamp_on"
    ]
    base = but(judged("front_door", score=0.5), case_that_failed("good_morning"))
    message = (
        "The base branch's results come from main at b45e0ff, 3 commits before the tested base ccccccc, which has no "
        "results."
    )
    moved = FOUND.model_copy(update={"distance": 3, "wanted_commit": "c" * 40, "message": message})
    head = [renamed, *head, case_that_failed("fan_off")]
    facts: dict[str, Any] = {"baseline": moved, "cost": COST, "problems": [WITHOUT_REFERENCE], "gate": "regressions"}
    blocking = [item for item in head if item.went_wrong and item.eval_id != "front_door"]
    return Situation(
        report=pull_request("failed", head, [*base, good("old_case")], blocking=blocking, **facts),
        warnings=[
            "For the reviewer: this pull request changes agent-eval.toml, the gate's own rules. Check that this is "
            "meant: the rules of the base branch were applied here, and the change applies after the merge."
        ],
    )


def case_that_failed(eval_id: str) -> CaseReport:
    expected = "Good morning. The blinds are up and the coffee is on."
    why = ("1 of 10 expected words found (recall 0.10)", "missing words: blinds, up, coffee, on")
    low = metric(
        RESPONSE, 0.25, threshold=0.8, evidence={0: [turn_of("Good morning!", expected, "Hello.", *why, score=0.25)]}
    )
    return case(eval_id, "failed", metric(TRAJECTORY, 1.0, threshold=1.0), low, *efficiency(), line=77)


def errors() -> Situation:
    over = Reason(code="run-timeout", message="The run took longer than run-timeout (600 s)")
    later = [case(f"later_{n}", "not_run", line=160 + n, reason=over) for n in range(3)]
    return Situation(report=pull_request("inconclusive", [*but(outage()), *later], [*fine_cases(), good("later_0")]))


def no_baseline() -> Situation:
    denied = "GitHub did not let us read artifacts (403)."
    steps = [
        ("artifact", "fetch-failed", denied),
        ("file", "none-yet", "evals/baseline.json is not there on the base."),
    ]
    failed = baseline(
        f"{denied} Add `actions: read` to the job's `permissions`.",
        status="fetch-failed",
        reason=Reason.of("no-access", subject="GitHub"),
        steps=[{"source": source, "status": status, "message": message} for source, status, message in steps],
    )
    return Situation(report=pull_request("failed", but(wrong_room()), baseline=failed))


def incompatible() -> Situation:
    other = baseline(
        "The artifact of run 17 was written by agent-eval 1.1.0, which has a field that this version (1.0.0) doesn't "
        "know: `cases[0].mood`. Use the same version of agent-eval on both branches.",
        status="incompatible",
        reason=Reason.of("other-version", wanted="1.0.0", got="1.1.0"),
    )
    return Situation(report=pull_request("failed", but(wrong_room(), crash()), baseline=other))


def many() -> Situation:
    """200 cases of which every second fails."""

    head = [numbered(wrong_room(), n) if n % 2 else good(f"case_{n:03}", line=n * 40 + 3) for n in range(200)]
    base = [good(f"case_{n:03}") if n % 4 != 3 else numbered(wrong_room(), n) for n in range(200)]
    worse = [item for item, before in zip(head, base, strict=True) if item.failed and not before.failed]
    return Situation(report=pull_request("failed", head, base, blocking=worse, gate="regressions"))


def scripts() -> Situation:
    turn = turn_of(
        "اجعل غرفة النوم ٢١ درجة من فضلك",
        "تم ضبط غرفة النوم على ٢١ درجة.",
        "المطبخ الآن ٢١ درجة (kitchen).",
        "الكلمات الناقصة: غرفة، النوم",
        score=0.4,
    )
    low = metric(RESPONSE, 0.4, threshold=0.8, evidence={0: [turn]})
    cases = [*wide().cases, case("درجة_حرارة_غرفة_النوم", "failed", low, file="tests/عربي/بيت.test.json", line=9)]
    before = [good(item.eval_id, file=item.file) for item in cases]
    return Situation(report=pull_request("failed", [*cases, good("✨ לילה טוב 🌙")], before))


def hostile() -> Situation:
    odd = saying(EVIL).cases[0]
    odd.line = 12
    was = case(EVIL, "passed", metric(TRAJECTORY, 1.0, threshold=1.0), file=odd.file)
    gone = case("/close\n/approve", "passed")
    new = case("@octocat fixes #1", "failed", reason=Reason(code="x", message=EVIL))
    baseline = BaselineReport(
        status="found",
        source="artifact",
        commit="javascript:alert(1)",
        run_url="https://github.com.evil.example/a/b",
        recorded_at=1e30,
        message=EVIL,
        steps=[BaselineStep(source="file", status="none-yet", message=EVIL)] * 2,
    )
    evil = CaseDecisionReport(case_id=odd.case_id, metric=EVIL, word="broken", evidence=EVIL, would_decide=EVIL)
    decision = decided("failed", suite=SuiteTestReport(metric=EVIL, cases=1))
    decision.cases = [evil]
    run_report = pull_request("failed", [odd, new], [was, gone], baseline=baseline, decision=decision)
    run_report.notices = [EVIL]
    run_report.origin = Origin(
        repository=EVIL, commit=EVIL, head_commit=EVIL, pull_request=7, run_url="https://evil.example/"
    )
    assert run_report.comparison is not None
    run_report.comparison.notes.append(Reason(code="note", message=EVIL))
    run_report.comparison.changed_answers = [answers_otherwise(odd, (EVIL, EVIL), (EVIL, None), name=EVIL)]
    return Situation(
        report=run_report,
        links=replace(LINKS, run_url="https://evil.example/x", artifacts=(EVIL,)),
        warnings=[EVIL],
    )


SITUATIONS: Mapping[str, Callable[[], Situation]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        *(first_run, fine, regression, fix, mixed, errors, no_baseline, incompatible, many, scripts, hostile, flaky),
        *(tool_broken, one_cause, two_causes, most_broken, import_error, provider_down, unchanged, improved),
        changed_answers,
        *(too_few_runs, loosened, removed, fork_without_key, replayed_in_part),
    )
}
