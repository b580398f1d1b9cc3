"""A case turn by turn, as every renderer shows it."""

from __future__ import annotations

from remark_samples import notes
from report_samples import RESPONSE, case, metric

from agent_eval.report.views.conversation import CaseView, case_view, rows
from agent_eval.results.conversation import ConversationReport, StepReport, TurnReport
from agent_eval.results.report import CaseReport, TurnEvidence

RUBRIC = "rubric_based_final_response_quality_v1"


def said(turn: int = 0, **facts: object) -> TurnReport:
    return TurnReport.model_validate(
        {
            "turn": turn,
            "user": "Lamp off.",
            "steps": [StepReport(call='find_devices(room="bedroom")', responses=['{"devices": []}'])],
            "answer": "No such lamp.",
            **facts,
        }
    )


def evidence(turn: int = 0, *, expected: str = "", why: tuple[str, ...] = ("bad",)) -> TurnEvidence:
    return TurnEvidence(turn=turn, score=0.25, expected=expected, actual="No such lamp.", why=notes(*why))


def failed(conversation: ConversationReport | None, *evidences: TurnEvidence, name: str = RESPONSE) -> CaseReport:
    sample_case = case("lamp", "failed", metric(name, 0.25, threshold=0.8, evidence={0: list(evidences)}))
    sample_case.conversation = conversation
    return sample_case


def shown(view: CaseView | None, **limits: int) -> list[list[tuple[str, str]]]:
    assert view is not None
    return [[(row.kind, row.text) for row in rows(turn, **limits)] for turn in view.turns]


def test_case_view__a_rubric_says_what_it_demands() -> None:
    demand = "polite: The answer is polite."
    failed_case = failed(ConversationReport(run=0, turns=[said()]), evidence(expected=demand), name=RUBRIC)

    [turn] = shown(case_view(failed_case))

    assert turn[-3:] == [("verdict", f"{RUBRIC} 0.25"), ("expected answer", demand), ("detail", "bad")]


def test_case_view__turns_that_say_why_come_before_the_others() -> None:
    turns = [said(number, user=f"user {number}") for number in range(6)]
    view = case_view(failed(ConversationReport(run=0, turns=turns, turns_left_out=2), evidence(4)), turns=2)

    assert view is not None
    assert [turn.number for turn in view.turns] == [1, 5]
    assert view.turns_left_out == 6
    assert view.title(view.turns[1]) == "turn 5"


def test_case_view__what_lowered_the_score_of_another_run_stays_a_finding() -> None:
    sample_case = case(
        "lamp", "failed", metric(RESPONSE, 1.0, 0.25, threshold=0.8, evidence={1: [evidence(why=("far off",))]}), runs=2
    )
    sample_case.conversation = ConversationReport(run=0, turns=[said()])
    view = case_view(sample_case)

    assert view is not None
    assert view.title(view.turns[0]) == "turn 1 of run 1"
    assert "turn 1: far off" in view.findings[0].lines
    assert view.turns[0].remarks == ()


def test_case_view__a_weak_turn_of_a_passed_case_is_that_of_the_run_shown() -> None:
    low = {run: [evidence(why=(f"few words in run {run}",))] for run in (0, 1)}
    passed = case("lamp", "passed", metric(RESPONSE, 0.9, 0.9, threshold=0.8, evidence=low), runs=2)
    passed.conversation = ConversationReport(run=1, turns=[said()])
    view = case_view(passed)

    assert view is not None
    assert [remark.details for remark in view.turns[0].remarks] == [("few words in run 1",)]


def test_case_view__results_of_an_older_version_show_what_the_criteria_kept() -> None:
    failed_case = failed(None, evidence(expected="The lamp is off.", why=("1 of 4 words",)))

    assert shown(case_view(failed_case)) == [
        [
            ("verdict", "response_match_score 0.25"),
            ("expected answer", "The lamp is off."),
            ("actual", "No such lamp."),
            ("detail", "1 of 4 words"),
        ]
    ]


def test_rows__forged_results_are_cut_to_size() -> None:
    steps = [StepReport(call="c" * 10_000, responses=["r" * 10_000]) for _ in range(1_000)]
    turn = said(user="u" * 100_000, steps=steps, answer="a" * 100_000, expected_calls=["e" * 10_000] * 1_000)
    many = evidence(why=tuple("w" * 10_000 for _ in range(1_000)))
    view = case_view(failed(ConversationReport(run=0, turns=[turn]), many))

    [actual] = shown(view, text=500, code=200, steps=3, details=2)

    assert len(actual) == 1 + 3 * 2 + 1 + 3 + 1 + 1 + 3
    assert ("said", "[… and 997 more steps]") in actual
    assert max(len(text) for _, text in actual) <= 500
