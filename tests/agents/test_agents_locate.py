"""Where an agent is, and what it needs."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import golden_files
import pytest
from evalset_samples import loaded

from agent_eval_agents.discovery.finder import Finder
from agent_eval_agents.discovery.locate import (
    AgentChoice,
    AgentChoices,
    agent_as_path,
    check_names,
    choose_agents,
    in_adk_order,
    render_choices,
)
from agent_eval_agents.protocol import AgentFailure
from agent_eval_agents.registry import DRIVERS
from agent_eval_agents.venv._dependencies import Dependencies, check_adk, find_dependencies, fingerprint
from agent_eval_scoring.core.problem import Severity
from agent_eval_scoring.evalset.models.schema import EvalCase, LoadedFile, SessionInput

# Which agent an eval file has, and which driver.

AGENT = "from google.adk.agents import Agent\nroot_agent = Agent(name='a')\n"


def make(root: Path, *paths: str, text: str = AGENT) -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def of_apps(path: str, *app_names: str) -> LoadedFile:
    """A file with a case for each name of an app."""
    sessions: list[SessionInput | None] = [SessionInput(app_name=name, user_id="u") for name in app_names]
    made = [EvalCase(eval_id=f"c{n}", conversation=[], session_input=one) for n, one in enumerate(sessions or [None])]
    return loaded(path, *made)


Situation = tuple[str | dict[str, str], str, dict[str, Any]]
"""Agents, or files with their texts; eval files, with the names of apps after a colon; options, and `root`."""
APPS = "agents/weather/agent.py agents/home/agent.py evals/unrelated/agent.py"
TWO = "one/agent.py two/agent.py group/three/agent.py"
WEATHER = {"bot/agent.py": "weather: Agent = agents.LlmAgent(name='weather')\n"}
NONE = ".venv/lib/agent.py node_modules/x/agent.py env2/pyvenv.cfg env2/lib/python/site-packages/bot/agent.py"
BOT, EVALS, SUB = "bot/x.test.json", "evals/a.test.json", "home/agent.py a#b/agent.py"
LAYOUTS = [
    ("bot/agent.py", AGENT),
    ("bot/__init__.py", AGENT),
    ("bot/agent.py", "async def get_agent_async(): ...\n"),
    ("bot/agent.py", "from google.adk.apps import App\napp = App(name='x', root_agent=a)\n"),
    ("bot/__init__.py", "from .agent import root_agent\n"),
    ("bot/agent.py", "from veadk import Agent\nroot_agent: Agent = Agent()\n"),
    ("bot/root_agent.yaml", "name: bot\n"),
    ("bot/agent.py", AGENT.replace("root_agent", "weather")),
    ("bot/agent.py", "from flask import Flask\napp = Flask(__name__)\n"),
    ("bot/agent.py", ""),
    ("bot/agent.py", "a" * 900_000),
    ("bot/other.py", AGENT),
]
MAPPING = {"evals/**": "one", "evals/deep/": "two", "*.md": "one", "other/**": "none"}
OLD = {"one/agent.py": AGENT, "old/recordings.jsonl.gz": "", "empty/README.md": ""}
NAMES = (
    "one",
    "one/",
    "./one/agent.py",
    "ROOT/one",
    "package.agents.weather",
    "onee",
    "record:a.json",
    "onee#cook",
    "empty",
    "group",
)
SITUATIONS: dict[str, Situation] = {
    **{f"layout {number}": ({path: text}, BOT, {}) for number, (path, text) in enumerate(LAYOUTS, 1)},
    "the root": ("agent.py", "evals/x.test.json", {}),
    "sub-agents": ("bot/agent.py bot/helper/agent.py bot/other/agent.py", "bot/evals/x.test.json", {}),
    "a package in a project": ("my-agent/my_agent/agent.py", "my-agent/eval/data/x.test.json", {}),
    "a package in the root": ("my_agent/agent.py", "tests/evals/x.evalset.json my_agent/evals/deep/x.test.json", {}),
    "below src": ("src/my_agent/agent.py", "evals/x.test.json", {}),
    "below agents": ("agents/my_agent/agent.py", "evals/x.test.json", {}),
    "deep": ("services/chat/backend/bot/agent.py", "evals/x.test.json", {}),
    "names of apps": (APPS, "evals/a.test.json:home evals/b.test.json:weather,weather", {}),
    "unknown names": (APPS, "agents/home/1.test.json:app agents/home/2.test.json:../weather,..", {}),
    "two names": (APPS, "evals/x.test.json:weather,home", {}),
    "two agents": (TWO, "evals/a.test.json evals/b.test.json one/c.test.json", {}),
    "the last pattern": (
        TWO,
        "evals/a.test.json evals/deep/b.test.json",
        {"mapping": MAPPING, "everything": lambda: ["other/c.test.json"]},
    ),
    "a mapping to none": ("weather/agent.py", "weather/a.test.json", {"mapping": {"**": "wether"}}),
    **{f"--agent {name}": (SUB, BOT, {"explicit": name}) for name in ("home#cook", "my.module#cook", "a#b", "a#b#c")},
    **{f"--agent {name}": (TWO, "two/a.test.json", {"explicit": name}) for name in (*NAMES, "recorded:missing")},
    **{
        f"--agent {name}": (OLD, "one/a.test.json", {"explicit": name})
        for name in ("recorded:old", "recorded:empty", "recorded:", "empty")
    },
    "an agent elsewhere": (TWO, "two/a.test.json", {"explicit": "ROOT/one", "root": "two"}),
    "none": (NONE, EVALS, {}),
    "another name": (WEATHER, EVALS, {}),
    "another name, by --agent": (WEATHER, EVALS, {"explicit": "bot"}),
    "the web server of a package that mentions ADK": (
        {
            "bot/agent.py": AGENT,
            "site/web/__init__.py": '"""Serves the ADK agent."""\nfrom site.web.main import app\n',
            "site/web/main.py": "from bot.agent import root_agent\napp: FastAPI = create(root_agent)\n",
            "api/agent.py": "# Of ADK, behind A2A.\napp = FastAPI(title='x')\n",
        },
        EVALS,
        {},
    ),
    "two files": ("one.py group/two.py group/test_three.py", EVALS, {}),
    "two files, one of a name": ("agents/one.py agents/two.py", "evals/a.test.json:two", {}),
    **{
        f"--agent {name}": ("pkg/__init__.py pkg/mod/agent.py one.py", EVALS, {"explicit": name})
        for name in ("pkg/mod:root_agent", "one.py:root_agent", "one.py#cook", "pkg.mod:root_agent", "tw.py")
    },
    **{
        f"a manifest: {text}": ({"app/agent.py": AGENT, "agents-cli-manifest.yaml": f"name: a\n{text}\n"}, EVALS, {})
        for text in (
            "agent_directory: app",
            'agent_directory: "ap"',
            "agent_directory: [app]",
            "agent_directory: .",
            "",
        )
    },
    "a manifest in a part": (
        {"a/my/agent.py": AGENT, "b/my/agent.py": AGENT, "a/agents-cli-manifest.yaml": "agent_directory: app\n"},
        "a/tests/a.test.json a/tests/b.test.json:my",
        {},
    ),
    "names of far agents, and one that is near": (
        {"a/app/agent.py": AGENT, "b/app/agent.py": AGENT, "c/chat/agent.py": AGENT},
        "c/tests/a.test.json:app",
        {},
    ),
    "a file that is to be recorded": (
        TWO,
        "one/a.test.json",
        {"mapping": {"evals/one.evalset.json": "one", "evals/two.evalset.json": "two", "evals/[x].test.json": "one"}},
    ),
    "a module with an agent": ({"core/app.py": AGENT}, EVALS, {}),
    "a parameter of that name": ({"core/app.py": "def make(root_agent):\n    return root_agent\n"}, EVALS, {}),
    "an agent in Go": ({"go.mod": "require google.golang.org/adk v1.0.0\n"}, EVALS, {}),
    "a part of a repository": (".git/HEAD bot/agent.py", "a.test.json", {"root": "evals"}),
}


def test_check_names__a_mapping_has_its_line(tmp_path: Path) -> None:
    make(tmp_path, "agent-eval.toml", text='num-runs = 3\n[agents]\n"evals/**" = "wether"\n"eval/**" = "weather"\n')
    make(tmp_path, "weather/agent.py", text=AGENT)
    problems = check_names(tmp_path, [of_apps("evals/a.test.json")], {"evals/**": "wether", "eval/**": "weather"})
    assert [(problem.code, problem.location) for problem in problems] == [
        ("agent-not-found", "agent-eval.toml:3"),
        ("agent-mapping-unused", "agent-eval.toml:4"),
    ]


def test_choose_agents__what_is_chosen_and_why(tmp_path: Path) -> None:
    lines = []
    for number, (name, (tree, files, options)) in enumerate(SITUATIONS.items()):
        repository = tmp_path / str(number)
        for path, text in (tree if isinstance(tree, dict) else dict.fromkeys(tree.split(), AGENT)).items():
            make(repository, path, text=text)
        root = repository / options.get("root", ".")
        root.mkdir(parents=True, exist_ok=True)
        named = {key: value for key, value in options.items() if key != "root"}
        if "explicit" in named:
            named["explicit"] = named["explicit"].replace("ROOT", str(repository))
        made = [
            of_apps(path, *filter(None, apps.split(",")))
            for path, _, apps in (each.partition(":") for each in files.split())
        ]
        choices = choose_agents(root, made, **named)
        lines.append(f"{name}:")
        for path, choice in choices.by_file.items():
            sub_agent = f", its sub-agent {choice.sub_agent} of {choice.source}" if choice.sub_agent else ""
            lines.append(f"  {path} -> {choice.path}{sub_agent} in {choice.directory(root)} ({choice.reason})")
        lines += [f"  {line}" for problem in choices.problems for line in str(problem).splitlines()]
        lines = [line.replace(str(repository), "ROOT") for line in lines]
    golden_files.check("golden_agents.txt", "\n".join(lines) + "\n")


def suggested(choices: AgentChoices) -> dict[str, str]:
    [problem] = choices.problems
    assert problem.hint is not None
    return dict(tomllib.loads(problem.hint[problem.hint.index("[agents]") :])["agents"])


@pytest.mark.parametrize("name", ["x.test.json", "evals/[odd] name!.test.json", 'evals/"quoted" back\\slash.test.json'])
def test_choose_agents__suggested_mapping_works_for_any_name(tmp_path: Path, name: str) -> None:
    make(tmp_path, "one/agent.py", "two/agent.py")
    mapping = suggested(choose_agents(tmp_path, [of_apps(name)]))
    choices = choose_agents(tmp_path, [of_apps(name)], mapping=mapping)
    assert ({path: choice.path for path, choice in choices.by_file.items()}, choices.problems) == ({name: "one"}, ())


def test_choose_agents__set_id_that_two_files_of_one_agent_share(tmp_path: Path) -> None:
    make(tmp_path, "one/agent.py", "two/agent.py")
    files = [of_apps(name) for name in ("one/a.test.json", "one/b.test.json", "two/a.test.json")]
    for file in files:
        file.eval_set.eval_set_id = "default"
    [problem] = choose_agents(tmp_path, files).problems
    assert (problem.code, problem.file) == ("duplicate-eval-set-id", "one/b.test.json")
    assert problem.severity is Severity.WARNING
    assert "`one/a.test.json`" in problem.message


def test_check_names__set_id_that_two_files_of_one_agent_share(tmp_path: Path) -> None:
    """`validate` chooses no agent, and says it all the same."""
    make(tmp_path, "one/agent.py", "two/agent.py")
    files = [of_apps(name) for name in ("one/a.test.json", "one/b.test.json", "two/a.test.json")]
    for file in files:
        file.eval_set.eval_set_id = "default"

    def shared(mapping: Mapping[str, str], explicit: str | None = None) -> list[tuple[str, str | None]]:
        return [(each.code, each.file) for each in check_names(tmp_path, files, mapping, explicit=explicit)]

    assert shared({}) == [("duplicate-eval-set-id", "one/b.test.json")]
    assert shared({"*/a.test.json": "two"}) == [("duplicate-eval-set-id", "two/a.test.json")]
    assert len(shared({}, "recorded:answers.json")) == 2


@pytest.mark.nightly
def test_choose_agents__takes_linear_time(tmp_path: Path) -> None:
    seconds = {}
    for count in (500, 4000):
        names = [f"evals/{number}.test.json" for number in range(count)]
        root = tmp_path / str(count)
        make(root, *names, text="")
        make(root, "bot/agent.py")
        files = [of_apps(name) for name in names]
        begun = time.process_time()
        assert len(choose_agents(root, files).by_file) == count
        seconds[count] = time.process_time() - begun
    assert seconds[4000] < 3 * 8 * seconds[500]


def test_render_choices__output(tmp_path: Path) -> None:
    make(tmp_path, "home/agent.py", "weather/agent.py")
    files = [of_apps("home/a.test.json"), of_apps("home/evals/long.test.json", "home"), of_apps("evals/\x1b.test.json")]
    assert render_choices(choose_agents(tmp_path, files)).startswith(
        "home\n"
        "  home/a.test.json           (the eval file is inside this agent's directory)\n"
        "  home/evals/long.test.json  (session_input.app_name `home` names it)\n"
    )
    assert not render_choices(AgentChoices(by_file={})), "why there are none is said by the problems"


def test_working_directory__is_the_project_that_the_agent_is_a_part_of(tmp_path: Path) -> None:
    agent = tmp_path / "agents" / "travel" / "travel_bot"
    agent.mkdir(parents=True)
    choice = AgentChoice(path="agents/travel/travel_bot", reason="")
    assert choice.working_directory(tmp_path, "project") == tmp_path
    (agent / "requirements.txt").touch()  # the agent's own directory is a package, not a project
    (tmp_path.parent / "pyproject.toml").touch()  # nor is what lies outside of the repository
    assert choice.working_directory(tmp_path, "project") == tmp_path
    for name in ("pyproject.toml", "requirements.txt", "setup.py", "setup.cfg"):
        (agent.parent / name).touch()
        assert choice.working_directory(tmp_path, "project") == agent.parent
        (agent.parent / name).unlink()
    assert choice.working_directory(tmp_path, "root") == tmp_path
    assert choice.working_directory(tmp_path, "agent") == agent
    assert choice.working_directory(tmp_path, "./agent") == tmp_path / "agent"
    module = AgentChoice(path="my_package.agent", reason="")
    assert [module.working_directory(tmp_path, word) for word in ("project", "agent")] == [tmp_path, tmp_path]


FILES = ["evals/a.test.json:one,two", "evals/b.test.json"]
ARGUMENTS = [
    *([agent, *FILES] for agent in ("my bot", "my bot/", "my bot/agent.py", "gone", "evals")),
    ["my bot/agent.py", *FILES, "evals"],
    ["my bot", "evals/*.test.json"],
    *(
        [*FILES, "my bot"],
        ["my bot", "other bot", *FILES],
        ["my bot", "other bot"],
        ["my bot", "evals"],
        ["my bot"],
        [],
    ),
]


def test_agent_as_path__what_is_said_of_arguments_in_the_order_of_adk(tmp_path: Path) -> None:
    make(tmp_path, "my bot/agent.py", "other bot/agent.py")
    make(tmp_path, "evals/a.test.json", "evals/b.test.json", "my bot/c.test.json", text="{}")
    lines = []
    for arguments in ARGUMENTS:
        lines.append(f"{arguments}: {in_adk_order(tmp_path, arguments)}")
        lines += [f"  {line}" for problem in agent_as_path(tmp_path, arguments) for line in str(problem).splitlines()]
    golden_files.check("golden_adk_order.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("agent", ["a2a:http://h", "server:dice"])
def test_choose_agents__state_that_an_agent_cannot_begin_with(tmp_path: Path, agent: str) -> None:
    files = [of_apps("a.test.json", "app"), of_apps("b.test.json", "app")]
    session = SessionInput(app_name="a", user_id="u", state={"room": "kitchen"})
    files[1].cases[0].session_input = session

    choose = partial(choose_agents, tmp_path, files, explicit=agent, stateless={"server:dice"})

    [refused] = choose().problems
    assert (refused.severity, refused.code, refused.file) == (Severity.ERROR, "a2a-no-state", "b.test.json")
    [ignored] = choose(ignore_state=True).problems
    assert (ignored.severity, ignored.code) == (Severity.WARNING, "a2a-no-state")
    assert choose_agents(tmp_path, files, explicit="adk:http://h").problems == ()


NAMED = (
    *("home", "package.module", "/else/where:x", "recorded:out/", "recorded:", "a2a:http://h/x", "server:dice"),
    *(
        "adk:http://127.0.0.1:8000/api#weather",
        "adk:http://h/run#weather",
        "http://h:8000",
        "https://h/x#app",
        "adk:h:8000",
        "adk:http://u:p@h",
    ),
    *(
        "openai:http://u:p@h/x",
        "adk:",
        "a2a:",
        "a2a:127.0.0.1:80",
        "a2a:ftp://h/",
        "a2a:http://u:p@h/",
        "a2a:http://h/#app",
    ),
)


def test_agent__named_from_a_folder_below_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "shop/src/bot/agent.py")
    monkeypatch.chdir(tmp_path / "shop")
    found, problem = Finder(root=tmp_path).named("src/bot", "--agent", None)
    assert found is None and problem is not None
    assert problem.message.endswith(f"a dotted module of {tmp_path}, which paths are relative to")
    assert problem.hint is not None and problem.hint.startswith("Did you mean shop/src/bot?")


def test_drivers__of_the_names_of_agents(tmp_path: Path) -> None:
    make(tmp_path, "home/agent.py")
    lines = []
    for name in NAMED:
        choice = AgentChoice(path=name, reason="--agent")
        driver = choice.driver
        facts = {"runs here": choice.runs_here, "remote": driver.remote, "reads a file": driver.reads_file}
        facts |= {"repeatable": driver.repeatable}
        lines.append(
            f"{name}: {driver.prefix} {choice.source}: {', '.join(fact for fact, holds in facts.items() if holds)}"
        )
        path, problem = Finder(root=tmp_path).named(name, "--agent", None)
        lines += [f"  {line}" for line in str(problem or f"found: {path}").splitlines()]
        if driver.reads_file:  # Only recordings are checked by name.
            assert driver.refuse("missing", tmp_path, "--agent") is not None
        elif not driver.remote:
            assert driver.refuse("missing", tmp_path, "--agent") is None
    golden_files.check("golden_drivers.txt", "\n".join(lines).replace(str(tmp_path), "ROOT") + "\n")
    prefixes = [driver.prefix for driver in DRIVERS]
    assert len(set(prefixes)) == len(prefixes) and prefixes[-1] == "", "the last one takes the rest"
    recorded, home = (AgentChoice(path=path, reason="") for path in ("recorded:x", "home"))
    for by_file in ({}, {"a": recorded}, {"a": recorded, "b": home}):
        assert AgentChoices(by_file=by_file).runs_here == ("b" in by_file)


# Files that name dependencies come from the pull request: they are read within limits.

_TOO_LARGE = 20_000_001


def _sparse(path: Path, start: str = "") -> None:
    """A file that takes no room on the disk."""
    with path.open("w", encoding="utf-8") as file:
        file.write(start)
        file.truncate(_TOO_LARGE)


def _prepared(root: Path) -> Dependencies:
    """What is done with dependencies before anything is installed."""
    dependencies = find_dependencies(root, root)
    check_adk(dependencies, root)
    fingerprint(dependencies, root)
    return dependencies


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml", "uv.lock", ".python-version", "more.txt"])
def test_find_dependencies__file_that_is_too_large(tmp_path: Path, name: str) -> None:
    if name == "uv.lock":
        make(tmp_path, "pyproject.toml", text='[project]\nname = "bot"\n')
    make(tmp_path, "requirements.txt", text="-r more.txt\n" if name == "more.txt" else "")
    _sparse(tmp_path / name)
    with pytest.raises(AgentFailure, match=r"can't be read: It is larger than 20 MB") as failure:
        _prepared(tmp_path)
    assert str(tmp_path / name) in failure.value.message


def test_fingerprint__large_local_archive(tmp_path: Path) -> None:
    _sparse(tmp_path / "model.whl", "one")
    (tmp_path / "requirements.txt").write_text("./model.whl\n", "utf-8")
    before = fingerprint(_prepared(tmp_path), tmp_path)
    _sparse(tmp_path / "model.whl", "two")
    assert fingerprint(_prepared(tmp_path), tmp_path) != before


POETRY = '[tool.poetry]\nname = "x"\n[tool.poetry.dependencies]\ngoogle-adk = "^1.20"\n'
PROJECT = '[project]\nname = "x"\nversion = "1"\n'
LINES = (
    *("google-adk==0.5.0", "google-adk[eval]==1.17.1", "google_adk == 1.0.*", "google-adk<1.18", "google-adk<=1.17"),
    *("google-adk>=1.0,<1.18.0", "google-adk~=1.17.0", "google-adk==0.5.0  # a comment", "google-adk"),
    *("google-adk==1.18.0", "google-adk>=0.5", "google-adk~=1.0", "google-adk==1.*", "google-adk<2"),
    *("google-adk==0.5.0; python_version < '3'", "google-adk-community<0.2", "# google-adk==0.5.0"),
)
LOCK = '[[package]]\nname = "google-adk"\nversion = "1.2.0"\n'
CHAIN = {f"r{number}.txt": f"-r r{number + 1}.txt\n" for number in range(1_500)}
REPOSITORIES: dict[str, dict[str, str]] = {
    **{line: {"requirements.txt": f"other==1\n{line}\n"} for line in LINES},
    **{
        f"{line} in pyproject.toml": {"pyproject.toml": f'{PROJECT}dependencies = ["{line}"]\n'}
        for line in LINES
        if "#" not in line
    },
    "included": {"requirements.txt": "-r more.txt\n", "more.txt": "google-adk==1.0\n"},
    "locked": {"pyproject.toml": PROJECT, "uv.lock": LOCK},
    "a chain that is a cycle": {
        "requirements.txt": "-r r0.txt\n",
        **CHAIN,
        "r1500.txt": "-r r0.txt\ngoogle-adk==0.5\n",
    },
    "Poetry": {"pyproject.toml": POETRY},
    "Poetry, with a project": {"pyproject.toml": f"{PROJECT}{POETRY}"},
    "and its dependencies": {"pyproject.toml": f'{PROJECT}dependencies = ["google-adk"]\n{POETRY}'},
    "or dynamic ones": {"pyproject.toml": f'{PROJECT}dynamic = ["dependencies"]\n{POETRY}'},
    "what was exported": {"pyproject.toml": POETRY, "requirements.txt": "google-adk==2.13.0\n"},
}


def test_find_dependencies__and_what_is_refused_before_it_is_installed(tmp_path: Path) -> None:
    lines = []
    for number, (name, files) in enumerate(REPOSITORIES.items()):
        root = tmp_path / str(number)
        for path, text in files.items():
            make(root, path, text=text)
        try:
            lines.append(f"{name}: {_prepared(root).kind.value}")
        except AgentFailure as failure:
            lines += [f"{name}: {failure.kind}: {failure}".replace(str(root), "ROOT"), f"  {failure.hint}"]
    golden_files.check("golden_dependencies.txt", "\n".join(lines) + "\n")
