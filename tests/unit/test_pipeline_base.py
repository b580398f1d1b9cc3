"""What the pipeline does with the base branch, and with a part."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import os
import subprocess
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import report_samples
from base_repos import new_repo
from baseline_samples import case as base_case
from baseline_samples import results
from golden_files import check
from history_samples import comparable, compare
from history_samples import report as history_report
from policy_texts import policy_of
from recording_samples import facts
from report_samples import case, report
from runner_doubles import EchoAgent, planned

from agent_eval.baseline import Found, to_report
from agent_eval.baseline.archive import StoredRecordings
from agent_eval.baseline.lookup import BaselineRequest, FetchFailed, Provenance
from agent_eval.baseline.rerun import BaseWorktree, RerunSource
from agent_eval.gate import regression
from agent_eval.gate.history import extend
from agent_eval.gate.stats import Series
from agent_eval.gate.stats.decision import Budget, Rules
from agent_eval.pipeline._agents import add_changes
from agent_eval.pipeline._attempts import _about, _unpacked, memory_of, runs_remembered
from agent_eval.pipeline._base_checkout import BaseCheckout, interpreter_for_base
from agent_eval.pipeline._checkout import Checkout, surroundings
from agent_eval.pipeline._regression import Base, Confirmation, pair_with_base, store_baseline_recordings
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.pipeline.context import Preparation, RunContext
from agent_eval.pipeline.shards._part import _shares, part_verdict
from agent_eval.runner.bill import Bill
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan
from agent_eval.settings import read_settings
from agent_eval.settings.settings import Settings
from agent_eval_agents.discovery.locate import AgentChoices
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval_agents.sandbox.isolation import NO_PROCESS
from agent_eval_agents.venv import AgentInterpreter
from agent_eval_results import (
    BASELINE_RECORDINGS,
    AgentFacts,
    AgentTree,
    Recording,
    RunError,
    RunReport,
    Runs,
    ShardReport,
    StoredLines,
)
from agent_eval_results.data.comparison import BaselineReport, BaselineStep
from agent_eval_results.data.decision import DecisionReport
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.report import SCORING_VERSION
from agent_eval_results.outcome import Lookups
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.evalset.models import CriterionConfig, EvalCase, EvalConfig, EvalSet, LoadedFile
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS
from agent_eval_scoring.evalset.models.schema import ConversationScenario
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models import Meter
from agent_eval_scoring.models.settings import Budget as ModelBudget

# What differs from the base branch's agents, by what is known of the base's commit.


def tree(model: str) -> AgentTree:
    return AgentTree(agent="home", agents=[AgentFacts(name="home", model=model)])


@pytest.mark.parametrize(("commit", "wanted", "codes"), [("a", "a", ["model"]), ("a", "b", []), ("a", None, ["model"])])
def test_add_changes__without_git_an_older_base_proves_nothing(
    tmp_path: Path, commit: str, wanted: str | None, codes: list[str]
) -> None:
    report = report_samples.report("passed", [])
    report.agents = [tree("a-small")]
    report.baseline = BaselineReport(status="found", source="artifact", commit=commit, wanted_commit=wanted, message="")
    add_changes(report, [tree("a-large")], LOCAL, tmp_path, lambda _: None)
    assert [change.code for change in report.agent_changes] == codes


def test_base_checkout__an_interpreter_in_the_checkout_is_found_from_the_worktree_of_the_base(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    found = interpreter_for_base(".venv/bin/python", tmp_path)
    assert found == f"{tmp_path}/.venv/bin/python"
    for given in (None, "missing/bin/python", "/usr/bin/python3", "python3.12", "poetry run python"):
        assert interpreter_for_base(given, tmp_path) == given


def test_in_checkout__absolute_paths_of_the_head_lead_into_the_base(tmp_path: Path) -> None:
    def settings(top: Path) -> Settings:
        return Settings(
            root=top / "app",
            paths=(f"{top}/app/evals/a.test.json:one", "evals"),
            config=top / "shared" / "test_config.json",
            initial_session=Path("session.json"),
            agent=str(top / "app" / "bot"),
            agents={"**": str(top / "app" / "bot"), "x/**": "bot"},
            agent_requirements=Path("/etc/requirements.txt"),
            agent_cwd=str(top / "app" / "data"),
        )

    head, base = (tmp_path / "head").resolve(), (tmp_path / "base").resolve()
    checkout = BaseWorktree(root=base / "app", top=base, head_top=head, commit="0" * 40)
    assert settings(head).in_checkout(checkout.root, checkout.corresponding) == settings(base)


# What a report keeps of the base branch for its readers.


FILE = "evals/a.test.json"


def recordings(*names: str) -> StoredRecordings:
    lines = [json.dumps(facts(name, file=FILE)) for name in names]
    return StoredRecordings(data=gzip.compress("\n".join(lines).encode()))


def compared(head: RunReport, base: RunReport, stored: StoredRecordings | None) -> tuple[RunReport, Base | None]:
    step = BaselineStep(source="artifact", status="found", message="Found.")
    found = Found(
        report=base, provenance=Provenance(commit="a" * 40), message="Found.", recordings=stored, steps=(step,)
    )
    head.comparison, head.baseline = compare(head, base), to_report(found, None)
    return head, pair_with_base(head, found, 20, Plan(cases=(), num_runs=1))


def test_store_baseline_recordings__cases_that_failed_or_differ_by_their_ids_on_the_base_branch(tmp_path: Path) -> None:
    renamed = base_case("new_name", "failed").model_copy(update={"fingerprint": "c-old_name"})
    head = results(base_case("same"), base_case("red", "failed"), base_case("fixed"), renamed)
    there = results(
        base_case("same"),
        base_case("red", "failed"),
        base_case("fixed", "failed"),
        base_case("old_name"),
        base_case("gone"),
        base_case("new_name").model_copy(update={"fingerprint": "another case"}),
    )
    report, base = compared(head, there, recordings("same", "red", "fixed", "old_name", "gone", "new_name"))

    assert {case_id.split(":")[1] for case_id in Lookups(report=report).notable} == {"red", "fixed", "new_name"}
    store_baseline_recordings(report, base, tmp_path)
    stored = list(StoredLines(path=tmp_path / BASELINE_RECORDINGS, model=Recording))
    assert [line.eval_id for line in stored] == ["red", "fixed", "old_name", "gone", "new_name"]
    assert report.baseline is not None and report.baseline.recordings_note is None


def test_store_baseline_recordings__a_failure_is_a_note_and_nothing_else(tmp_path: Path) -> None:
    report, base = compared(results(base_case("red", "failed")), results(base_case("red")), recordings("red"))
    (tmp_path / "base").write_text("a file", "utf-8")
    store_baseline_recordings(report, base, tmp_path)
    assert report.baseline is not None and report.baseline.recordings_note is not None
    assert report.baseline.recordings_note.startswith("The baseline's recordings could not be written: ")

    without, base = compared(results(base_case("red", "failed")), results(base_case("red")), None)
    store_baseline_recordings(without, base, tmp_path / "other")
    assert without.baseline is not None and without.baseline.recordings_note is None
    assert not (tmp_path / "other").exists()


# Extra runs of the pipeline: of which side, how many, and what ends them.


NEVER_LEARNS, LEARNED = 1_000, 0
PLAN = Plan(cases=(planned("steady"), planned("odd", "learning")), num_runs=1)


@dataclass(kw_only=True)
class Sides:
    """A head that fails `odd` in every run, and a base that never does."""

    head: EchoAgent
    base: EchoAgent
    head_checkout: Checkout
    base_checkout: BaseCheckout
    confirmation: Confirmation
    messages: list[str]
    """In the log."""

    async def decide(self) -> DecisionReport:
        async with asyncio.timeout(20):
            decision, _ = await self.confirmation.decide()
        return decision

    @property
    def extra(self) -> tuple[list[str], list[str]]:
        """The messages that both agents got after the screening."""
        return self.head.sent[2:], self.base.sent


@contextlib.asynccontextmanager
async def sides(folder: Path, *, stored: int, base: EchoAgent | None = None, **settings: Any) -> AsyncIterator[Sides]:
    message: list[str] = []
    async with contextlib.AsyncExitStack() as stack:

        def checkout(agent: EchoAgent, name: str) -> Checkout:
            (folder / name).mkdir()
            journal = Journal(folder / name / "journal.jsonl", resume=False)
            stack.callback(journal.close)
            return Checkout(
                settings=Settings(root=folder, **settings),
                context=RunContext(environ={}, log=message.append),
                agents={"agent": agent},
                isolation=NO_PROCESS,
                journal=journal,
                limiter=Limiter(4),
                models=None,
                until=time.monotonic() + 600,
            )

        head, base = EchoAgent(first_runs_fail=NEVER_LEARNS), base or EchoAgent(first_runs_fail=LEARNED)
        history = HistoryReport(scoring_version=SCORING_VERSION, keep=10)
        for day in range(stored):
            past = checkout(EchoAgent(first_runs_fail=LEARNED), f"day{day}")
            history = extend(history, history_report(*await past.execute(PLAN), day=day))
        head_checkout = checkout(head, "head")
        base_checkout = BaseCheckout(
            head=head_checkout, plan=PLAN, choices=AgentChoices(by_file={}, problems=()), commit="0" * 40, stack=stack
        )
        base_checkout._checkout, base_checkout._plan = checkout(base, "base"), PLAN
        first = await head_checkout.execute(PLAN)
        confirmation = Confirmation(
            checkout=head_checkout,
            plan=PLAN,
            base_checkout=base_checkout,
            report=history_report(*first, pull_request=7),
            history=history,
            comparable=comparable(first, history),
        )
        yield Sides(
            head=head,
            base=base,
            head_checkout=head_checkout,
            base_checkout=base_checkout,
            confirmation=confirmation,
            messages=message,
        )


def down() -> EchoAgent:
    return EchoAgent(refuses=AgentFailure("503", kind=FailureKind.PROVIDER, owner=Owner.PROVIDER))


def without_checkout(made: Sides) -> None:
    made.base_checkout._checkout = None


def without_time(made: Sides) -> None:
    made.head_checkout.until = time.monotonic() - 1


def without_money(made: Sides) -> None:
    meter = Meter(ModelBudget(max_cost=1.0))
    meter.pay(1.0)
    made.head_checkout.bill = Bill(prices={}, meter=meter)


def stopped(made: Sides) -> None:
    made.head_checkout.context.stop.set()


RUNS: dict[str, tuple[dict[str, Any], Callable[[Sides], None] | None]] = {
    "one stored run": ({"stored": 1}, None),
    "always on the base": ({"stored": 10, "confirm_on_base": "always"}, None),
    "never on the base": ({"stored": 1, "confirm_on_base": "never"}, None),
    **{f"{stored} stored runs": ({"stored": stored}, None) for stored in (6, 10)},
    "a base of today": ({"stored": 6, "facts": {"same_day": True}}, None),
    **{f"{most} extra runs": ({"stored": 1, "max_extra_runs": most}, None) for most in (0, 2, 7)},
    "recorded answers are not asked for again": ({"stored": 10, "facts": {"no_more": "recorded"}}, None),
    "the time is over": ({"stored": 10}, without_time),
    "the budget is used up": ({"stored": 10}, without_money),
    "a stop": ({"stored": 10}, stopped),
    "a base that can't be checked out leaves it to the threshold": ({"stored": 1}, without_checkout),
    "a base that gives no answers is not asked for ever": ({"stored": 1, "base": down}, None),
}


async def test_regression__a_suspicious_case_alone_is_run_again_and_the_base_where_its_runs_are_few(
    tmp_path: Path,
) -> None:
    page = []
    for number, (name, (settings, change)) in enumerate(RUNS.items()):
        (tmp_path / str(number)).mkdir()
        given = dict(settings)
        base, facts = given.pop("base", None), given.pop("facts", {})
        async with sides(tmp_path / str(number), base=base and base(), **given) as made:
            for fact, value in facts.items():
                setattr(made.confirmation, fact, value)
            if change is not None:
                change(made)
            decision = await made.decide()
        page += [f"# {name}", f"{decision.outcome} after {decision.extra_runs}"]
        page += [f"{side}: {dict(Counter(sent))}" for side, sent in zip(("head", "base"), made.extra, strict=True)]
        page += [f"because {reason.code} {reason.data}" for reason in decision.reasons]
        page += [f"{each.case_id}: {each.word}, lacks {each.lacks}" for each in decision.cases]
        page += [f"base: {case.eval_id}, {len(case.runs)} runs" for case in made.confirmation.base]
        page += [*made.confirmation.notices, *made.messages]
    check("golden_extra_runs.txt", "\n".join(page) + "\n")


async def test_run_base__a_group_whose_agent_cannot_start_leaves_the_results_of_another(tmp_path: Path) -> None:
    async with sides(tmp_path, stored=1) as made:
        checkout = made.base_checkout._checkout
        assert checkout is not None
        refused = AgentFailure("ImportError: no", kind=FailureKind.IMPORT)
        checkout.agents = {**checkout.agents, "other": EchoAgent(refuses=refused)}
        plan = Plan(cases=(planned("steady", "sleep:0.3"), planned("odd", agent="other")), num_runs=1)
        made.base_checkout._plan = plan
        names = {case.case_id: case.case_id for case in plan.cases}
        steady, odd = names
        cases = await made.confirmation._run_base({steady: 1, odd: 2}, names)
        assert [(case.case_id, case.status) for case in cases] == [(steady, "passed")]
        assert made.confirmation.base_checkout is not None
        assert await made.confirmation._run_base({odd: 2}, names) == []
        assert made.confirmation.base_checkout is None
        [notice] = made.confirmation.notices
        assert notice.endswith("The base's agent can't be started in its worktree: ImportError: no.")


async def test_run_base__without_a_temporary_directory_it_is_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = new_repo(tmp_path / "repo")
    commit = repo.commit({"a.txt": ""})
    (tmp_path / "sides").mkdir()
    async with sides(tmp_path / "sides", stored=1) as made:
        checkout = made.head_checkout
        checkout.context = replace(checkout.context, ci=replace(LOCAL, git=repo.opened()))
        made.base_checkout._checkout, made.base_checkout.commit = None, commit
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        decision = await made.decide()
    assert decision.outcome == "failed"
    [notice] = made.confirmation.notices
    assert notice.startswith("The base branch could not be run to confirm a regression: [Errno 2] No such file")


@pytest.mark.parametrize(("owner", "code"), [(Owner.PROVIDER, "agent-environment"), (Owner.AGENT, None)])
async def test_report__an_outage_while_its_environment_is_made_is_one(
    tmp_path: Path, owner: Owner, code: str | None
) -> None:
    base = EchoAgent(refuses=AgentFailure("PyPI is down", kind=FailureKind.ENVIRONMENT, owner=owner))
    async with sides(tmp_path, stored=1, base=base) as made:

        @contextlib.asynccontextmanager
        async def checkout(*_: object, **__: object) -> AsyncIterator[BaseWorktree]:
            yield BaseWorktree(root=tmp_path, top=tmp_path, head_top=tmp_path, commit="0" * 40)

        git = new_repo(tmp_path / "repo").opened()
        source = RerunSource(git=git, run=lambda _: made.base_checkout.report(1), checkout=checkout)
        request = BaselineRequest(repository="", base_ref="main", commit="0" * 40, how="", is_pull_request=True)
        answer = await source.find(request)
    assert isinstance(answer, FetchFailed) and (answer.outage and answer.outage.code) == code


async def test_make__an_exception_of_one_side_ends_the_other(tmp_path: Path) -> None:
    async with sides(tmp_path, stored=1) as made:
        made.base_checkout._plan = Plan(cases=(planned("steady", "sleep:60"),), num_runs=1)
        made.confirmation.plan = Plan(cases=(planned("odd", "bug"),), num_runs=1)
        runs = Runs(head={"a.test.json:odd": 1}, base={"a.test.json:steady": 1}, why="suspects")
        with pytest.raises(RuntimeError, match="a bug of the driver"):
            await made.confirmation._make(runs, {"a.test.json:steady": "a.test.json:steady"})
        assert made.base.in_flight == 0


async def test_earlier_runs__of_attempts_that_did_not_pass_and_a_screening_that_is_this_ones_counts_once(
    tmp_path: Path,
) -> None:
    """A merge that is started again, and a resumed run, have the screening runs of the attempt before."""
    async with sides(tmp_path, stored=10) as made:
        confirmation, report = made.confirmation, made.confirmation.report
        report.decision = await made.decide()
    report.confirmations, report.base_runs = confirmation.head, confirmation.base
    other = report.model_copy(deep=True)
    for run in (run for each in other.cases for run in each.runs):
        run.run_id = f"another {run.run_id}"
    passed = other.model_copy(update={"decision": report.decision.model_copy(update={"outcome": "passed"})})
    given = report.cases, confirmation.history, confirmation.comparable, made.head_checkout.settings.policy

    earlier = regression.earlier_runs([other, report, passed, other.model_copy(update={"decision": None})], *given)

    first, shared = earlier["a.test.json:odd"]
    assert (first.head_screen, shared.head_screen) == ((0.0,), ())
    assert first.head_confirm == shared.head_confirm == (0.0,) * 3 and first.base_confirm == (1.0,) * 2


async def test_memory__says_what_the_results_of_the_attempt_say(tmp_path: Path) -> None:
    async with sides(tmp_path, stored=10) as made:
        confirmation, report = made.confirmation, made.confirmation.report
        report.decision, gathered = await confirmation.decide()
    report.confirmations, report.base_runs = confirmation.head, confirmation.base
    assert report.origin is not None
    ids = [case.case_id for case in report.cases]
    about = _about(report.origin.commit, ids)
    left = [memory_of(report, gathered), memory_of(report, None)]

    found = [_unpacked(data, about) for data in left]

    others = [_about(report.origin.commit, ids[:1]), _about("f" * 40, ids)]
    assert [_unpacked(left[0], other) for other in others] == [None, None], "another job's, or of another commit"
    assert len(left[0]) < 300 and None not in found
    given = confirmation.history, confirmation.comparable, made.head_checkout.settings.policy
    other = report.model_copy(deep=True)
    for run in (run for each in other.cases for run in each.runs):
        run.run_id = f"another {run.run_id}"
    expected = regression.earlier_runs([other], report.cases, *given)
    remembered = runs_remembered([each for each in found if each is not None], ids)
    assert {case_id: [values_of(each) for each in series] for case_id, series in remembered.items()} == {
        case_id: [values_of(each) for each in series] for case_id, series in expected.items()
    }
    assert values_of(expected["a.test.json:odd"][0]) == ((0.0,), (0.0,) * 3, (1.0,) * 2)


def values_of(series: Series) -> tuple[tuple[float, ...], ...]:
    return series.head_screen, series.head_confirm, series.base_confirm


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"about": "c", "usual": "", "cases": []}',
        b'{"about": "other", "usual": "1  ", "cases": {}}',
        b'{"about": "c", "usual": "1 2 ", "cases": {}}',
        b'{"about": "c", "usual": 1, "cases": {}}',
        b'{"about": "c", "usual": "1  ", "cases": {"0": ["ab"]}}',
        b'{"about": "c", "usual": "1  ", "cases": {"0  ": [["ab"]]}}',
        b'{"about": "c", "usual": "1  ", "cases": {"0  ": 1}}',
        b"[" * 200_000,
        b'{"about": "c", "usual": "' + b"1" * 2_000_000 + b'  ", "cases": {}}',
    ],
)
def test_memory__that_somebody_edited_is_none(content: bytes) -> None:
    assert _unpacked(base64.b64encode(zlib.compress(content)).decode(), "c") is None
    assert _unpacked(base64.b64encode(content).decode(), "c") is None
    assert _unpacked("no base64", "c") is None


@pytest.mark.parametrize(
    ("setting", "same_day", "has_base", "runs"),
    [
        ("auto", False, True, 8 * 100),
        ("auto", True, True, 10 * 100),
        ("auto", False, False, 5 * 100),
        ("never", False, True, 5 * 100),
    ],
)
async def test_regression__the_limit_of_extra_runs_follows_settings_and_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, same_day: bool, has_base: bool, runs: int
) -> None:
    """100 cases; with a compared metric beside pass or fail half as many again."""
    asked: list[int | None] = []

    def decide(evidence: object, rules: Rules, budget: Budget, retrials: object = ()) -> DecisionReport:
        asked.append(budget.extra_runs)
        return DecisionReport(outcome="passed", alpha=0.05)

    monkeypatch.setattr(regression, "next_step", decide)
    compared, _ = policy_of('[[policy]]\nmetric = "response_match_score"\nmax-drop = 0.1\n')
    async with sides(tmp_path, stored=1, confirm_on_base=setting) as made:
        made.confirmation.same_day = same_day
        made.confirmation.report.cases *= 50
        if not has_base:
            made.confirmation.base_checkout = None
        await made.decide()
        made.head_checkout.settings = replace(made.head_checkout.settings, policy=compared)
        await made.decide()
    assert asked == [runs, runs * 3 // 2]


# One part's share of the budget of the whole run.


def judged(name: str) -> CriterionConfig:
    options: dict[str, Any] = {"threshold": 1.0, "judge_model_options": {"num_samples": 5}}
    return criterion(name, CRITERION_MODELS[name].model_validate(options))


def test_share__all_parts_together_never_exceed_the_whole(tmp_path: Path) -> None:
    turn: Any = {"user_content": {"role": "user", "parts": [{"text": "hi"}]}}
    fixed = [EvalCase.model_validate({"eval_id": name, "conversation": [turn]}) for name in ("a", "b")]
    plan = ConversationScenario(starting_prompt="hi", conversation_plan="p")
    unlimited = EvalCase(eval_id="s", conversation_scenario=plan)
    file = LoadedFile(
        path="x.test.json",
        eval_set=EvalSet(eval_set_id="x", eval_cases=[*fixed, unlimited]),
        config=EvalConfig(
            source=None,
            criteria=(judged("final_response_match_v2"),),
            user_simulator_config={"max_allowed_invocations": -1},
        ),
        cases=(*fixed, unlimited),
    )
    settings, _ = read_settings(tmp_path)

    for shares in zip(
        *(
            _shares([file], {f"x.test.json:{name}"}, settings.judge_model, settings.num_runs)
            for name in ("a", "b", "s")
        ),
        strict=True,
    ):
        assert {share.everywhere for share in shares} == {sum(share.here for share in shares)}
        assert all(share.here > 0 for share in shares)


@pytest.mark.parametrize(("owners", "remedy"), [("gate gate", "tools"), ("gate provider", "again")])
def test_part_verdict__says_what_completes_the_part(owners: str, remedy: str) -> None:
    shard = ShardReport(index=1, total=2, plan="p", cases=["a", "b"], suite_cases=3, weights_from="turns")
    cases = [
        case(f"c{number}", "errored", errors={0: RunError(kind="tool-tape-stale", owner=owner, message="m")})
        for number, owner in enumerate(owners.split())
    ]

    [reason] = part_verdict(shard, report("inconclusive", cases)).reasons

    assert reason.data == {"part": 1, "total": 2, "runs": 2, "count": 2, "remedy": remedy}


# What a resumed run has in common with the one before, beside files.


def test_surroundings__names_of_secrets_values_of_other_variables_and_versions(tmp_path: Path) -> None:
    def around(variables: dict[str, str], packages: str = "1", **settings: str) -> str:
        sandbox = replace(NO_PROCESS.sandbox, environment=variables)
        versions = {"python": "3.11", "packages": packages}
        python = AgentInterpreter(
            python=("python",), origin="", seconds=0.0, reused=True, versions=versions, environment={}
        )
        isolation, root = replace(NO_PROCESS, sandbox=sandbox), tmp_path / "root"
        return surroundings(isolation, Preparation(interpreter=python), root, start=list(settings.values()))

    usual = {"OPENAI_MODEL": "a", "MY_TOKEN": "one-secret", "PATH": "/bin", "HOME": "/root"}
    same = around(usual)
    assert around({**usual, "PATH": "/usr/bin", "HOME": "/home"}) == same
    assert around({**usual, "MY_TOKEN": "a-rotated-one"}) == same
    others = [{**usual, "OPENAI_MODEL": "b"}, {**usual, "OTHER": ""}, {"OPENAI_MODEL": "a"}]
    assert len({same, around(usual, "2"), around(usual, agent_cwd="root"), *map(around, others)}) == 6

    # Modules of a sibling, of a folder in the checkout that git ignores, and of an archive.
    (tmp_path / "root").mkdir()
    subprocess.run(["git", "init", "-q", str(tmp_path / "root")], check=True)
    (tmp_path / "root" / ".gitignore").write_text("built\n", "utf-8")
    for path in ("../lib", "built", "../lib/all.zip"):
        modules = {**usual, "PYTHONPATH": f".{os.pathsep}{path}"}
        (tmp_path / "root" / path).parent.mkdir(exist_ok=True, parents=True)
        module = tmp_path / "root" / path if path.endswith(".zip") else tmp_path / "root" / path / "shared" / "a.py"
        module.parent.mkdir(exist_ok=True, parents=True)
        module.write_text("V = 1", "utf-8")
        before = around(modules)
        module.with_name("a.pyc").write_text("compiled", "utf-8")
        assert around(modules) == before != same, path
        module.write_text("V = 2", "utf-8")
        assert around(modules) != before, path
