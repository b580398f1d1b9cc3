"""The order of sources, what came of them, and who may record."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from baseline_samples import REPOSITORY, WORKFLOW, results, sha

from agent_eval.baseline.artifact import may_record
from agent_eval.baseline.lookup import (
    Baseline,
    BaselineRequest,
    FetchFailed,
    Found,
    Incompatible,
    NoneYet,
    Provenance,
    resolve,
    to_report,
)
from agent_eval.results.comparison import BaselineSource
from agent_eval.results.report import Origin
from agent_eval.settings.parsers import AUTO, Choice, parse_order

WANTED = BaselineRequest(
    repository=REPOSITORY,
    base_ref="main",
    commit=sha(9),
    how="the first parent of the merge commit that was tested",
    is_pull_request=True,
    workflow=WORKFLOW,
)
FOUND = Found(
    report=results(),
    provenance=Provenance(
        commit=sha(7), distance=2, run_id=5, run_url="https://github.com/octo/bots/actions/runs/5", recorded_at=1.79e9
    ),
    message="The base branch's results come from main.",
)


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("auto", AUTO),
        ("none", ()),
        (" artifact ", (Choice(source="artifact"),)),
        ("rerun,artifact", (Choice(source="rerun"), Choice(source="artifact"))),
        (
            "artifact, file: evals/base line.json ,rerun",
            (Choice(source="artifact"), Choice(source="file", path="evals/base line.json"), Choice(source="rerun")),
        ),
        (
            "file:a.json,file:./b//c.json",
            (Choice(source="file", path="a.json"), Choice(source="file", path="b/c.json")),
        ),
    ],
)
def test_chain__orders(text: str, choices: tuple[Choice, ...]) -> None:
    assert parse_order(text) == choices


@pytest.mark.parametrize(
    ("message", "texts"),
    [
        ("must be auto, none, or sources in order", ["", "artefact", "auto,rerun", "artifact,none", "artifact,,rerun"]),
        ("must name each source once", ["rerun,artifact,rerun", "file:a.json,file:./a.json"]),
        (
            "with a path inside the repository",
            ["file:", "file:.", "file:/etc/x", "file:../a", "file:a/../../a"],
        ),
    ],
)
def test_parse_order__rejects(message: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=message):
            parse_order(text)


@dataclass
class Source:
    source: BaselineSource
    answer: Baseline
    asked: list[BaselineRequest] = field(default_factory=list)

    async def find(self, request: BaselineRequest) -> Baseline:
        self.asked.append(request)
        return self.answer


async def test_chain__the_first_in_the_callers_order_wins_and_the_rest_is_not_asked() -> None:
    failed = FetchFailed(message="The artifact has expired.")
    sources = [Source("rerun", failed), Source("file", FOUND), Source("artifact", FOUND)]

    outcome = await resolve(sources, WANTED)

    assert isinstance(outcome, Found) and outcome.report is FOUND.report
    assert [step.source for step in outcome.steps] == ["rerun", "file"]
    assert [source.asked for source in sources] == [[WANTED], [WANTED], []]


@pytest.mark.parametrize(
    ("answers", "status", "message"),
    [
        ([NoneYet(message="None."), NoneYet(message="Nor here.")], "none-yet", "None."),
        ([NoneYet(message="None."), FetchFailed(message="403.", hint="Permit it.")], "fetch-failed", "403. Permit it."),
        ([FetchFailed(message="403."), FetchFailed(message="Too late.")], "fetch-failed", "403."),
        ([FetchFailed(message="403."), Incompatible(message="Other judge.")], "incompatible", "Other judge."),
        ([], "none-yet", "No baseline was requested (`baseline: none`)."),
    ],
)
async def test_chain__the_weightiest_reason_is_the_reason_and_all_are_reported(
    answers: list[Baseline], status: str, message: str
) -> None:
    sources: list[BaselineSource] = ["artifact", "file"]
    outcome = await resolve([Source(name, item) for name, item in zip(sources, answers, strict=False)], WANTED)

    report = to_report(outcome, WANTED)

    assert (report.status, report.message) == (status, message)
    assert (report.source, report.commit, report.distance) == (None, None, None)
    assert report.wanted_commit == sha(9)
    assert len(report.steps) == len(answers)


async def test_chain__a_baseline_is_reported_with_its_provenance() -> None:
    before = NoneYet(message="There is no file.", hint="Commit one.")
    outcome = await resolve([Source("file", before), Source("artifact", FOUND)], WANTED)

    report, found = to_report(outcome, WANTED), FOUND.provenance
    assert (report.status, report.branch, report.source, report.message) == ("found", "main", "artifact", FOUND.message)
    assert (report.commit, report.distance, report.wanted_commit) == (found.commit, found.distance, sha(9))
    assert (report.run_url, report.recorded_at) == (found.run_url, found.recorded_at)
    assert [(step.source, step.status, step.message) for step in report.steps] == [
        ("file", "none-yet", "There is no file. Commit one."),
        ("artifact", "found", FOUND.message),
    ]


def _origin(**changes: object) -> Origin:
    facts = {"repository": REPOSITORY, "commit": sha(1), "ref": "refs/heads/main", "event": "push"}
    return Origin.model_validate(facts | changes)


@pytest.mark.parametrize(
    ("origin", "allowed", "why"),
    [
        (_origin(), True, "A run of main records the baseline"),
        (_origin(event="schedule"), True, "A run of main"),
        (_origin(event="workflow_dispatch"), True, "A run of main"),
        (_origin(ref="refs/heads/release/2"), True, "A run of release/2"),
        (
            _origin(ref="refs/heads/feature"),
            False,
            "Baselines are recorded on main and release/2 only; this is feature.",
        ),
        (_origin(ref="refs/tags/main"), False, "this is refs/tags/main"),
        (_origin(ref=""), False, "this is no branch"),
        (_origin(event="pull_request", pull_request=3), False, "this is pull_request"),
        (_origin(event="push", pull_request=3), False, "Only a push, a schedule or a dispatch"),
        (_origin(event="pull_request_target"), False, "this is pull_request_target"),
        (_origin(event="merge_group"), False, "this is merge_group"),
        (_origin(event="workflow_run"), False, "this is workflow_run"),
        (_origin(event=""), False, "this is a run outside of CI"),
        (Origin(), False, "The tested branch is unknown"),
        (None, False, "The tested branch is unknown"),
    ],
)
def test_chain__only_runs_of_the_base_branch_record(origin: Origin | None, allowed: bool, why: str) -> None:
    permission = may_record(origin, branches=["release/2", "main"])

    assert permission.allowed is allowed
    assert why in permission.why
