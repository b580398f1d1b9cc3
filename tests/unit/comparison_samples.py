"""Twelve situations of a pull request, as the comment, the summary and the annotations tell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from report_samples import (
    EVIL,
    HOME,
    MORNING,
    RESPONSE,
    SINGLE,
    TRAJECTORY,
    case,
    crash,
    efficiency,
    good,
    metric,
    outage,
    report,
    wide,
    wrong_room,
)

from agent_eval.gate.comparison import compare
from agent_eval.report.sections import Links
from agent_eval.results.comparison import BaselineReport, BaselineStep
from agent_eval.results.decision import CaseDecisionReport, DecisionReport, FlakinessReport, SuiteTestReport
from agent_eval.results.report import (
    CaseReport,
    ModelUsageReport,
    Origin,
    ProblemReport,
    Reason,
    RunReport,
    TurnEvidence,
    VerdictValue,
)

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
FOUND = BaselineReport(
    status="found",
    source="artifact",
    commit=BASE,
    wanted_commit=BASE,
    distance=0,
    run_url=f"{SERVER}/example/repo/actions/runs/1234000",
    recorded_at=MORNING - 86_400,
    message=f"The base's results are those of main at b45e0ff ({SERVER}/example/repo/actions/runs/1234000).",
)


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What a comment is written about."""

    report: RunReport
    links: Links = LINKS
    warnings: Sequence[str] = field(default_factory=tuple)


def identified(cases: Sequence[CaseReport]) -> list[CaseReport]:
    """The cases, telling what they ask and how they are measured."""
    for one in cases:
        one.fingerprint = one.fingerprint or f"asks {one.eval_id}"
        for each in one.metrics:
            each.fingerprint = each.fingerprint or f"measures {each.name}"
    return list(cases)


def pull_request(
    verdict: VerdictValue,
    cases: list[CaseReport],
    base: list[CaseReport] | None = None,
    *,
    baseline: BaselineReport | None = FOUND,
    decision: DecisionReport | None = None,
    cost: tuple[float, float] | None = None,
    problems: list[ProblemReport] | None = None,
    reasons: list[Reason] | None = None,
) -> RunReport:
    made = report(verdict, identified(cases), problems=problems, reasons=reasons)
    made.origin = Origin(repository="example/repo", commit="1" * 40, head_commit=HEAD, pull_request=7)
    made.baseline, made.decision = baseline, decision
    if base is not None:
        before = report("passed", identified(base))
        if cost is not None:
            for one, spent in ((made, cost[0]), (before, cost[1])):
                one.model_usage = [ModelUsageReport(model="gemini-2.5-flash", calls=12, cost=spent)]
        made.comparison = compare(made, before)
    return made


def judged(eval_id: str, *, score: float = 0.33, line: int = 160) -> CaseReport:
    """A case that a model judges."""
    name = "rubric_based_final_response_quality_v1"
    turn = TurnEvidence(
        turn=0,
        score=score,
        user="Is the front door locked?",
        expected="politeness: yes\naccuracy: yes\nbrevity: yes",
        actual="politeness: yes\naccuracy: no\nbrevity: no",
        why=[
            'accuracy: no (3 of 3 votes): "The answer says that the door is locked; the tool reported UNLOCKED."',
            'brevity: no (2 of 3 votes): "It repeats the question and adds advice nobody asked for."',
        ],
    )
    one = case(
        eval_id,
        "passed" if score >= 0.8 else "failed",
        metric(name, score, threshold=0.8, evidence={0: [turn]} if score < 0.8 else None),
        line=line,
    )
    one.metrics[0].judge = "gemini-2.5-flash"
    if score < 0.8:
        one.metrics[0].runs[0].details["judge"] = "gemini-2.5-flash"
    return one


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
    instead = {one.eval_id: one for one in others}
    fine = [instead.pop(one.eval_id, one) for one in fine_cases()]
    return [*fine, *instead.values()]


def first_run() -> Situation:
    none_yet = BaselineReport(
        status="none-yet",
        wanted_commit=BASE,
        message="No run of .github/workflows/evals.yml on main has recorded results yet: the next push to main does.",
    )
    return Situation(report=pull_request("passed", fine_cases(), baseline=none_yet))


def fine() -> Situation:
    return Situation(report=pull_request("passed", fine_cases(), fine_cases()))


def regression() -> Situation:
    decision = DecisionReport(
        outcome="failed",
        alpha=0.05,
        extra_runs=10,
        cases=[
            CaseDecisionReport(
                case_id=f"{HOME}:thermostat_in_bedroom",
                metric="pass",
                word="broken",
                blocking=True,
                evidence="0 of 6 now, 10 of 10 on base",
                p_value=0.00012,
                p_adjusted=0.00036,
            ),
            CaseDecisionReport(
                case_id=f"{HOME}:front_door",
                metric="pass",
                word="suspicious",
                evidence="3 of 6 now, 9 of 10 on base",
                p_value=0.118,
                p_adjusted=0.236,
                would_decide="10 more runs of the head would decide",
            ),
        ],
        suites=[
            SuiteTestReport(
                metric="pass",
                cases=9,
                drop=0.111,
                interval=(-0.02, 0.24),
                p_value=0.061,
                p_confirm=0.0004,
                p_adjusted=0.0008,
                minimum_detectable_drop=0.14,
                blocking=True,
            )
        ],
    )
    return Situation(
        report=pull_request(
            "failed",
            but(wrong_room(), judged("front_door")),
            [*fine_cases(), judged("front_door", score=1.0)],
            decision=decision,
            cost=(0.0421, 0.0398),
        )
    )


def flaky() -> Situation:
    """Two cases failed by chance, of which one did so on the base too."""
    decision = DecisionReport(
        outcome="passed",
        alpha=0.05,
        extra_runs=9,
        cases=[
            CaseDecisionReport(
                case_id=f"{HOME}:thermostat_in_bedroom",
                metric="pass",
                word="flaky as before",
                evidence="2 of 3 when run again, 7 of 10 on base",
                p_value=0.98,
                p_adjusted=1.0,
                flakiness=FlakinessReport(failures=3, runs=10, low=0.1078, high=0.6032, since="9c8b7a6" + "0" * 33),
            ),
            CaseDecisionReport(
                case_id=f"{HOME}:good_morning",
                metric="pass",
                word="flaky as before",
                evidence="6 of 6 when run again, 10 of 10 on base",
                p_value=1.0,
                p_adjusted=1.0,
            ),
        ],
    )
    head = but(wrong_room(), case_that_failed("good_morning"))
    made = pull_request("passed", head, fine_cases(), decision=decision)
    made.gate = "regressions"
    return Situation(report=made)


def fix() -> Situation:
    return Situation(report=pull_request("passed", fine_cases(), but(wrong_room(), crash())))


def mixed() -> Situation:
    renamed = good("lamp_is_on", file=SINGLE, line=4, response=0.99)
    renamed.fingerprint = "asks lamp_on"
    changed = good("good_night", line=140)
    changed.fingerprint = "asks something else"
    slow = good("thermostat_up", line=3, response=0.83)
    for run in slow.runs:
        run.duration, run.usage.output_tokens = 4.5, 640
    head = [one for one in but(wrong_room(), crash(), judged("front_door"), changed, slow) if one.eval_id != "lamp_on"]
    base = but(judged("front_door", score=0.5), case_that_failed("good_morning"))
    moved = FOUND.model_copy(
        update={
            "distance": 3,
            "wanted_commit": "c" * 40,
            "message": f"The base's results are those of main at b45e0ff ({FOUND.run_url}), 3 commits before ccccccc, "
            "which this was tested upon and which has no results.",
        }
    )
    return Situation(
        report=pull_request(
            "failed",
            [renamed, *head, case_that_failed("fan_off")],
            [*base, good("old_case")],
            baseline=moved,
            cost=(0.0421, 0.0398),
            problems=[
                ProblemReport(
                    severity="warning",
                    code="turn-without-reference",
                    message="turn 2 has no final_response: response_match_score compares with an empty text",
                    hint="Add a final_response, or remove the turn.",
                    file=HOME,
                    line=66,
                )
            ],
        ),
        warnings=["This pull request changes agent-eval.toml. It was judged by the rules of the base branch."],
    )


def case_that_failed(eval_id: str) -> CaseReport:
    turn = TurnEvidence(
        turn=0,
        score=0.25,
        user="Good morning!",
        expected="Good morning. The blinds are up and the coffee is on.",
        actual="Hello.",
        why=["1 of 10 expected words found (recall 0.10)", "missing words: blinds, up, coffee, on"],
    )
    return case(
        eval_id,
        "failed",
        metric(TRAJECTORY, 1.0, threshold=1.0),
        metric(RESPONSE, 0.25, threshold=0.8, evidence={0: [turn]}),
        *efficiency(),
        line=77,
    )


def errors() -> Situation:
    later = [
        case(
            f"later_{n}", "not_run", line=160 + n, reason=Reason(code="deadline", message="the run's deadline was over")
        )
        for n in range(3)
    ]
    return Situation(report=pull_request("inconclusive", [*but(outage()), *later], [*fine_cases(), good("later_0")]))


def no_baseline() -> Situation:
    failed = BaselineReport(
        status="fetch-failed",
        wanted_commit=BASE,
        message="GitHub did not let us read artifacts (403). Give the job the permission `actions: read`.",
        steps=[
            BaselineStep(
                source="artifact", status="fetch-failed", message="GitHub did not let us read artifacts (403)."
            ),
            BaselineStep(source="file", status="none-yet", message="evals/baseline.json is not there on the base."),
        ],
    )
    return Situation(report=pull_request("failed", but(wrong_room()), baseline=failed))


def incompatible() -> Situation:
    other = BaselineReport(
        status="incompatible",
        wanted_commit=BASE,
        message="They were written by a newer agent-eval (results schema 2). Use the same version on both branches.",
    )
    return Situation(report=pull_request("failed", but(wrong_room(), crash()), baseline=other))


def many() -> Situation:
    """A thousand cases of which every second fails."""

    def named(one: CaseReport, n: int) -> CaseReport:
        return one.model_copy(update={"eval_id": f"case_{n:03}", "case_id": f"{HOME}:case_{n:03}", "line": n * 40 + 3})

    head = [named(wrong_room(), n) if n % 2 else good(f"case_{n:03}", line=n * 40 + 3) for n in range(1000)]
    base = [good(f"case_{n:03}") if n % 4 != 3 else named(wrong_room(), n) for n in range(1000)]
    return Situation(report=pull_request("failed", head, base))


def scripts() -> Situation:
    cases = wide().cases
    arabic = case(
        "درجة_حرارة_غرفة_النوم",
        "failed",
        metric(
            RESPONSE,
            0.4,
            threshold=0.8,
            evidence={
                0: [
                    TurnEvidence(
                        turn=0,
                        score=0.4,
                        user="اجعل غرفة النوم ٢١ درجة من فضلك",
                        expected="تم ضبط غرفة النوم على ٢١ درجة.",
                        actual="المطبخ الآن ٢١ درجة (kitchen).",
                        why=["الكلمات الناقصة: غرفة، النوم"],
                    )
                ]
            },
        ),
        file="tests/عربي/بيت.test.json",
        line=9,
    )
    before = [good(one.eval_id, file=one.file) for one in [*cases, arabic]]
    return Situation(report=pull_request("failed", [*cases, arabic, good("✨ לילה טוב 🌙")], before))


def hostile() -> Situation:
    turn = TurnEvidence(turn=0, score=0.0, user=EVIL, expected=EVIL, actual=EVIL[::-1], why=[EVIL, "missing: " + EVIL])
    odd = case(
        EVIL,
        "failed",
        metric(TRAJECTORY, 0.0, threshold=1.0, evidence={0: [turn]}, reason=Reason(code="x", message=EVIL)),
        metric("custom|`metric`<b>", 0.5, threshold=0.8),
        file="tests/a|b [x](y) `c`.test.json",
    )
    was = case(EVIL, "passed", metric(TRAJECTORY, 1.0, threshold=1.0), file=odd.file)
    gone, new = (
        case("/close\n/approve", "passed"),
        case("@octocat fixes #1", "failed", reason=Reason(code="x", message=EVIL)),
    )
    baseline = BaselineReport(
        status="found",
        source="artifact",
        commit="javascript:alert(1)",
        run_url="https://github.com.evil.example/a/b",
        recorded_at=1e30,
        message=EVIL,
        steps=[BaselineStep(source="file", status="none-yet", message=EVIL)] * 2,
    )
    decision = DecisionReport(
        outcome="failed",
        alpha=0.05,
        cases=[CaseDecisionReport(case_id=odd.case_id, metric=EVIL, word="broken", evidence=EVIL, would_decide=EVIL)],
        suites=[SuiteTestReport(metric=EVIL, cases=1)],
    )
    made = pull_request("failed", [odd, new], [was, gone], baseline=baseline, decision=decision)
    made.notices = [EVIL]
    made.origin = Origin(repository=EVIL, commit=EVIL, head_commit=EVIL, run_url="https://evil.example/")
    assert made.comparison is not None
    made.comparison.notes.append(EVIL)
    return Situation(
        report=made,
        links=Links(server_url=SERVER, repository="example/repo", run_url="https://evil.example/x", artifacts=(EVIL,)),
        warnings=[EVIL],
    )


SITUATIONS: Mapping[str, Callable[[], Situation]] = {
    "first-run": first_run,
    "fine": fine,
    "regression": regression,
    "fix": fix,
    "mixed": mixed,
    "errors": errors,
    "no-baseline": no_baseline,
    "incompatible": incompatible,
    "many": many,
    "scripts": scripts,
    "hostile": hostile,
    "flaky": flaky,
}
