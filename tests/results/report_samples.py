"""Hand-made reports that the renderers are shown with, by name: `SAMPLES["failed"]()`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from remark_samples import notes

from agent_eval_results.data.conversation import ConversationReport, StepReport, TurnReport
from agent_eval_results.data.report import (
    CaseReport,
    CaseStatus,
    FileReport,
    MetricReport,
    MetricStatus,
    ProblemReport,
    Reason,
    RunReport,
    RunResult,
    RunScore,
    TurnEvidence,
    VerdictValue,
)
from agent_eval_scoring.core.recording import RunError, Usage

TRAJECTORY = "tool_trajectory_avg_score"
RESPONSE = "response_match_score"
HOME = "tests/home_automation/basics.evalset.json"
SINGLE = "tests/home_automation/lights.test.json"
MORNING = 1_790_000_000.0


def metric(
    name: str,
    *scores: float | None,
    threshold: float | None,
    evidence: Mapping[int, list[TurnEvidence]] | None = None,
    reason: Reason | None = None,
    details: Mapping[str, object] | None = None,
) -> MetricReport:
    def status(score: float | None) -> MetricStatus:
        if threshold is None:
            return "informational"
        if score is None:
            return "not_evaluated"
        return "passed" if score >= threshold else "failed"

    measured = [score for score in scores if score is not None]
    mean = sum(measured) / len(measured) if measured else None
    return MetricReport(
        name=name,
        score=mean,
        threshold=threshold,
        status=status(mean),
        reason=reason,
        runs=[
            RunScore(
                run=run,
                score=score,
                status=status(score),
                reason=reason,
                evidence=(evidence or {}).get(run, []),
                details=dict(details or {}),
            )
            for run, score in enumerate(scores)
        ],
    )


def case(
    eval_id: str,
    status: CaseStatus,
    *metrics: MetricReport,
    file: str = HOME,
    line: int | None = 3,
    runs: int = 1,
    reason: Reason | None = None,
    errors: Mapping[int, RunError] | None = None,
    duration: float = 1.25,
    conversation: ConversationReport | None = None,
) -> CaseReport:
    eval_set_id = file.rsplit("/", 1)[-1].split(".")[0]
    return CaseReport(
        case_id=f"{file}:{eval_id}",
        file=file,
        line=line,
        eval_set_id=eval_set_id,
        eval_id=eval_id,
        status=status,
        reason=reason,
        metrics=list(metrics),
        runs=[]
        if status == "not_run"
        else [
            RunResult(
                run_id=f"{file}:{eval_id}#{run + 1}",
                run=run,
                status=status,
                error=(errors or {}).get(run),
                started_at=MORNING + run,
                duration=duration,
                usage=Usage(model_calls=2, input_tokens=812, output_tokens=64),
                turns=2,
            )
            for run in range(runs)
        ],
        conversation=conversation,
    )


def report(
    verdict: VerdictValue,
    cases: list[CaseReport],
    *,
    num_runs: int = 1,
    problems: list[ProblemReport] | None = None,
    reasons: list[Reason] | None = None,
    notices: list[str] | None = None,
) -> RunReport:
    files = sorted({case.file for case in cases})
    return RunReport(
        tool_version="1.0.0",
        verdict=verdict,
        reasons=reasons or [],
        started_at=MORNING,
        duration=12.4,
        num_runs=num_runs,
        min_pass_rate=1.0,
        provenance={"commit": "5f0c1d2e3a4b5c6d7e8f90123456789abcdef012", "google-adk": "2.13.0"},
        files=[
            FileReport(
                file=file,
                eval_set_id=file.rsplit("/", 1)[-1].split(".")[0],
                config="tests/home_automation/test_config.json" if file == HOME else None,
                criteria={TRAJECTORY: 1.0, RESPONSE: 0.8},
                agent="home_automation",
                agent_reason="session_input.app_name in the file",
                legacy=file == SINGLE,
            )
            for file in files
        ],
        cases=cases,
        problems=problems or [],
        notices=notices or [],
    )


def turn_of(user: str, expected: str, actual: str, *why: str, score: float = 0.0, turn: int = 0) -> TurnEvidence:
    """A turn as a criterion sees it that it does not pass."""
    return TurnEvidence(turn=turn, score=score, user=user, expected=expected, actual=actual, why=notes(*why))


def efficiency() -> list[MetricReport]:
    return [
        metric("tool_call_count_v1", 1.5, threshold=None),
        metric("token_usage_v1", 876.0, threshold=None, details={"input": 812, "output": 64}),
        metric("invocation_duration_v1", 0.625, threshold=None),
    ]


def good(eval_id: str, *, file: str = HOME, line: int = 3, response: float = 0.91) -> CaseReport:
    return case(
        eval_id,
        "passed",
        metric(TRAJECTORY, 1.0, threshold=1.0),
        metric(RESPONSE, response, threshold=0.8),
        *efficiency(),
        file=file,
        line=line,
    )


def wrong_room() -> CaseReport:
    said = "Make the bedroom 21 degrees, please."
    calls = [
        'get_temperature(room="bedroom")',
        'set_temperature(room="bedroom", celsius=21)',
        'set_temperature(room="kitchen", celsius=21)',
    ]
    trajectory = turn_of(
        said,
        "\n".join(calls[:2]),
        "\n".join(calls[::2]),
        "1 of 2 expected calls matched",
        'set_temperature: room is "kitchen", expected "bedroom" (call 2)',
        turn=1,
    )
    response = turn_of(
        said,
        "The bedroom is set to 21 °C.",
        "I have set the kitchen to 21 °C.",
        "5 of 7 expected words found (recall 0.71); 5 of 8 words given were expected",
        "missing words: bedroom, is",
        score=0.6667,
        turn=1,
    )
    steps = [
        StepReport(call=calls[0], responses=['{"error": "unknown room: bedroom"}']),
        StepReport(text="The bedroom has no thermostat. I take the kitchen's."),
        StepReport(call=calls[2], responses=['{"celsius": 21}']),
    ]
    turns = [
        TurnReport(turn=0, user="Hello!", answer="Hello! What can I do for you?"),
        TurnReport(
            turn=1,
            user=said,
            steps=steps,
            answer=response.actual,
            expected_calls=calls[:2],
            expected_answer=response.expected,
        ),
    ]
    return case(
        "thermostat_in_bedroom",
        "failed",
        metric(TRAJECTORY, 0.5, threshold=1.0, evidence={0: [trajectory]}),
        metric(RESPONSE, 0.7996, threshold=0.8, evidence={0: [response]}),
        *efficiency(),
        line=48,
        conversation=ConversationReport(run=0, turns=turns),
    )


def crash() -> CaseReport:
    error = RunError(
        kind="agent-exception",
        owner="agent",
        message="KeyError: 'garage'",
        hint="The exception came from the agent's own code; its traceback is below.",
        traceback='Traceback (most recent call last):\n  File "tools.py", line 31, in open_door\n'
        "    door = DOORS[name]\nKeyError: 'garage'\n",
        log_tail="INFO tools: opening door garage\n::error::not an annotation\n",
        turn=0,
    )
    reason = Reason(code=error.kind, message="the agent raised KeyError in turn 1")
    crashed = case("garage_door", "failed", line=97, reason=reason, errors={0: error})
    crashed.conversation = ConversationReport(run=0, turns=[TurnReport(turn=0, user="Open the garage.")])
    return crashed


def outage() -> CaseReport:
    error = RunError(
        kind="provider-unavailable",
        owner="provider",
        message="503 UNAVAILABLE: The model is overloaded.",
        hint="Run the job again; nothing in the pull request caused this.",
        turn=1,
    )
    reason = Reason(code=error.kind, message="the model provider answered 503 after 5 attempts")
    return case("weather_question", "errored", line=120, reason=reason, errors={0: error})


def ended_by(*kinds: str, status: CaseStatus = "failed") -> list[CaseReport]:
    """A case for each kind of error that ended it."""
    owner = "agent" if status == "failed" else "provider"
    errors = [RunError(kind=kind, owner=owner, message="It is away.") for kind in kinds]
    cases = [case(name, "failed", errors={0: error}) for name, error in zip("xyz", errors, strict=False)]
    return [item.changed(status=status) for item in cases]


def passed() -> RunReport:
    return report(
        "passed",
        [
            good("lamp_on", file=SINGLE, line=4),
            good("lamp_off", file=SINGLE, line=31, response=0.8004),
            good("thermostat_up", line=3),
            good("good_morning", line=77, response=1.0),
        ],
    )


WITHOUT_REFERENCE = ProblemReport(
    severity="warning",
    code="turn-without-reference",
    message="turn 2 has no final_response: response_match_score compares with an empty text",
    hint="Add a final_response, or remove the turn.",
    file=HOME,
    line=66,
    column=9,
    path="eval_cases[2].conversation[1]",
)


def failed() -> RunReport:
    turn = turn_of(
        "Turn off the lamp and the fan.",
        'turn_off(device="lamp")\nturn_off(device="fan")',
        'turn_off(device="lamp")',
        "1 of 2 expected calls matched",
        'missing: turn_off(device="fan") (expected as call 2)',
    )
    flaky = case(
        "two_devices",
        "failed",
        metric(TRAJECTORY, 1.0, 0.0, 1.0, threshold=1.0, evidence={1: [turn]}),
        metric(RESPONSE, 0.93, 0.95, 0.91, threshold=0.8),
        *efficiency(),
        runs=3,
        line=64,
        reason=Reason(code="pass-rate", message="2 of 3 runs passed, min-pass-rate 1.0 asks for 3"),
    )
    cases = [good("lamp_on", file=SINGLE, line=4), good("thermostat_up"), wrong_room(), flaky, crash()]
    legacy = f"{SINGLE} is in a legacy form and was converted in memory: `agent-eval migrate` writes the new one."
    failing = [*cases, good("good_night", line=140)]
    return report("failed", failing, num_runs=3, problems=[WITHOUT_REFERENCE], notices=[legacy])


def inconclusive() -> RunReport:
    missing = Reason(code="needs-reference", message="no turn of the case has a reference")
    why = Reason(code="not-evaluated", message="response_match_score could not be evaluated")
    unknown = case("judged", "errored", metric(RESPONSE, None, threshold=0.8, reason=missing), line=150, reason=why)
    late = Reason(code="deadline", message="the run's deadline (3,600 s) was over")
    skipped = [case(f"later_{n}", "not_run", line=160 + n, reason=late) for n in range(3)]
    return report("inconclusive", [good("lamp_on", file=SINGLE, line=4), outage(), unknown, *skipped])


def invalid() -> RunReport:
    return report(
        "invalid",
        [],
        problems=[
            ProblemReport(
                severity="warning",
                code="unknown-part-key",
                message='unknown key "txt" in a part',
                file=HOME,
                line=9,
                column=15,
            ),
            ProblemReport(
                severity="error",
                code="unknown-metric",
                message='"tool_trajectory_avg_scor" is not a metric',
                hint='Did you mean "tool_trajectory_avg_score"?',
                file="tests/home_automation/test_config.json",
                line=3,
                column=5,
                path="criteria.tool_trajectory_avg_scor",
            ),
            ProblemReport(
                severity="error",
                code="no-agent",
                message="no agent found for the eval files",
                hint="Give --agent DIRECTORY.",
            ),
        ],
    )


EVIL = (
    "</details></td>| ` ``` ~~~~ \\| <img src=x onerror=alert(1)> [x](javascript:alert(1)) ![p](http://evil.example/p.png)\n"
    "@octocat fixes #1 GH-2 www.evil.example https://evil.example deadbeef\n"
    "::error file=x::gotcha\n##[error]gotcha\n  ::stop-commands::x\n```\n</details>\n# heading\n%0A::warning::x\n"
    "\x1b[2J\x1b[31mred\x1b]0;title\x07 \u202ereversed\u202c zero\u200bwidth \x00 \ud800 ]]> --> &amp;"
)


def saying(text: str, *, file: str = "tests/a|b [x](y) `c`.test.json") -> RunReport:
    """A report with a text wherever one of an agent, a model or an eval file can be."""
    turn = turn_of(text, text, text[::-1], text, "missing: " + text)
    actual = TurnReport(
        turn=0,
        user=text,
        steps=[StepReport(agent=text, call=text, responses=[text], text=text)],
        answer=text,
        expected_said=[text],
        expected_calls=[text],
        expected_answer=f"{text} and more",
    )
    error = RunError(kind="agent-exception", owner="agent", message=text, hint=text, traceback=text, log_tail=text)
    return report(
        "failed",
        [
            case(
                text,
                "failed",
                metric(TRAJECTORY, 0.0, threshold=1.0, evidence={0: [turn]}, reason=Reason(code="x", message=text)),
                metric(text, 0.5, threshold=0.8),
                file=file,
                conversation=ConversationReport(run=0, turns=[actual]),
            ),
            case("evil_crash", "failed", errors={0: error}),
            case("never", "not_run", reason=Reason(code=text, message=text)),
        ],
        problems=[ProblemReport(severity="warning", code=text, message=text, hint=text, file=text, line=1, path=text)],
        notices=[text],
        reasons=[Reason(code="failed", message=text)],
    )


def hostile() -> RunReport:
    return saying(EVIL)


def wide() -> RunReport:
    japanese = turn_of(
        "寝室を二十一度にしてください 🛏️🌡️",
        'set_temperature(room="寝室", celsius=21)',
        'set_temperature(room="台所", celsius=21)',
        'set_temperature: room is "台所", expected "寝室"',
    )
    chinese = turn_of(
        "请打开卧室的灯",
        "卧室的灯已经打开了。如果您还需要调节亮度,请告诉我想要的百分比。",
        "厨房的灯已经关闭。🙇",
        "missing words: 卧, 室, 打, 开",
        score=0.25,
        turn=2,
    )
    low = metric(TRAJECTORY, 0.0, threshold=1.0, evidence={0: [japanese]})
    lower = metric(RESPONSE, 0.25, threshold=0.8, evidence={0: [chinese]})
    return report(
        "failed",
        [
            case("寝室の温度を上げる", "failed", low, file="tests/日本語/家.test.json", line=12),
            case("卧室灯-👩‍👩‍👧‍👦", "failed", lower, file="tests/中文/家.test.json", line=5),
        ],
    )


def numbered(failing: CaseReport, number: int) -> CaseReport:
    """The case with another id and line."""
    name = f"case_{number:03}"
    return failing.model_copy(update={"eval_id": name, "case_id": f"{HOME}:{name}", "line": number * 40 + 3})


def many() -> RunReport:
    """150 cases of which every third failed."""
    cases = (good(f"case_{n:03}", line=n * 40 + 3) if n % 3 else numbered(wrong_room(), n) for n in range(150))
    return report("failed", list(cases))


SAMPLES: Mapping[str, Callable[[], RunReport]] = {
    "passed": passed,
    "failed": failed,
    "inconclusive": inconclusive,
    "invalid": invalid,
    "hostile": hostile,
    "wide": wide,
    "many": many,
}


def rubrics(*, close: int = 0, listed: int = 2) -> MetricReport:
    """A rubric criterion that failed on two rubrics of its only turn."""
    judged = metric("rubric_based_tool_use_quality_v1", 0.0, threshold=0.5)
    run = judged.runs[0]
    run.evidence = [
        TurnEvidence(turn=0, score=0.0, why=notes("polite: no (3:0): rude", "brief: no (3:2, close): long"))
    ]
    run.details = {"judge": {"model": "m"}, "judgements": [{"close": number < close} for number in range(listed)]}
    return judged
