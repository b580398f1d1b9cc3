from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import EVIL, SAMPLES, TRAJECTORY, case, failed, metric, report
from rich.cells import cell_len

from agent_eval.report.renderers._console import console
from agent_eval.results.recording import RunError
from agent_eval.results.report import ProblemReport, Reason, TurnEvidence


def harmless(text: str) -> None:
    """Nothing in the text acts on a terminal or on GitHub's runner."""
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    for line in text.split("\n"):
        assert not re.match(r"::[a-z]", line.strip(), re.IGNORECASE), line
        assert "##[" not in line


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_console__keeps_its_width_and_does_nothing(name: str, width: int) -> None:
    text = console(SAMPLES[name](), width=width, files={"summary": "out/summary.md"})
    harmless(text)
    # A zero-width joiner makes rich and terminals disagree about an emoji; nothing else may stand out.
    assert max(cell_len(line) for line in text.splitlines() if "\u200d" not in line) <= width


def test_console__the_verdict_is_the_last_line() -> None:
    lasts = {name: console(sample(), width=200).splitlines()[-1] for name, sample in SAMPLES.items()}
    assert lasts["passed"] == "Passed: all 4 cases pass (12 s)"
    assert lasts["failed"] == "Failed: 3 of 6 cases fail (1 crashes) (3 runs each, 12 s)"
    assert lasts["inconclusive"] == (
        "Inconclusive: 2 of 6 cases could not be evaluated, 3 did not run; start the job again (12 s)"
    )
    assert lasts["invalid"].startswith("Invalid: 2 errors in the eval files or the configuration; nothing was run")


def test_console__shows_what_the_agent_did_turn_by_turn() -> None:
    lines = [line.strip() for line in console(failed(), width=120).splitlines()]
    start = lines.index("turn 2")
    assert lines[start + 1 : start + 11] == [
        "user     Make the bedroom 21 degrees, please.",
        'call     get_temperature(room="bedroom")',
        'returned {"error": "unknown room: bedroom"}',
        "says     The bedroom has no thermostat. I take the kitchen's.",
        'call     set_temperature(room="kitchen", celsius=21)',
        'returned {"celsius": 21}',
        'expected get_temperature(room="bedroom")',
        'expected set_temperature(room="bedroom", celsius=21)',
        "answer   I have set the kitchen to 21 °C.",
        "expected The bedroom is set to 21 °C.",
    ]
    assert lines[start + 11].split() == ["✗", "tool_trajectory_avg_score", "0.00"]


def test_console__colour_only_when_asked_for() -> None:
    assert "\x1b[" not in console(failed())
    coloured = console(failed(), color=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured).split() == console(failed()).split()


def test_console__a_few_failures_in_full_then_reasons_then_names_then_a_count() -> None:
    text = console(SAMPLES["many"](), width=100, files={"summary": "out/summary.md"})
    assert text.count("  turn 2\n") == 5
    assert "and 82 more cases that did not pass" in text
    assert "Expected beside actual for all of them: out/summary.md" in text
    assert len(text.splitlines()) < 300


def test_console__a_dozen_failures_stay_readable() -> None:
    cases = [
        item.model_copy(update={"status": "failed"}) for item in SAMPLES["many"]().cases if item.status == "failed"
    ]
    text = console(report("failed", cases[:12]), width=100)
    shown = [item.eval_id for item in cases[:12]]
    assert all(name in text for name in shown)
    assert len(text.splitlines()) < 200


@given(
    st.one_of(
        st.text(max_size=80),
        st.sampled_from([EVIL, "[bold]x[/bold]", "[/]", ":smile:", "x" * 300 + "::error::y", "a " * 60 + "::error::y"]),
    ),
    st.integers(40, 130),
)
def test_console__shows_any_text(value: str, width: int) -> None:
    turn = TurnEvidence(turn=0, score=0.0, user=value, expected=value, actual=value + "!", why=[value])
    text = console(
        report(
            "failed",
            [
                case(value, "failed", metric(TRAJECTORY, 0.0, threshold=1.0, evidence={0: [turn]}), file=value or "x"),
                case(
                    "crash",
                    "failed",
                    errors={0: RunError(kind=value, owner="agent", message=value, hint=value, log_tail=value)},
                ),
                case(value, "not_run", reason=Reason(code="x", message=value)),
            ],
            problems=[ProblemReport(severity="notice", code=value, message=value, hint=value, file=value)],
            notices=[value],
            reasons=[Reason(code=value, message=value)],
        ),
        width=width,
        files={"summary": value},
    )
    harmless(text)
    assert text.splitlines()[-1].endswith("s)") or width < 80


def test_console__a_hint_to_copy_keeps_its_lines() -> None:
    hint = 'Write into agent-eval.toml:\n    [agents]\n    "evals/**" = "a"\n::error::mine'
    problem = ProblemReport(severity="error", code="agent-ambiguous", message="Two agents.", hint=hint)
    lines = console(report("invalid", [], problems=[problem]), width=100).splitlines()
    start = next(number for number, line in enumerate(lines) if "agent-ambiguous" in line) + 1
    assert [line.rstrip() for line in lines[start : start + 4]] == [
        "     Write into agent-eval.toml:",
        "         [agents]",
        '         "evals/**" = "a"',
        "     :\N{ZERO WIDTH SPACE}:error:\N{ZERO WIDTH SPACE}:mine",
    ]


def test_console__markup_is_not_markup() -> None:
    assert "[bold]x[/bold]" in console(report("failed", [case("[bold]x[/bold]", "failed")]))


def test_console__a_very_long_id_does_not_fill_the_text() -> None:
    cases = [case("x" * 5_000 + str(number), "failed", metric(TRAJECTORY, 0.1, threshold=0.8)) for number in range(40)]
    text = console(report("failed", cases), width=100)
    assert "…4,6" in text.replace("\n", "")
    assert len(text) < 60_000
