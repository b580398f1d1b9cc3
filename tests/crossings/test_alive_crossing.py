"""Dead or alive: what a pull request did to its agent x `gate` x the baseline.

A dead agent is never green: with `advisory` the exit code is 0, and the first line says what would have failed. A
baseline of a dead run excuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from alive_changes import BASE_FILES, BEFORE_HALL_STATE, CHANGES
from base_repos import new_repo
from crossing_table import Cell, Row, Table
from fake_github import FakeGitHub
from gate_runs import Done, Repository, patience
from pull_requests import Lab

GATES = ("auto", "thresholds", "regressions", "both", "advisory")
USABLE = ("artifact", "stale artifact", "file", "rerun")
UNUSABLE = ("none", "artifact of a dead run", "rerun of a dead base")
GREEN = ("fine", "refactored", "new file", "renamed file", "deleted file")
LOW = (
    *("tool wrong", "one wrong tool", "empty answers", "removed cases", "renamed cases"),
    *("criteria lowered", "criteria dropped", "criteria deleted", ".gitignore"),
)
"""Agents that answer, and wrongly. The last six also change what is asked of them."""
ERRORS = {"tool raises": "agent-error", "hang, one": "agent-error", "exit, one": "agent-crash"}
"""Agents that answer in other cases, and the reason beside a baseline."""
UNLOADED = ("import error", "exit at import")
"""Agents that can't be imported."""
DEAD = {
    "hang, all": "deadline",
    "out of memory": "agent-exception",
    "SIGKILL": "agent-crash",
}
"""Agents that can be imported and never answer, and the reason beside a baseline."""
WORSE = "worse than main"
"""Stands for the codes of a case, or of cases, that are worse than on the base branch."""
CODES_OF_WORSE = {"case-worse", "cases-worse-together", "suite-worse", "broken-case"}

Outcome = tuple[int, str, frozenset[str]]
"""Exit code, verdict, codes of the reasons."""


def outcome(code: int, verdict: str, *codes: str) -> Outcome:
    return code, verdict, frozenset(codes)


def compared(
    change: str | tuple[str, ...], *codes: str, also: str = "", baseline: tuple[str, ...] = USABLE
) -> list[Row]:
    """What a comparison finds; `both` adds the thresholds' reason."""
    where = {"change": change, "baseline": baseline}
    codes = tuple(filter(None, (*codes, also)))
    return [
        Row(where={**where, "gate": ("auto", "regressions")}, expect=outcome(1, "failed", *codes)),
        Row(where={**where, "gate": "both"}, expect=outcome(1, "failed", "failed", *codes)),
    ]


TABLE = Table(
    name="alive",
    axes={"change": tuple(CHANGES), "gate": GATES, "baseline": USABLE + UNUSABLE},
    rows=(
        Row(where={"change": GREEN}, expect=outcome(0, "passed")),
        Row(where={"gate": "advisory"}, expect=outcome(0, "passed", "advisory")),
        # Where nothing can be compared, the thresholds decide.
        *(
            Row(where={**where, "change": changes}, expect=outcome(1, "failed", "failed", *more))
            for where in ({"gate": "thresholds"}, {"baseline": UNUSABLE})
            for changes, more in (((*LOW, *ERRORS), ()), ((*DEAD, *UNLOADED), ("nothing-scored",)))
        ),
        Row(
            where={"change": UNLOADED},
            expect=outcome(1, "failed", "failed", "nothing-scored"),
            cause="no case of an agent that can't be imported can be compared, so the thresholds decide",
        ),
        # The stale artifact has no results of the case that main has added since: it must reach its thresholds.
        *compared(
            ("tool wrong", "one wrong tool", "empty answers"), WORSE, "not-comparable", baseline=("stale artifact",)
        ),
        *compared(LOW, WORSE),
        *(row for change, code in ERRORS.items() for row in compared(change, code)),
        *(row for change, code in DEAD.items() for row in compared(change, code, "nothing-scored")),
    ),
)


def test_alive__table() -> None:
    TABLE.check()


@pytest.mark.parametrize("cell", TABLE.cells_to_run(shared=["baseline"]))
def test_alive(cell: Cell, lab_of: Callable[[str], Lab]) -> None:
    lab = lab_of(cell["baseline"])

    done = _pull_request(lab, cell)

    assert _outcome_of(done) == TABLE.expected(cell), (done.report.reasons, done.out + done.err)
    assert _baseline_of(done) == BASELINES[cell["baseline"]], done.report.baseline
    if cell["gate"] == "advisory" and cell["change"] not in GREEN:
        assert "Does not block, since `gate` is `advisory`: " in done.out, done.out


BASELINES: Mapping[str, tuple[str, int | None] | None] = {
    "none": None,
    "artifact": ("found", 0),
    "stale artifact": ("found", 1),
    "file": ("found", None),
    "rerun": ("found", 0),
    "artifact of a dead run": ("none-yet", None),
    "rerun of a dead base": ("fetch-failed", None),
}
"""Status and distance of the baseline that each value of the axis leads to."""


def _outcome_of(done: Done) -> Outcome:
    codes = {reason.code for reason in done.report.reasons}
    return outcome(done.code, done.report.verdict, *(WORSE if code in CODES_OF_WORSE else code for code in codes))


def _baseline_of(done: Done) -> tuple[str, int | None] | None:
    baseline = done.report.baseline
    return None if baseline is None else (baseline.status, baseline.distance)


def _pull_request(lab: Lab, cell: Cell) -> Done:
    baseline = {"file": "file:base.json", "none": "none"}.get(cell["baseline"], cell["baseline"].split(" of ")[0])
    arguments = ["--gate", cell["gate"], "--baseline", baseline.removeprefix("stale ")]
    if cell["change"].startswith("hang"):
        arguments += ["--turn-timeout", str(round(2 * patience(), 1))]
    number = len(lab.github.state.pulls) + 1
    return lab.pull_request(number, None, *arguments, files={**BASE_FILES, **CHANGES[cell["change"]]}, timeout=120)


@pytest.fixture(scope="module")
def lab_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    """The repository of a baseline; each is made once, and all pull requests of the cells are opened in it."""
    labs: dict[str, Lab] = {}
    with ExitStack() as stack:

        def lab_of(baseline: str) -> Lab:
            if baseline not in labs:
                github = stack.enter_context(FakeGitHub())
                labs[baseline] = _lab(tmp_path_factory.mktemp("lab") / "repo", github, baseline)
                stack.callback(labs[baseline].repository.end)
            return labs[baseline]

        yield lab_of


def _lab(root: Path, github: FakeGitHub, baseline: str) -> Lab:
    lab = Lab(repository=Repository(root=root), github=github, repo=new_repo(root))
    dead = CHANGES["import error"] if "dead" in baseline else {}
    lab.commit(None, **{**BASE_FILES, **dead, **(BEFORE_HALL_STATE if baseline == "stale artifact" else {})})
    if "artifact" in baseline or baseline == "file":
        done = lab.base_run(upload="artifact" in baseline, code=1 if dead else 0)
    if baseline == "file":
        lab.commit(None, **BASE_FILES, **{"base.json": (done.output / "results.json").read_text("utf-8")})
    if baseline == "stale artifact":
        lab.commit(None, **BASE_FILES)
    return lab
