from __future__ import annotations

import json

import pytest
from comparison_samples import BASE, SITUATIONS
from report_samples import SAMPLES, case, failed, report
from runner_log import outputs_in

from agent_eval.report.renderers.outputs import FILE_OUTPUTS, OUTPUTS, github_outputs, output_values

DELIMITER = "ghadelimiter_0123456789abcdef"
PATHS = {"results-file": "out/results.json", "junit-file": "out/junit.xml"}


def read(text: str) -> dict[str, str]:
    """The outputs as GitHub's runner reads them; each name is there once."""
    pairs = outputs_in(text)
    values = dict(pairs)
    assert len(values) == len(pairs)
    return values


def test_github_outputs__are_read_back() -> None:
    values = read(github_outputs(failed(), PATHS, DELIMITER))
    assert values == {
        "verdict": "failed", "total": "6", "passed": "3", "failed": "3", "errored": "0", "pass-rate": "0.5",
        "newly-failing": "", "regressions": "", "fixed": "", "metrics": values["metrics"],
        "baseline": "", "baseline-sha": "", "baseline-source": "", "comment-url": "",
        "results-file": "out/results.json", "junit-file": "out/junit.xml", "summary-file": "", "recordings-file": "",
        "cases-file": "", "report-file": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mixed", {"newly-failing": "2", "regressions": "2", "fixed": "1"}),
        ("regression", {"newly-failing": "2", "regressions": "1", "fixed": "0"}),  # The other one is suspicious only.
        ("no-baseline", {"newly-failing": "", "regressions": "", "fixed": "", "baseline-sha": ""}),
        ("fine", {"baseline": "found", "baseline-sha": BASE, "baseline-source": "artifact"}),
    ],
)
def test_output_values__show_what_changed_since_the_base(name: str, expected: dict[str, str]) -> None:
    values = output_values(SITUATIONS[name]().report, PATHS)
    assert {key: values[key] for key in expected} == expected


def test_output_values__show_scores_and_deltas() -> None:
    metrics = json.loads(output_values(SITUATIONS["mixed"]().report, PATHS)["metrics"])
    assert metrics["response_match_score"] == {"score": 0.888333, "base": 0.781733, "delta": 0.1066}
    assert metrics["tool_trajectory_avg_score"]["delta"] == pytest.approx(-1 / 12, abs=1e-6)
    alone = json.loads(output_values(SITUATIONS["no-baseline"]().report, PATHS)["metrics"])
    assert alone["tool_trajectory_avg_score"] == {"score": 0.9375, "base": None, "delta": None}


@pytest.mark.parametrize("name", SAMPLES)
def test_output_values__are_the_documented_ones(name: str) -> None:
    assert list(output_values(SAMPLES[name](), PATHS)) == list(OUTPUTS)


def test_github_outputs__a_path_cannot_add_an_output() -> None:
    evil = "x\nverdict=passed\nverdict<<EOF\npassed\nEOF\nghadelimiter_\n"
    values = read(github_outputs(failed(), {"results-file": evil}, DELIMITER))
    assert values["verdict"] == "failed"
    assert values["results-file"] == evil
    assert set(values) == set(OUTPUTS)


@pytest.mark.parametrize("delimiter", ["", "EOF", "short", "with space 0123456789", "line\nbreak0123456789abc"])
def test_github_outputs__refuses_a_weak_delimiter(delimiter: str) -> None:
    with pytest.raises(ValueError, match="at least 16"):
        github_outputs(failed(), PATHS, delimiter)


def test_github_outputs__refuses_a_delimiter_that_occurs_and_an_unknown_file() -> None:
    with pytest.raises(ValueError, match="occurs"):
        github_outputs(failed(), {"results-file": f"a\n{DELIMITER}\n"}, DELIMITER)
    with pytest.raises(ValueError, match="not a file output: verdict"):
        output_values(failed(), {"verdict": "passed"})
    assert set(FILE_OUTPUTS) < set(OUTPUTS)


@pytest.mark.parametrize(
    ("passed", "failed", "rate"), [(0, 0, ""), (4, 0, "1"), (0, 4, "0"), (2, 1, "0.666667"), (1, 3, "0.25")]
)
def test_outputs__pass_rate(passed: int, failed: int, rate: str) -> None:
    cases = [case("x", "passed")] * passed + [case("y", "failed")] * failed
    assert output_values(report("passed", cases), {})["pass-rate"] == rate
