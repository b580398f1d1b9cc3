"""The job summary, judged by what a reader of the rendered page gets."""

from __future__ import annotations

import itertools
from urllib.parse import unquote

import pytest
from hypothesis import given
from markdown_pages import ANY_TEXT, nothing_of_theirs, rendered
from report_samples import EVIL, SAMPLES, case, failed, report, saying

from agent_eval.report.renderers.markdown import SMALLEST_LIMIT, SUMMARY_DETAILS, SUMMARY_LIMIT, summary_markdown
from agent_eval.results.report import FileReport, ProblemReport, Reason, RunReport

SOURCE = "https://github.com/example/repo/blob/5f0c1d2"


@pytest.mark.parametrize("name", SAMPLES)
def test_summary_markdown__renders_to_nothing_but_ours(name: str) -> None:
    page = nothing_of_theirs(summary_markdown(SAMPLES[name](), source_url=SOURCE), SOURCE + "/")
    assert page.tags.count("details") == page.tags.count("summary")


def test_summary_markdown__a_hint_to_copy_keeps_its_lines() -> None:
    problem = ProblemReport(severity="error", code="x", message="Two agents.", hint="Write:\n    [agents]\n    a = 1")
    shown = summary_markdown(report("invalid", [], problems=[problem]))
    assert "Two agents. (`x`)<br>Write:<br>\\[agents\\]<br>a = 1\n" in shown


def test_summary_markdown__links_are_quoted() -> None:
    odd = report("failed", [case("x", "failed", file="a b/[c](d)#é?.test.json", line=7)])
    (link, *_) = rendered(summary_markdown(odd, source_url=SOURCE)).links
    assert link.endswith("#L7")
    assert "?" not in link
    assert unquote(link.removeprefix(SOURCE)) == "/a b/[c](d)#é?.test.json#L7"


def monster() -> RunReport:
    """Everything that can be long is long and hostile."""
    text = EVIL * 8
    long = saying(text, file=f"tests/{EVIL}")
    failing, crashed, stopped = long.cases
    long.cases = [
        *(failing.model_copy(update={"case_id": f"{n}", "eval_id": f"{EVIL}{n}"}) for n in range(6)),
        *(crashed.model_copy(update={"case_id": f"c{n}", "eval_id": f"{EVIL}c{n}"}) for n in range(6)),
        *(case(f"e{n}{EVIL}", "errored", reason=Reason(code=EVIL, message=text)) for n in range(6)),
        *(stopped.model_copy(update={"case_id": f"n{n}", "eval_id": f"n{n}"}) for n in range(6)),
    ]
    for judged in failing.metrics[0].runs:
        judged.evidence *= 8
    long.problems, long.notices, long.reasons = long.problems * 20, long.notices * 20, long.reasons * 20
    long.files = [FileReport(file=EVIL, eval_set_id="x", agent=EVIL, agent_reason=text, criteria={EVIL: 0.5})] * 20
    long.provenance = {f"{EVIL}{n}": text for n in range(6)}
    return long


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *(("monster", limit) for limit in (SMALLEST_LIMIT, 65_000)),
        *((name, limit) for name in ("many", "hostile") for limit in (SMALLEST_LIMIT, 10_000, SUMMARY_LIMIT)),
    ],
)
def test_summary_markdown__keeps_to_its_limit_and_breaks_nothing(name: str, limit: int) -> None:
    sample = monster() if name == "monster" else SAMPLES[name]()
    text = summary_markdown(sample, limit=limit, source_url=SOURCE, files={EVIL: EVIL})
    assert len(text.encode("utf-8")) <= limit
    assert text.startswith("## ❌ Failed: ")
    nothing_of_theirs(text, SOURCE + "/", second_parser=False)


def test_summary_markdown__says_that_it_was_shortened() -> None:
    whole, short = (summary_markdown(SAMPLES["many"](), limit=limit) for limit in (1_000_000, 6_000))
    assert "shortened" not in whole
    assert "This summary was shortened to fit." in short
    assert "more cases that did not pass" in short


def test_details__each_step_shows_less() -> None:
    sizes = [len(summary_markdown(SAMPLES["many"](), limit=limit)) for limit in (10**6, 20_000, 5_000)]
    assert sizes == sorted(sizes, reverse=True)
    steps = [(detail.explained, detail.listed, detail.side, detail.log) for detail in SUMMARY_DETAILS]
    assert all(poorer <= richer for richer, poorer in itertools.pairwise(steps))


def test_summary_markdown__refuses_an_impossible_limit() -> None:
    with pytest.raises(ValueError, match="at least 2,000 bytes"):
        summary_markdown(failed(), limit=1_999)


@given(ANY_TEXT)
def test_summary_markdown__holds_any_text(value: str) -> None:
    text = summary_markdown(saying(value, file=value or "x"), source_url=SOURCE)
    nothing_of_theirs(text, SOURCE + "/")
