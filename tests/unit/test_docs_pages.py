"""What the pages of docs/ say is what the code does."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, get_args

import draw_statistics
import gate_error_rates as bench
import history_samples
import pytest
import site_of_docs
import year
from docs_pages import ROOT, blocks, codes, page, rows, section
from golden_files import check_part
from markdown_pages import rendered
from ruamel.yaml import YAML

import agent_eval
from agent_eval.cli import _parser
from agent_eval.forge import Event, RunStamp
from agent_eval.forge.comments import marked
from agent_eval.gate import evaluation, verdict
from agent_eval.gate.policy import DEFAULT_ALPHA, DEFAULT_MAX_QUARANTINED, NOTICE_DAYS, Gate, case_matcher
from agent_eval.gate.regression import _decide, sequential
from agent_eval.gate.stats import families, suspects
from agent_eval.gate.verdict import EXIT_CODES, decide
from agent_eval.github import _activity as activities
from agent_eval.github._activity import activity
from agent_eval.github.events import GitHubEvent
from agent_eval.pipeline import recording_refused
from agent_eval.pipeline.ci_context import LOCAL
from agent_eval.runner import execution
from agent_eval.settings import SETTINGS, Setting, Settings, read_settings
from agent_eval.settings import _policy_file as policy_file
from agent_eval_agents.discovery import AgentChoice
from agent_eval_agents.discovery.finder import Finder
from agent_eval_agents.driver import ServerSpec
from agent_eval_agents.protocol import FailureKind
from agent_eval_results import NOTHING_SCORED
from agent_eval_results.data.exact_tests import wilson
from agent_eval_results.data.folder import FILES, JOURNAL
from agent_eval_results.data.merging import WITHOUT_KEY, merge
from agent_eval_results.data.origin import CaseWord
from agent_eval_results.data.report import SHARD_MISSING, CaseReport, CaseStatus, MetricStatus
from agent_eval_results.data.trend import ALPHA, CASE_ALPHA
from agent_eval_results.report.renderers.outputs import OUTPUTS
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.evalset.metric_runner import MetricFailureKind
from agent_eval_scoring.evalset.models import METRICS
from agent_eval_scoring.simulation.protocol import CODES
from agent_eval_scoring.simulation.simulated import TEMPLATE_CODE
from agent_eval_workbench.authoring.prospects import FIELD_OF
from agent_eval_workbench.authoring.review import _HELP
from agent_eval_workbench.commands.flaky import FlakyReport, Proposal, render_toml

# docs/architecture.md describes the packages as they are, and links between pages lead to headings that exist.

HOUSES = ("agent_eval", "agent_eval_agents", "agent_eval_results", "agent_eval_scoring", "agent_eval_workbench")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PAGES = [
    path
    for folder in (".", "docs", "benchmarks", "findings", "tests", "examples")
    for path in sorted((ROOT / folder).glob("*.md"))
]


def table(house: str) -> str:
    """The table of the packages of a house."""
    return ARCHITECTURE.partition(f"/{house}/` |")[2].partition("\n\n")[0]


@pytest.mark.parametrize("house", HOUSES)
def test_package_table__has_every_package_and_starts_reading_at_files_that_exist(house: str) -> None:
    [source] = (ROOT / "src").glob(f"*/{house}")
    packages = {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    modules = {path.name for path in source.glob("*.py") if not path.name.startswith("__")}
    listed = re.findall(r"^\| `([a-z0-9_]+(?:/|\.py))` \|.*\|(.*)\|$", table(house), re.MULTILINE)
    named = [package + name for package, names in listed for name in re.findall(r"`([a-z_/]+\.py)`", names)]

    # The agents' modules are the interface of the packages, and say themselves what they are.
    expected = packages if house == "agent_eval_agents" else packages | modules
    assert {name for name, _ in listed} == expected, f"docs/architecture.md differs from src/{house}"
    assert len(named) > 6
    assert [path for path in named if not (source / path).is_file()] == []


@pytest.mark.parametrize("contract", ["Imports go downwards", "Imports of the workbench go downwards"])
def test_layers__are_those_of_the_import_contract(contract: str) -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = next(found["layers"] for found in linter["contracts"] if found["name"] == contract)

    lines = "\n".join("    " + re.sub(r"agent_eval(_workbench)?\.", "", layer) for layer in layers)
    assert f"\n\n{lines}\n\n" in ARCHITECTURE, f"docs/architecture.md should have:\n{lines}"


def test_file_names__exist() -> None:
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", ARCHITECTURE))
    existing = [path.as_posix() for folder in ("src", "tests", "tools") for path in (ROOT / folder).rglob("*.py")]

    assert len(named) > 20
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in existing)] == []


def _slugs(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = [heading.replace("`", "").lower() for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links__lead_to_files_and_headings(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8"))
    for file, anchor in links:
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name} links to {file}"
        assert not anchor or anchor in _slugs(target), f"{page.name} links to {file}#{anchor}"


# The site has every page of docs/, and its links lead somewhere.


def test_site__has_every_page_and_asks_no_other_host() -> None:
    text = (ROOT / "zensical.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    pages = {page.name: page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")}
    outside = {name: site_of_docs.outside(text) for name, text in pages.items()}

    assert sorted(re.findall(r'"([\w-]+\.md)"', text)) == sorted(pages)
    assert project["theme"]["font"] is False
    assert "repo_url" not in project, "each page would ask api.github.com for stars and the latest release"
    drawn = [name for name, text in pages.items() if "```mermaid" in text]
    assert drawn == [], "the page would load the renderer from unpkg.com"
    assert f"]({site_of_docs.BLOB}README.md)" in outside["README.md"]
    assert [name for name, text in outside.items() if "](../" in text] == []
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"""docs_page\(["']([\w-]+)["']\)""", source))
    assert re.fullmatch(r"https://[\w-]+\.github\.io/[\w-]+/security/", docs_page("security"))
    assert len(named) >= 8
    assert [name for name in named if f"{name}.md" not in pages] == []


# The script for the pictures in docs/images runs; golden files cover their content.

SCRIPT = ROOT / "docs/images/render.py"


def test_render__makes_every_picture(tmp_path: Path) -> None:
    script = runpy.run_path(str(SCRIPT))
    for name, (markdown, _) in script["pages"]().items():
        assert (SCRIPT.parent / f"{name}.png").exists()
        assert rendered(markdown).tags[0] == "h2"
        assert "<details" in script["page"](markdown)
    script["draw"](tmp_path / "console.svg")
    assert "thermostat_in_bedroom" in (tmp_path / "console.svg").read_text("utf-8").replace("&#160;", " ")


# The workflows in the documentation are valid and safe: actionlint and zizmor check them as they check our own.

BLOCKS = [
    (path.name, text)
    for path in [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"]
    for text in blocks(path.read_text(encoding="utf-8"), "ya?ml")
]
COMPLETE = [(page, text) for page, text in BLOCKS if re.search(r"^on:$(?s:.*)^jobs:$", text, re.MULTILINE)]
README = next(text for page, text in COMPLETE if page == "README.md")
MOVED = "  actions: read\n  pull-requests: write\n"
LIMITED = README.replace(MOVED, "").replace(
    "  evals:\n", "  evals:\n    permissions:\n      contents: read\n" + MOVED.replace("  ", "      ")
)
"""README's workflow where a recipe adds a job: the permissions are those of its own job."""
[OUTPUT] = (text for _, text in BLOCKS if text.startswith("    outputs:\n"))
"""What the recipe that opens an issue adds to the job of the evals."""
GIVING = LIMITED.replace("  evals:\n", f"  evals:\n{OUTPUT.rstrip()}\n").replace(
    "      - uses: org/agent-eval-action@v1\n", "      - uses: org/agent-eval-action@v1\n        id: gate\n"
)
ADDED = [
    (page, (GIVING if "needs.evals.outputs" in text else LIMITED) + text.removeprefix("jobs:\n"))
    for page, text in BLOCKS
    if text.startswith("jobs:\n")
]
TRIGGERS, STEPS, JOB = blocks(
    section(page("recipes.md"), "## GitHub: tapes on pull requests, recorded again every week"), "yaml"
)
RECORDING = re.sub(r"^on:\n(?: .*\n)+", TRIGGERS, LIMITED, flags=re.MULTILINE).partition("      - uses: org/")[0]
RECORDING += STEPS + JOB.removeprefix("jobs:\n")
WORKFLOWS = [*COMPLETE, *ADDED, ("recording", RECORDING)]
NAMES = [f"{number}-{name}" for number, (name, _) in enumerate(WORKFLOWS)]
ZIZMOR = """\
rules:
  unpinned-uses: {config: {policies: {"*": ref-pin}}} # README describes how to pin by SHA
  dangerous-triggers: {disable: true} # pull_request_target with an approval, workflow_run: see docs/security.md
"""


def lint(tool: str, *arguments: str | Path) -> None:
    """Runs a linter of the development environment; fails with its findings."""
    command = [Path(sys.executable).with_name(tool), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("page", "text"), WORKFLOWS, ids=NAMES)
def test_workflow__is_valid_safe_and_never_skipped_where_it_is_a_required_check(
    tmp_path: Path, page: str, text: str
) -> None:
    path = tmp_path / ".github" / "workflows" / f"{page}.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    config = tmp_path / "zizmor.yml"
    config.write_text(ZIZMOR, encoding="utf-8")

    lint("actionlint", "-no-color", path)
    lint("zizmor", "--offline", "--quiet", "--config", config, path)
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE), page
    assert re.search(r"^concurrency:\n  group: \S", text, re.MULTILINE), page
    if "mode: publish" not in text and "issue_comment:" not in text:  # They are no required checks.
        # Runs of main record baselines. They share no concurrency group, so that none of them is cancelled.
        assert "pull_request.number || github.run_id" in text, page
        # GitHub counts a skipped job as passed. With `!cancelled()` a job also runs after failed or skipped ones.
        required = re.sub(
            r"^  (?:issue|pages|tapes):\n(?:    .*\n)+", "", text, flags=re.MULTILINE
        )  # They only publish.
        conditions = re.findall(r"^    if: (\S.*?)(?: #.*)?$", required, re.MULTILINE)
        assert set(conditions) <= {"${{ !cancelled() }}"}, page


def test_docs__have_workflows_with_inputs_and_outputs_of_the_action() -> None:
    action = YAML(typ="safe").load(ROOT / "action.yml")
    steps = [step for _, text in BLOCKS for step in steps_of(YAML(typ="safe").load(text))]
    ours = [step for step in steps if str(step.get("uses", "")).startswith("org/agent-eval-action")]
    assert len(ours) >= 12
    assert {name for step in ours for name in step.get("with", {})} <= action["inputs"].keys()
    asked = {name for _, text in BLOCKS for name in re.findall(r"steps\.gate\.outputs\.([\w-]+)", text)}
    assert asked <= action["outputs"].keys()


def steps_of(part: Any) -> Iterator[dict[str, Any]]:
    """The steps of a workflow or of a piece of one."""
    if isinstance(part, dict) and "uses" in part:
        yield part
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from steps_of(inner)


def test_docs__have_workflows_whose_checkouts_store_no_token_and_have_one_version() -> None:
    assert {page for page, _ in WORKFLOWS} >= {"README.md", "forks.md", "recipes.md", "scale.md"}
    assert [page for page, _ in ADDED] == ["recipes.md"] * 3
    every = [step for _, text in BLOCKS for step in re.split(r"^ *- ", text, flags=re.MULTILINE)]
    steps = [step for step in every if "actions/checkout@" in step]
    assert len(steps) >= 5
    assert [step for step in steps if "persist-credentials: false" not in step] == []
    assert {re.findall(r"actions/checkout@(\S+)", step)[0] for step in steps} == {"v6"}


@pytest.mark.parametrize("event", ["pull_request", "merge_group", "push", "schedule", "workflow_dispatch"])
def test_recording__runs_for_events_that_may_record_without_a_question(event: str) -> None:
    assert re.search(rf"^  {event}:", TRIGGERS, re.MULTILINE)
    [events] = map(json.loads, set(re.findall(r"contains\(fromJSON\('(.+?)'\), github.event_name\)", RECORDING)))
    chosen = re.findall(r"^ +(replay|record): .* && '(.+)' \|\| '(.+)' }}$", STEPS, re.MULTILINE)
    flags = {name: recording if event in events else otherwise for name, recording, otherwise in chosen}
    settings, problems = read_settings(ROOT, flags={**flags, "num-runs": "3"})
    assert (len(chosen), problems) == (2, [])
    assert (settings.record, settings.replay) == (("all", "off") if event in events else ("off", "missing-live"))
    ci = dataclasses.replace(LOCAL, event=Event(name=event))
    assert recording_refused(settings.record, settings.replay, ci, in_ci=True) == []


# The parser accepts the commands of the pages, and their TOML is valid.

AUTHORING, CONFIGURATION, POLICY = map(page, ("authoring.md", "configuration.md", "policy.md"))
COMPARISON, REMOTE_AGENTS, RESULTS_PAGE = map(page, ("comparison.md", "remote-agents.md", "results.md"))
VERDICT, PROBLEMS, TEXT = map(page, ("verdict.md", "problems.md", "statistics.md"))
DONE = section(COMPARISON, "## What is done on which event")
EVENTS = dict(re.findall(r"^\| (`?[a-z_ ]+?`?(?: elsewhere)?) \| (\w+) \|", DONE, re.MULTILINE))
"""The page's activity of each event."""


@pytest.mark.parametrize("text", [AUTHORING, CONFIGURATION], ids=["authoring", "configuration"])
def test_commands__are_understood(text: str) -> None:
    commands = re.findall(r"^agent-eval (.+)$", "".join(blocks(text, "(?:console|sh)")), re.MULTILINE)
    parser, names = _parser()
    for command in commands:
        _, rest = parser.parse_known_args(shlex.split(command, comments=True))
        assert not [word for word in rest if word.startswith("-")], command
    assert text is AUTHORING or {command.split()[0] for command in commands} == set(names)


def test_toml__is_valid(tmp_path: Path) -> None:
    """The first example of the settings means what the page says."""
    read = {
        text: read_settings(tmp_path, text=text)
        for each in (CONFIGURATION, POLICY, REMOTE_AGENTS)
        for text in blocks(each, "toml")
    }
    assert [problems for _, problems in read.values() if problems] == []
    found = [settings for settings, _ in read.values()]
    assert Settings(root=tmp_path) not in found
    first = found[0]
    assert (first.paths, first.exclude) == (("evals",), ("evals/drafts/",))
    assert (first.num_runs, first.min_pass_rate) == (3, 0.66)
    assert dict(first.agents) == {"evals/**": "agents/weather", "evals/home/**": "agents/home"}
    names = [name for text in blocks(REMOTE_AGENTS, "toml") for name in read[text][0].agents.values()]
    assert len(names) >= 2
    names += re.findall(r"^agent-eval run.* --agent (\S+)$", REMOTE_AGENTS, re.MULTILINE)
    names += re.findall(r"^      agent: (adk:\S+)$", REMOTE_AGENTS, re.MULTILINE)
    for name in names:
        assert Finder(root=tmp_path).named(name, "--agent", None) == (name, None)
    assert [AgentChoice(path=name, reason="").driver.remote for name in names[-4:]] == [True] * 4


# docs/configuration.md describes every setting as the code does, and its examples are valid.
#
# UPDATE_GOLDEN=1 writes names, help and defaults into the page; other text about a setting stays.

PATH = ROOT / "docs" / "configuration.md"


def section_head(setting: Setting) -> str:
    """The generated beginning of a setting's section: purpose, flag and default."""
    if setting.input == "paths":
        flag = "PATH ..."
    elif setting.is_switch:
        flag = f"--{setting.input}"
    else:
        metavar = f"{{{','.join(setting.choices)}}}" if setting.choices else setting.metavar
        flag = f"--{setting.input} {metavar}"
    facts = [f"`{flag}`" if setting.secret is None else f"variable `{setting.secret}`"]
    facts += [] if setting.in_file else ["not in the file"]
    facts += [f"default `{setting.default}`"] if setting.default else []
    return f"### {setting.input}\n\n{setting.help}\n\n*{'; '.join(facts)}*\n"


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.input)
def test_setting__is_described_as_in_the_code(setting: Setting) -> None:
    pattern = rf"^### {setting.input}\n\n.*?\n\n\*(?:`|variable ).*?\*\n"
    [current] = re.findall(pattern, CONFIGURATION, flags=re.M | re.S)
    check_part(PATH, current, section_head(setting))


# Tables and lists have what the code has.


def first_column(text: str, heading: str) -> list[str]:
    return [code for row in rows(section(text, heading)) for code in codes(row[0])]


def words_of(text: str, begin: str, end: str, pattern: str) -> set[str]:
    """What a pattern finds in a part of a page."""
    return set(re.findall(pattern, text[text.index(begin) : text.index(end)], re.MULTILINE))


def runner_error_kinds() -> set[str]:
    """The first arguments of `_halt_runs` and the constants that stand for them."""
    tree = ast.parse(Path(execution.__file__).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    kinds = [node.args[0] for node in calls if getattr(node.func, "attr", "") == "_halt_runs"]
    return {
        str(kind.value) if isinstance(kind, ast.Constant) else str(vars(execution)[ast.unparse(kind)]) for kind in kinds
    }


def listed() -> Iterator[tuple[str, object, object]]:
    """What pages list, and what the code has."""
    yield "settings", re.findall(r"^### ([a-z0-9-]+)$", CONFIGURATION, re.M), [setting.input for setting in SETTINGS]
    referring = {name for name, spec in METRICS.items() if spec.needs_reference}
    yield "metrics with a reference", referring, set(FIELD_OF)
    offered = words_of(AUTHORING, "| failed metric |", "Only turns whose", r"`([a-z_0-9]+_[a-z_0-9]+)`")
    yield "fields to accept", offered & referring, referring
    keys = set(re.findall(r"(?:^|\s{2,}|, )([a-zA-Z])(?=,|\s{2,})", _HELP))
    yield "keys of the review", words_of(AUTHORING, "| key |", "The files are written", r"`([a-zA-Z])`"), keys
    yield "[[policy]]", first_column(POLICY, "## Exceptions: `[[policy]]`"), list(policy_file._POLICY_FIELDS)
    quarantine = blocks(POLICY, "toml")[1].split("[[quarantine]]")[1]
    yield "[[quarantine]]", re.findall(r"^(\w+) =", quarantine, re.M), list(policy_file._QUARANTINE_FIELDS)
    deciding = section(COMPARISON, "## What decides")
    gates = re.findall(r"^\| `([a-z]+)` \|", deciding.partition("\nWithout a usable")[0], re.M)
    yield "gates", gates, ["gate", *get_args(Gate)]
    source = Path(evaluation.__file__).read_text(encoding="utf-8")
    reasons = {*re.findall(r'(?:\b_reason\(\s*|\bcode=)"([a-z-]+)"', source), *_decide._WEIGHT, "agent-error"}
    reasons |= {*evaluation._HELD_AGAINST, "case-worse"}
    reasons -= {"no-baseline", "informing", "quarantined", "advisory"}
    yield "reasons", reasons & {*codes("".join(re.findall(r"^\|.*\|(.*)\|$", deciding, re.M)))}, reasons
    source = Path(activities.__file__).read_text(encoding="utf-8")
    lines = [line.partition(" if ")[0] for line in re.findall(r"^        case (.+):$", source, re.M)]
    events = {f"`{name}`" for line in lines for name in re.findall(r'"(\w+)"', line)}
    yield "events", {*EVENTS}, events | {"event", "all others", "`push` elsewhere"}
    marker = marked("k", RunStamp(run_id=1, attempt=2, sha="a" * 40), "").strip()
    yield "marker", re.findall(r"`(<!-- .+? -->)`", COMPARISON), [re.sub(r"=\S+", "=…", marker)]
    [signature] = re.findall(r"`save_session\((.*?)\)`", page("python-api.md"))
    named = [each.strip(" *").partition("=")[0] for each in signature.split(",") if each.strip(" *")]
    yield "save_session", named, [*inspect.signature(agent_eval.save_session).parameters]
    servers = dict(re.findall(r"^\| `(\w+)` \| .* \| (.+) \|$", REMOTE_AGENTS, re.M))
    fields = {field.name: field.default for field in dataclasses.fields(ServerSpec) if field.name != "name"}
    yield "[servers]", fields.keys() & servers.keys(), fields.keys()
    defaults = (f"{fields['ready_timeout']:g}", f"`{fields['url']}`")
    yield "defaults of [servers]", (servers["ready_timeout"], servers["url"]), defaults
    kinds = {*map(str, FailureKind), "remote-agent-refused"}
    blamed = re.findall(r"\| (?:exit 2, )?`([a-z-]+)`", section(REMOTE_AGENTS, "## Who is to blame"))
    yield "blamed", ({*blamed} - kinds, len({*blamed}) > 6), (set(), True)
    [example] = blocks(RESULTS_PAGE, "json")
    written = CaseReport.model_validate_json(example).model_dump_json()
    yield "a case as written", json.loads(example), json.loads(written)
    head, _, report = RESULTS_PAGE.partition("## results.json")
    files = {*re.findall(r"^\| `([a-z./]+)` \|", head, re.M)}
    yield "files", files, {*FILES.values(), JOURNAL, "logs/", "base/"}
    outputs = first_column(RESULTS_PAGE, "## Outputs of the action")
    yield "outputs", {*outputs}, {*OUTPUTS}
    parts = {"verdict", "reasons", "totals", "cases", "files", "problems", "notices", "provenance", "schema_version"}
    yield "parts", parts & set(re.findall(r"`(\w+)(?:\[\])?`", report.split("```json")[0])), parts
    yield "words", [row[0] for row in rows(TEXT[TEXT.index("| word |") :])], [*get_args(CaseWord)]
    failures = section(PROBLEMS, "## Failures of a run")
    ours = {*FailureKind, *MetricFailureKind, *runner_error_kinds(), WITHOUT_KEY, SHARD_MISSING, "run-timeout"}
    described = re.findall(r"^### `([a-z-]+)`\n(?:Agent|Provider|Gate)[.;]", failures, re.M)
    yield "failures", sorted(described), sorted({*map(str, ours), *CODES.values(), TEMPLATE_CODE})
    yield "statuses of a metric", {*first_column(VERDICT, "## A metric")}, {*get_args(MetricStatus)}
    yield "statuses of a case", {*first_column(VERDICT, "## A case and its runs")}, {*get_args(CaseStatus)}
    nothing = {NOTHING_SCORED, verdict.NOTHING_GATED, verdict.NO_CASE_PASSES, "advisory"}
    caveats = {code for row in rows(section(VERDICT, "## When nothing was evaluated")) for code in codes(row[2])}
    yield "caveats", caveats & nothing, nothing
    exits = {row[1].strip("`"): int(row[0].strip("`")) for row in rows(section(VERDICT, "## Exit codes"))}
    yield "exit codes", {name: exits[name] for name in EXIT_CODES}, EXIT_CODES


def test_docs__list_what_the_code_has() -> None:
    assert [what for what in listed() if what[1] != what[2]] == []


def test_patterns__match_the_documented_cases() -> None:
    cases = {
        "evals/home.test.json": ("evals/home.test.json", "x"),
        "evals/drafts/": ("evals/drafts/a.test.json", "x"),
        "*.evalset.json": ("deep/down/a.evalset.json", "x"),
        "evals/home.test.json:lamp_on": ("evals/home.test.json", "lamp_on"),
        "evals/**:smoke_*": ("evals/a/b.test.json", "smoke_1"),
        ":smoke_*": ("anywhere.test.json", "smoke_1"),
    }
    assert {*cases} <= {*first_column(POLICY, "### Patterns of cases")}
    for pattern, (file, eval_id) in cases.items():
        assert case_matcher(pattern)(file, eval_id), pattern
        assert not case_matcher(pattern)("other.test.json", "other"), pattern


def test_flaky__example_is_its_output() -> None:
    facts: dict[str, Any] = {"failures": 4, "runs": 10, "rate": 0.4, "low": 0.1682, "high": 0.6873}
    facts |= {"since": "5f0c1d2e3a4b5c6d", "metrics": {"response_match_score": 4}}
    proposal = Proposal(case_id="evals/home.test.json:garage", **facts)
    report = FlakyReport(records=10, cases=30, proposals=[proposal], failing=[], skipped=[])
    assert render_toml(report, today=date(2026, 11, 21), owner="@alice") in POLICY


# docs/comparison.md says of every event what the code does.

GATE_NAMES = "pull_request pull_request_target merge_group schedule workflow_dispatch workflow_run"
EXAMPLES = json.loads((ROOT / "tests" / "data" / "github" / "events.json").read_text("utf-8"))
PAYLOAD: dict[str, Any] = {
    **EXAMPLES["pull_request.opened"],
    **EXAMPLES["merge_group"],
    "workflow_run": {"event": "pull_request", "head_sha": "a" * 40},
    "repository": {"default_branch": "main"},
}


def test_events__activity_is_the_documented_one() -> None:
    main = "refs/heads/main"
    for name, ref, row in (
        *((name, main, f"`{name}`") for name in (*GATE_NAMES.split(), "push")),
        ("release", main, "all others"),
        *(("push", ref, "`push` elsewhere") for ref in ("refs/heads/x", "refs/tags/v1")),
    ):
        assert activity(GitHubEvent(name=name, payload=PAYLOAD, ref=ref), mode="auto").kind == EVENTS[row], name


# docs/statistics.md and benchmarks/RESULTS.md: tables, pictures and numbers are what was measured and promised.

RESULTS = bench.DOCS.read_text(encoding="utf-8")
MEASURED = bench.measured()
CELLS = {bench.key_of(cell): cell for cell in bench.cells()}
DEFAULT = {name: MEASURED["gate"][f"default: {name}"] for name, *_ in bench.CHANGES}
WORDS = " ".join(TEXT.split())
MISSED = {
    "all 30 cases new or changed: nothing changed",
    "all 30 cases new or changed: three cases -.5",
    "days differ: nothing changed, sd 1.0, base can't be run",
    "three attempts of one commit, without artifacts: one case 1 to .5: red, and later green",
}
"""The rows of which the page says that they miss their goal."""


@pytest.mark.parametrize("name", sorted(bench.tables(MEASURED)))
def test_statistics_docs__the_tables_are_what_was_measured(name: str) -> None:
    table = bench.tables(MEASURED)[name]
    assert bench.insert(RESULTS, name, table) == RESULTS, "python benchmarks/gate_error_rates.py --docs"


def test_statistics_docs__a_year_of_main_is_what_was_measured() -> None:
    played = year.stored()
    assert bench.insert(RESULTS, "year", year.table(played)) == RESULTS, "python benchmarks/year.py --docs"
    assert {len(years) for years in played.values()} == {year.HALF_YEARS}
    cells = {line.split(" (")[0]: re.findall(r"0\.\d{3} \(|\d+ of \d+", line) for line in RESULTS.splitlines()}
    ours, main_broken = cells["| lively | this gate"], cells["| main breaks from outside 6 times | this gate"]
    quiet, slip, _, broken, halved = ours
    for words in (
        f"{float(quiet[:5]):.1%} of the harmless ones were red",
        f"{float(slip[:5]):.1%} soon after a slip",
        f"{float(main_broken[2][:5]):.1%}, for any reason, while main had a case",
        f"{broken} broken cases were merged, {halved} halved ones",
        f"{float(cells['| lively | every case must pass, once'][0][:5]):.1%} of the harmless ones were red",
    ):
        assert words in WORDS, words


def test_statistics_docs__every_row_was_measured_with_as_many_pull_requests_as_it_says() -> None:
    for name, cells in (("gate", bench.cells()), ("settings", bench.settings_cells())):
        expected = {bench.key_of(cell): cell.trials or bench.TRIALS for cell in cells}
        assert {key: count.trials for key, count in MEASURED[name].items()} == expected
    assert MEASURED["drift"].keys() == {bench.key_of(cell) for cell in bench.drift_cells()}


def test_statistics_docs__goals_are_met_or_reported_as_missed() -> None:
    goals = {key: goal for key, cell in CELLS.items() if (goal := bench.Goal.of(cell.goal)) is not None}
    assert len(goals) >= 30
    assert {key for key, goal in goals.items() if not goal.kept(MEASURED["gate"][key])} == MISSED


def test_statistics_docs__the_promises_of_the_defaults_are_kept_with_their_limits() -> None:
    quiet, broken, item = (DEFAULT[change[0]] for change in (bench.NOTHING, bench.BROKEN, bench.ONE))
    assert wilson(quiet.hits, quiet.trials)[1] <= 0.05
    assert wilson(broken.hits, broken.trials)[0] >= 0.99
    assert wilson(item.hits, item.trials)[0] >= 0.60
    paid = [count.paid / count.trials for count in DEFAULT.values()]
    assert paid[0] <= 1.55
    assert max(paid) <= 4.6, "with two runs of every case on the base branch"


def test_statistics_docs__the_numbers_in_the_text_are_those_measured() -> None:
    """Of an error on a day, of a thin base, and how often chance alone says that the base branch got worse."""
    gate = MEASURED["gate"]
    unseen = gate["days differ: nothing changed, sd 1.0, base can't be run"]
    assert f"and the base branch can't be run: {unseen.hits / unseen.trials:.1%};" in WORDS
    strict = MEASURED["settings"]["alpha .01: nothing changed"]
    quiet = DEFAULT[bench.NOTHING[0]]
    assert f"{strict.hits / strict.trials:.1%} instead of {quiet.hits / quiet.trials:.1%} |" in WORDS
    thin = [gate[f"{depth}, base can't be run: nothing changed"] for depth in ("1 stored run", "3 stored runs")]
    one, three = (f"{count.inconclusive / count.trials:.0%}" for count in thin)
    assert f"in {one} of the pull requests that change nothing with one stored run, in {three} with three" in WORDS
    unchanged = MEASURED["drift"]["nothing changes in 150 merges, num-runs 1"]
    assert (
        f"By chance alone, {1000 * unchanged.others[0] / (unchanged.trials * 150):.1f} of 1,000 merges report" in WORDS
    )
    names = ("each of 100 merges takes .1 points", "each of 60 merges takes .2 points")
    tenth, fifth = (MEASURED["drift"][f"{name}, num-runs 1"] for name in names)
    assert (tenth.hits, fifth.hits) == (tenth.trials, fifth.trials)
    assert f"after {tenth.paid / tenth.hits:.1f} and {fifth.paid / fifth.hits:.1f} points on average" in WORDS


def test_statistics_docs__rows_without_a_change_that_fail_too_often_are_listed() -> None:
    """What is inconclusive is as red as what fails, unless somebody has set `on-inconclusive`."""
    listed = section(TEXT, "### Where 1 in 20 is missed")
    for key, cell in CELLS.items():
        count = MEASURED["gate"][key]
        if cell.change == "nothing" and cell.counts == "failed":
            failed, open_ = count.hits / count.trials, count.inconclusive / count.trials
            assert not cell.goal or failed + open_ <= float(cell.goal.split()[-1]) or key in MISSED, key
            assert failed <= 0.05 or re.search(rf"(?<![\d.]){100 * failed:.1f}(?!\d)", listed), key


@pytest.mark.slow
@pytest.mark.parametrize("name", [bench.NOTHING[0], bench.BROKEN[0], bench.ALL[0]])
def test_statistics_docs__the_numbers_are_the_gates(name: str) -> None:
    """Some trials of the same seeds: as far from the table as chance allows, and no farther."""
    cell = CELLS[f"default: {name}"]
    count = bench.run_chunk(cell, 0, 60)
    expected = DEFAULT[name].hits / DEFAULT[name].trials
    spread = 4 * (max(expected * (1 - expected), 0.01) / count.trials) ** 0.5
    assert count.hits / count.trials == pytest.approx(expected, abs=spread)
    assert count == bench.run_chunk(cell, 0, 60)


@pytest.mark.slow
def test_statistics_docs__the_same_seed_gives_the_same_numbers_in_every_process() -> None:
    """Sets of strings have another order in each: runs must not be drawn in it."""
    code = "import gate_error_rates as b; print(b.run_chunk(list(b.cells())[3], 0, 15))"
    paths = os.pathsep.join(map(str, [ROOT / "benchmarks", *(ROOT / "src").glob("*")]))
    matches = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": paths, "PYTHONHASHSEED": seed, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(matches) == 1, matches


def test_statistics_docs__the_pictures_are_drawn_from_the_tables() -> None:
    for name, picture in draw_statistics.pictures().items():
        assert (ROOT / "docs" / "images" / name).read_text(encoding="utf-8") == picture, "make bench-errors draws them"


def test_docs__the_numbers_in_the_text_are_the_codes() -> None:
    for said in (
        f"p of at most {sequential._SUITE_TRIGGER * 0.05:g})",
        f"p of at most {sequential._ANOTHER_COLUMN:g})",
        f"after {', '.join(map(str, sequential._BATCHES[1:]))} and at most 15 fresh runs",
        f"at least {families.SEEN_AGAIN:g} without the runs",
        f"{families.FULL_BASE} times each case for which it would fail ({families.CHECK_RUNS} times if every new run",
        f"runs each of its cases {families.FULL_BASE} times (every case {2 * families.CHECK_RUNS} times if the",
        f"the newest {['five'][families._NEWEST - 5]} records",
        f"fewer than {suspects.THIN_BASE} stored runs",
        f"fewer than {families.FULL_BASE} stored runs gets fresh runs",
        f"p of at most {_decide.DIFFERS:g}",
        f"and {suspects.THRESHOLD_RUNS} more runs in a row",
        f" | {families.BOTH_LEVEL * 0.05:.2f} | ",
    ):
        assert said in WORDS, said
    for failures, pays in ((2, "about 280"), (1, "7.5"), (0, "0.2")):
        assert float(pays.split()[-1]) == pytest.approx(suspects.case_e(failures, 2, 0, 20), rel=0.1)
        assert pays in WORDS
    for said in (
        f"{DEFAULT_ALPHA} for everything together",
        f"max-quarantined = {DEFAULT_MAX_QUARANTINED}",
        f"{NOTICE_DAYS} days before a quarantine ends",
    ):
        assert said in POLICY
    assert (ALPHA, CASE_ALPHA) == (0.002, 0.01), "about 1 of 2,500 merges; one case in a hundred"


# The examples of docs/verdict.md are correct.

OUTCOMES = {"no score": "?", "agent error": "x", "provider error": "p", "not run": "-"}
WORKED = rows(section(VERDICT, "### Examples"))


@pytest.mark.parametrize(("runs", "rate", "case", "code"), [row[:4] for row in WORKED])
def test_examples__have_the_documented_outcome(runs: str, rate: str, case: str, code: str) -> None:
    parts = []
    for run, outcome in enumerate(runs.split(", ")):
        scores = None if outcome in OUTCOMES else [float(outcome)]
        did = OUTCOMES.get(outcome, "")
        parts.append(history_samples.case("e", did, scores=scores, threshold=0.8, first_run=run))
    [merged] = merge(parts, min_pass_rate=float(rate))

    assert len(WORKED) >= 8
    assert merged.status == case.strip("`")
    assert (merged.reason.code if merged.reason else "") == code.strip("`")


def test_verdicts__follow_from_the_cases() -> None:
    for head, outcome, *_ in rows(section(VERDICT, "## From the cases to the verdict")):
        statuses = [status for status in get_args(CaseStatus) if f"`{status}`" in head]
        cases = [
            CaseReport(case_id=status, file="f", eval_set_id="s", eval_id=status, status=status) for status in statuses
        ]
        # Nothing is decided about what may not run.
        assert outcome.strip("`") == (decide(cases).value if cases else "invalid")
