"""Words, evidence and verdict of thirteen histories. UPDATE_GOLDEN=1 regenerates the page; then read it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from gate_play import Played, Story, play
from history_samples import FILE

from agent_eval.pipeline._regression import decision_report

GOLDEN = Path(__file__).parents[1] / "data" / "golden_histories.txt"

TEN = "1" * 10
STEADY = {f"steady_{number}": TEN for number in range(9)}
THIN = dict.fromkeys(STEADY, "1")


def one(base: str, head: str, more: str, *, base_more: str | None = None, extra_runs: int = 40) -> Story:
    """A case called `lamp` among nine steady ones whose base is as deep."""
    return Story(
        base={**{name: outcomes[-len(base) :] for name, outcomes in STEADY.items()}, "lamp": base},
        head={**THIN, "lamp": head},
        more={"lamp": more},
        base_more=None if base_more is None else {"lamp": base_more},
        extra_runs=extra_runs,
    )


def drop_of_all(more: str) -> Story:
    """Thirty cases that fail now and then on the base, and half of the time now."""
    names = [f"case_{number}" for number in range(30)]
    base = {
        name: "".join("0" if (day + number) % 10 == 0 else "1" for day in range(10))
        for number, name in enumerate(names)
    }
    head = {name: "0" if number % 2 else "1" for number, name in enumerate(names)}
    return Story(base=base, head=head, more=dict.fromkeys(names, more), extra_runs=240)


LUCKLESS = one(TEN, "0", "1")
FLAKY = one("1101011011", "0", "1101011011")
HISTORIES = {
    "Broken: passed ten times on the base branch, never passes now": one(TEN, "0", "0"),
    "Worse: passed ten times on the base branch, passes three times of ten now": one(TEN, "0", "0100100100"),
    "Bad luck: failed at first, passes whenever it runs again": LUCKLESS,
    "Flaky as before: fails three times of ten on both sides": FLAKY,
    "Red on the base branch, and still": one("0" * 10, "0", "0"),
    "Fixed: never passed on the base branch, passes now": one("0" * 20, "1", "1"),
    "Unchanged: passes as ever": one(TEN, "1", "1"),
    "Broken, with one run of the base branch and no way to run it": one("1", "0", "0"),
    "Broken, with one run of the base branch, which can be run again": one("1", "0", "0", base_more="1"),
    "Broken or not, with a budget that allows to look": one(TEN, "0", "0", extra_runs=0),
    "Half of the runs, with one run of the base branch and no way to run it": one("1", "0", "01"),
    "A bad moment: half of thirty cases fail once, and pass when run again": drop_of_all("1"),
    "All thirty cases a little worse": drop_of_all("0111011"),
}


def page_of(title: str, played: Played) -> str:
    lines = [title, "-" * len(title)]
    for decided in played.decision.cases:
        if decided.case_id == f"{FILE}:lamp" or decided.word not in {"unchanged", "flaky as before"}:
            needs = f"; {decided.would_decide}" if decided.would_decide else ""
            numbers = f" [p {decided.p_value:.4f}]" if decided.p_value is not None else ""
            lines.append(
                f"{decided.case_id.removeprefix(FILE + ':')}: {decided.word} ({decided.evidence}){needs}{numbers}"
            )
    lines.append(f"Verdict: {played.verdict.value}, after {played.spent} extra runs")
    lines += [f"  because: {reason.message} <{reason.code}>" for reason in played.verdict.reasons]
    lines += [f"  besides: {note.message} <{note.code}>" for note in played.verdict.notes]
    return "\n".join(lines) + "\n"


def test_decide__the_words_of_thirteen_histories() -> None:
    page = "\n".join(page_of(title, play(story)) for title, story in HISTORIES.items())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(page, encoding="utf-8")
    assert page == GOLDEN.read_text(encoding="utf-8"), "if it reads well: UPDATE_GOLDEN=1 pytest " + Path(__file__).name


@pytest.mark.parametrize(
    ("story", "flaky"), [(FLAKY, (3, 10, "00000002")), (LUCKLESS, None)], ids=["flaky", "luckless"]
)
def test_decision_report__how_flaky_a_case_is_and_since_when(story: Story, flaky: tuple[int, int, str] | None) -> None:
    compared = play(story).compared
    assert compared is not None
    report = decision_report(compared.decision, compared.gathered, compared.base)
    [lamp] = report.cases
    rate = lamp.flakiness
    assert (rate and (rate.failures, rate.runs, rate.since[:8])) == flaky, "what never failed there is not flaky there"
    assert [(runs.head_passed, runs.base_runs) for runs in report.runs] == [(2 if flaky else 4, 10)]


@pytest.mark.parametrize("stored", [1, 2, 3, 4])
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize("more", ["001", "00001", "000001"])
def test_decide__as_many_more_runs_of_the_base_as_it_says_do_decide(alpha: float, more: str, stored: int) -> None:
    def after(runs: str) -> Played:
        story = one(runs, "0", more, extra_runs=100)
        story.policy = f"[[policy]]\nalpha = {alpha}\n"
        return play(story)

    thin = after("1" * stored)
    if thin.verdict.value == "failed":
        assert thin.verdict.reasons[0].code == "case-worse", "so many are enough already"
        return
    assert thin.verdict.value == "inconclusive"
    match = re.search(r"(\d+) more runs? of the base branch would decide", thin.verdict.reasons[0].message)
    assert match is not None

    passing = after("1" * (stored + int(match[1])))
    assert (passing.verdict.value, passing.verdict.reasons[0].code) == ("failed", "case-worse")
    flaky = after("1" * stored + ("011" * 9)[: int(match[1])])
    assert flaky.verdict.value == "passed"
