"""Settings from flags, inputs and agent-eval.toml, with its tables."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from golden_files import check

from agent_eval.cli import main
from agent_eval.gate.policy import PolicyReader
from agent_eval.settings import FORMER, SETTINGS, Settings, read_settings
from agent_eval.settings.toml_file import read_settings_file
from agent_eval_scoring.core.problem import Problem, Severity, docs_page

# Reading Settings from flags, inputs and agent-eval.toml, with its `[servers.NAME]`.


KEY, HEADERS = "AGENT_EVAL_JUDGE_API_KEY", "AGENT_EVAL_AGENT_HEADERS"
MODES: Sequence[tuple[str, dict[str, str], dict[str, str]]] = (
    ("", {}, {}),
    ("", {"replay": "tools"}, {}),
    ("", {"record": "missing"}, {}),
    ("", {"record": "all"}, {"INPUT_REPLAY": "tools"}),
    ('record = "all"\n', {"replay": "tools"}, {}),
    ('replay = "tools"\n', {}, {"INPUT_RECORD": "missing"}),
    ('replay = "tools"\n', {"record": "all", "replay": "off"}, {}),
)
"""Of which one counts: what the nearest source says."""
SEVERAL_KINDS = """\
# ours
workers = 2
num-runs = 0
concurency = 4
config = ["a"]

[agents]
"a/**" = 1
[unheard_of]
"""
SERVER = """\
agent = "server:small"
[servers.weather-1]
command = ["go", "run", ".", "{port}"]
directory = "agents/weather"
protocol = "adk"
url = "http://localhost:{port}/api"
app = "weather"
ready = "/ok"
ready_timeout = 300
version = "v1"
[servers.small]
command = ["./serve"]
"""
FULL = """\
gate = "both"
max-quarantined = 0.2

[[policy]]
alpha = 0.01

[[policy]]
metric = "response_match_*"
cases = ["evals/home/**", "evals/a.test.json:lamp_*"]
threshold = 1
max-drop = 0.05
blocking = false

[[policy]]
metric = "token_usage_v1"
direction = "lower"
max-drop = 0.2

[[quarantine]]
case = "evals/home.test.json:garage"
reason = "the clock of the fixture drifts"
owner = "@alice"
expires = 2027-01-31

[agents]
"evals/**" = "agents/home"
"""


def sources() -> Iterator[tuple[str | None, Mapping[str, str | Sequence[str]], dict[str, str], dict[str, str]]]:
    """What is in the file, flags, the environment of the action, and that of secrets."""
    yield None, {}, {"INPUT_TOKEN": "x", "PATH": "/bin", "NUM-RUNS": "9", "INPUT_": ""}, {}
    yield '\ufeffnum-runs = 1_0\nmin-pass-rate = 0.5\nresume = true\nturn-timeout = "1.5"\n', {}, {}, {}
    yield '[agents]\n"evals/**" = "my_agent"\nlast = "other"', {}, {}, {}
    # What is a list can be a text in a file and in an input, but no flag is split.
    for paths in ('"a b/*.test.json"', '["a", "with blank"]', "\"'with blank' b\\nc\"", "[]"):
        yield f"paths = {paths}", {}, {}, {}
    yield None, {"paths": ["a b", "c"]}, {}, {}
    yield None, {}, {"INPUT_PATHS": "evals\nmore/*.test.json\n"}, {}
    yield None, {}, {"INPUT_NUM_RUNS": "3"}, {}  # As GitLab's component passes it.
    for folder in ("out", "/elsewhere"):
        yield None, {"output-dir": folder}, {}, {}
    # The runner passes an omitted input as an empty text.
    inputs = {"INPUT_NUM-RUNS": "3", "INPUT_CONCURRENCY": "3", "INPUT_AGENT": "", "INPUT_FAIL-FAST": " TRUE "}
    yield 'num-runs = 2\nconcurrency = 2\nworkers = 2\nagent = "from_toml"', {"num-runs": "4"}, inputs, {}
    flags = {"turn-timeout": "soon", "output-dir": "out"}
    yield SEVERAL_KINDS, flags, {"INPUT_FAIL-FAST": "maybe", "INPUT_NUMRUNS": "2"}, {}
    yield '[agents]\n"evals/**" = "a"\nagent-python = "python3"\n', {}, {}, {}
    for text in ("num-runs = \n", 'a = 1\nb = "open\n', "a = 1\na = 2\n"):
        yield text, {}, {}, {}
    for name in FORMER:
        yield f'{name} = "x"\n', {}, {f"INPUT_{name.upper()}": "x"}, {}
    # Commands, variables, directories and addresses are settings of the workflow only.
    for name in (setting.input for setting in SETTINGS if not setting.in_file):
        yield f'num-runs = 2\n{name} = "x"\n', {}, {}, {}
    yield None, {}, {}, {KEY: "of-the-shell"}
    yield None, {}, {"INPUT_JUDGE-API-KEY": "of-the-workflow"}, {KEY: "of-the-shell"}
    yield '[prices]\n"my-model" = { input = 1, output = 2.5 }\n', {}, {}, {}
    # Headers never go to an agent or a server that the file names, which a pull request can change.
    for text in ('agent = "adk:http://h"', '[agents]\n"**" = "adk:http://h"', SERVER):
        yield text, {}, {}, {HEADERS: "X-Token: hunter2"}
    yield '[agents]\n"**" = "agents/x"', {"agent": "adk:http://h"}, {}, {HEADERS: "X-Token: hunter2"}
    yield None, {}, {}, {HEADERS: "X: Bearer "}
    yield from ((text, flags, inputs, {}) for text, flags, inputs in MODES)
    yield SERVER, {}, {}, {}
    rules = ("pattern = 'Today is \\w{1,9}'", "agent = 'a*'\npattern = 'T-\\d{4}'\nin = 'contents'")
    yield "".join(f"[[volatile]]\n{rule}\n" for rule in rules), {}, {}, {}
    # The tables [[policy]] and [[quarantine]]: what they say.
    yield FULL, {}, {}, {}
    yield f'{ENTRY}alpha = 0.1{ENTRY}max-drop = 0.1{ENTRY}cases = "x"\nalpha = 0.2', {}, {}, {}
    yield f"gate-jobs = 4\n[[policy]]\nalpha = 0.2\n{ENTRY}alpha = 0.1", {}, {}, {}


def said_of(problems: Sequence[Problem]) -> list[str]:
    return [f"    {one.code}:{one.file}:{one.line}: {one.message} {one.hint}" for one in problems]


def test_read_settings__of_every_source(tmp_path: Path) -> None:
    """UPDATE_GOLDEN=1 writes what differs from the defaults, and the problems."""
    lines = []
    for text, flags, environ, secrets in sources():
        settings, problems = read_settings(tmp_path, text=text, flags=flags, environ=environ, secrets=secrets)
        lines.append(" ".join([repr(text), *(f"{each}" for each in (flags, environ, secrets) if each)]))
        changed = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
        default = Settings(root=tmp_path)
        lines += [f"    {name}: {value}" for name, value in changed.items() if getattr(default, name) != value]
        lines += [f"    {name} is ready at {server.ready_paths}" for name, server in settings.servers.items()]
        lines += [f"    {settings.tape_mode}"] * (settings.tape_mode != "live") + said_of(problems)
        assert settings.output == tmp_path / settings.output_dir
        assert {problem.severity for problem in problems} <= {Severity.ERROR}, text
        for secret in ("of-the", "hunter2"):
            assert secret not in f"{settings!r} {problems}"
    check("golden_settings.txt", without_site("\n".join(lines) + "\n").replace(f"{tmp_path}", "ROOT"))


def without_site(text: str) -> str:
    """The address is another one in a released tree."""
    return text.replace(docs_page("").removesuffix("/"), "DOCS/")


def test_settings__of_policies() -> None:
    """Every alpha is divided by the number of jobs."""
    settings, _ = read_settings(Path(), text=f"gate-jobs = 4\n[[policy]]\nalpha = 0.2\n{ENTRY}alpha = 0.1")
    reader = PolicyReader(settings.policy)
    assert reader.metric("safety_v1", reader.of_case("a.test.json", "a")).alpha == pytest.approx(0.025)


ESCAPES = "In double quotes, a backslash begins an escape: write `/`, two backslashes, or single quotes."


@pytest.mark.parametrize(
    ("line", "what", "todo"),
    [
        *(
            (
                f'paths = "{path}"',
                f'The file can\'t be read: {error}: `paths = "{path}"`',
                ESCAPES,
            )
            for path, error in (("evals\\home", "Unescaped '\\' in a string"), ("C:\\Users", "Invalid hex value"))
        ),
        ("paths = [evals]", "The file can't be read: Invalid value: `paths = [evals]`", 'Texts need quotes: "evals".'),
        (
            "fail-fast = True",
            "The file can't be read: Invalid value: `fail-fast = True`",
            "Write it in lower case: true.",
        ),
        *(
            (line, f"The file can't be read: Invalid value: `{line}`", todo)
            for line, todo in {
                "fail-fast = yes": "Write true or false: `fail-fast = true`.",
                "fail-fast = off": "Write true or false: `fail-fast = false`.",
                "concurrency = three": "`concurrency` must be a number: `concurrency = 3`.",
                "turn-timeout = long": "`turn-timeout` must be a number: `turn-timeout = 180`.",
                "gate = both": 'Texts need quotes: "both".',
                "judge-model = gemini-2.5-flash": 'Texts need quotes: "gemini-2.5-flash".',
            }.items()
        ),
        *(
            (line, f"`{line.split()[0]}` must be {form}", f"Write e.g. `{example}`.")
            for line, form, example in (
                ("paths = [1, 2]", "a list of texts, not [1, 2].", 'paths = ["evals"]'),
                ("paths = 3", "a list of texts, not 3.", 'paths = ["evals"]'),
                ("exclude = true", "a list of texts, not true.", 'exclude = ["evals/slow/"]'),
                ("fail-fast = []", "true or false, not [].", "fail-fast = true"),
                ("concurrency = [3]", "a number, not [3].", "concurrency = 3"),
                ('report = ["full"]', '"full" or "failing" or "scores" or "off", not ["full"].', 'report = "full"'),
            )
        ),
        (
            "judge-model = 4",
            "`judge-model` must be a text, not 4.",
            "`judge-model`: The judge model for criteria that don't name one, e.g. openai/gpt-4o. Default: "
            "gemini-2.5-flash, as in ADK.",
        ),
        (
            "num-runs: 3",
            "The file can't be read: Expected '=' after a key in a key/value pair: `num-runs: 3`",
            "Write `=` instead of the colon: `num-runs = 3`.",
        ),
        (
            'judge-model = "gemini',
            "The file can't be read: Illegal character '\\n': `judge-model = \"gemini`",
            "A quote is not closed: add one at the end of the text.",
        ),
        (
            'evals/** = "bot"',
            "The file can't be read: Expected '=' after a key in a key/value pair: `evals/** = \"bot\"`",
            'A key with other characters than letters, digits, - and _ needs quotes: "evals/**" = ...',
        ),
        (
            '*.test.json = "bot"',
            'The file can\'t be read: Invalid statement: `*.test.json = "bot"`',
            'A key with other characters than letters, digits, - and _ needs quotes: "*.test.json" = ...',
        ),
        (
            'agents.a.test.json = "bot"',
            "`a.test.json` in [agents] has dots, so it needs quotes.",
            'Write "a.test.json" = "my_agent".',
        ),
        (
            "prices.gemini-2.5-flash = {input = 1, output = 2}",
            "`gemini-2.5-flash` in [prices] has dots, so it needs quotes.",
            'Write "gemini-2.5-flash" = {input = 0.3, output = 2.5}.',
        ),
        (
            'agents = {"a/**" = ["bot"]}',
            '[agents] must map each pattern to one text, not to ["bot"].',
            'Write "a/**" = "my_agent".',
        ),
        (
            'tool = [{name = "a", replay = "never"}]',
            '`replay` of [[tool]] must be true or false, not "never".',
            "Write e.g. `replay = false`.",
        ),
        ("server.bot = {}", "There is no setting for `server`.", "Did you mean `[servers.NAME]`?"),
    ],
)
def test_read_settings_file__says_what_to_write_in_a_line(line: str, what: str, todo: str) -> None:
    [problem] = read_settings_file(f"min-pass-rate = 0.5\n{line}\n").problems
    assert (problem.line, problem.message, problem.hint) == (2, what, todo)


def test_read_settings__what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "agent-eval.toml").write_bytes(b"\xff\xfe")
    _, (problem,) = read_settings(tmp_path)
    assert (problem.code, problem.file, problem.line) == ("settings-file-unreadable", "agent-eval.toml", None)
    (tmp_path / "agent-eval.toml").unlink()
    (tmp_path / "agent-eval.toml").symlink_to("missing.toml")
    _, (problem,) = read_settings(tmp_path)
    assert problem.message == "The file can't be read: it is a broken symbolic link"
    (tmp_path / "missing.toml").mkdir()
    _, (problem,) = read_settings(tmp_path)
    assert problem.code == "settings-file-unreadable"
    (tmp_path / "missing.toml").rmdir()
    (tmp_path / "missing.toml").write_text("num-runs = 7", "utf-8")
    assert read_settings(tmp_path)[0].num_runs == 7


ENTRY = '\n[[policy]]\nmetric = "safety_v1"\n'
HELD = '[[quarantine]]\ncase = "a:b"\nreason = "r"\nowner = "o"\n'
TODAY = "expires = 2027-01-31\n"


VALUES = {
    "num-runs": ("0", ""),
    "concurrency": ("-1",),
    "workers": ("9999999999",),
    "min-pass-rate": ("1.01", "nan"),
    "turn-timeout": ("0", "inf"),
    "fail-fast": ("yes",),
    "on-inconclusive": ("ignore",),
    "output-dir": (" ",),
    "agent-env": ("A=b",),
    "paths": ("'open",),
    "baseline": ("file:../x.json", "file:/etc/passwd", "artifact,artifact", "art", ""),
}
"""Values that a setting refuses."""
POLICIES = (
    f"{ENTRY}treshold = 1",
    f"{ENTRY}zzz = 1",
    f"{ENTRY}alpha = 0.1\nnum-runs = 3",
    f"{ENTRY}alpha = 1.5",
    f"{ENTRY}alpha = 1",
    f"{ENTRY}alpha = nan",
    f"{ENTRY}threshold = true",
    f"{ENTRY}max-drop = true",
    f"{ENTRY}max-drop = 5",
    f'{ENTRY}max-drop = "0.05"',
    f"{ENTRY}blocking = 1",
    f'{ENTRY}direction = "down"',
    "[[policy]]\nchanged-facts = true",
    f'{ENTRY}changed-facts = "block"',
    f"{ENTRY}cases = []\nalpha = 0.1",
    f'{ENTRY}cases = ["a", 1]\nalpha = 0.1',
    f'{ENTRY}cases = "!"\nalpha = 0.1',
    '[[policy]]\nmetric = " "\nalpha = 0.1',
    ENTRY,
    "[[policy]]\nthreshold = 0.5",
    '[[policy]]\nmetric = "pass"\ndirection = "lower"',
    "# x\n[policy]\nalpha = 0.1",
    "\npolicy = 0.1",
    '\npolicy = [{metric = "m", alpha = 2}]',
    f"{ENTRY}alpha = 0.1{ENTRY}\n\nalpha = 0.2",
    "max-quarantined = 2",
    "\nmax-quarantined = false",
    HELD,
    '[[quarantine]]\ncase = "x"',
    f'{HELD}expires = "2027-01-31"',
    f"{HELD}expires = 2027-01-31T00:00:00Z",
    f"{HELD}{TODAY}until = 1",
    '[[quarantine]]\nowner = ""\ncase = "x"\nreason = "x"\nexpires = 2027-01-01',
    f"{HELD}{TODAY}{HELD}{TODAY}",
)
SERVERS = (
    "[servers.x]\n",
    "servers = 1\n",
    "servers.x = 1\n",
    '[servers."a/b"]\ncommand = ["x"]\n',
    '[agents]\n"a/**" = "server:weather"\n[servers.other]\ncommand = ["x"]\n',
    *(f"[servers.x]\n{line}\n" for line in ('comand = ["x"]', 'command = "go run ."', "command = []", "command = [1]")),
    *(
        f'[servers.x]\ncommand = ["go"]\n{line}\n'
        for line in (
            *('directory = "/srv/agent"', 'directory = "../agent"', 'directory = "a/../../agent"'),
            *('url = "http://127.0.0.1:8000"', 'url = "http://agents.example:{port}"'),
            *('url = "http://u:p@127.0.0.1:{port}"', 'url = "http://127.0.0.1:{port}#app"'),
            *('url = "http://127.0.0.1:1{port}"', 'url = "http://127.0.0.1:8000/{port}"'),
            *('ready = "/is it ready"', 'ready = "health"', "ready_timeout = 0", "ready_timeout = true"),
            *('protocol = "grpc"', "app = 1", 'app = "x"\nprotocol = "a2a"'),
        )
    ),
)
VOLATILE = (
    *("agent = 'x'", "pattern = 3", "pattern = '.{1,99}'", "pattern = '[a-z]{1,9}'", "pattern = '\\w'"),
    *("pattern = '(a+)+'", "pattern = 'a?'", "pattern = 'a('"),
    *("pattern = 'x y'\nin = 'tools'", "pattern = 'x y'\nplace = 'contents'"),
)


SEVERAL: Sequence[tuple[str, dict[str, str]]] = (
    (f"num-run = 1\nmax-quarantined = 3\n{HELD}{ENTRY}alpha = 2\nblockin = true\n", {}),
    ('\n[prices]\n"my-model" = { input = 1 }\n', {}),
    ('replay = "tools"\nrecord = "missing"\n', {}),
    ('replay = "tools"\n', {"record": "all", "replay": "tools"}),
    *(
        ("", {"shard": "1/2", name: value})
        for name, value in (("fail-fast", "true"), ("mode", "merge"), ("mode", "publish"))
    ),
    ("", {"agent": "server:missing"}),
)
"""Several mistakes, and settings that exclude each other."""


def test_read_settings__each_mistake_has_its_line_and_leaves_the_default(tmp_path: Path) -> None:
    """UPDATE_GOLDEN=1 writes what is said of them."""
    values = [{name: value} for name, each in VALUES.items() for value in each]
    texts = (*POLICIES, *SERVERS, *(f"num-runs = 1\n[[volatile]]\n{text}\n" for text in VOLATILE))
    said = []
    for text, flags in (*((text, {}) for text in texts), *(("", flags) for flags in values), *SEVERAL):
        settings, problems = read_settings(tmp_path, text=text, flags=flags)
        said.append(f"{text!r} {flags or ''}".strip() + "\n")
        said += [f"{line}\n" for line in said_of(problems)]
        assert {problem.severity for problem in problems} == {Severity.ERROR}
        assert settings.servers.keys() <= {"other"} and settings.volatile_rules == ()
        assert flags not in values or settings == Settings(root=tmp_path)
    check("golden_settings_problems.txt", without_site("".join(said)))


# Every mistake in a policy ends `agent-eval run` with exit code 2, at its line, before an agent is started.


SOON = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
LAMP_TURN = {"user_content": {"parts": [{"text": "Lamp on"}]}, "final_response": {"parts": [{"text": "It is on."}]}}
SUITE = {"eval_set_id": "home", "eval_cases": [{"eval_id": name, "conversation": [LAMP_TURN]} for name in ("a", "b")]}
LAMP_HELD = '\n[[quarantine]]\ncase = "evals/home.test.json:a"\nreason = "r"\nowner = "@o"\n'


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "home.test.json").write_text(json.dumps(SUITE), encoding="utf-8")
    (tmp_path / "agent").mkdir()
    # Importing it leaves a file.
    (tmp_path / "agent" / "agent.py").write_text("root_agent = open('started', 'w')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_run_and_validate__mistake_in_the_policy_ends_with_exit_code_2(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, line, message in (
        ('[[policy]]\nmetric = "safety_v1"\ntreshold = 1', 3, "[policy-invalid] There is no `treshold`"),
        ('[[policy]]\ncases = "evals/x.test.json"\nalpha = 0.1', 1, "[policy-matches-nothing] `evals/x.test.json`"),
        (f"{LAMP_HELD}expires = {SOON}", 2, "[quarantine-too-many] 1 of 2 cases is quarantined"),
        (f"max-quarantined = 0.5\n{LAMP_HELD}expires = 2020-01-31", 3, "[quarantine-expired]"),
        ('gate = "regression"', 1, "[setting-invalid]"),
    ):
        (repository / "agent-eval.toml").write_text(text, encoding="utf-8")
        for command in (["run", "--output-dir", "out"], ["validate"]):
            assert main(command) == 2
            out = " ".join(capsys.readouterr().out.split())
            assert re.search(rf"agent-eval.toml[: ]{line}\b", out)
            assert message in out
        report = json.loads((repository / "out" / "results.json").read_text("utf-8"))
        errors = [problem for problem in report["problems"] if problem["severity"] == "error"]
        assert [(problem["file"], problem["line"]) for problem in errors] == [("agent-eval.toml", line)]
    assert not list(repository.rglob("started"))
    (repository / "agent-eval.toml").write_text("[[policy]]\nalpha = 0.1", encoding="utf-8")
    assert main(["validate"]) == 0


def test_read_settings__a_file_with_almost_its_name_is_named(tmp_path: Path) -> None:
    for name in ("agent_eval.toml", "pyproject.toml"):
        (tmp_path / name).write_text("num-runs = 3\n", "utf-8")
    _, problems = read_settings(tmp_path)
    assert [(problem.code, problem.file) for problem in problems] == [("settings-file-misnamed", "agent_eval.toml")]


def test_read_settings__variables_that_are_no_secrets_are_named(tmp_path: Path) -> None:
    variables = {
        "AGENT_EVAL_NUM_RUNS": "3",
        "AGENT_EVAL_AGENT_SETUP": "make",
        "AGENT_EVAL_JUDGE_API_KEY": "k",
        "AGENT_EVAL_JUDGE_KEY": "k",
        "AGENT_EVAL_REPORT_URL": "https://example.com",
        "AGENT_EVAL_OF_OUR_OWN": "1",
        "CI": "1",
    }
    _, problems = read_settings(tmp_path, secrets=variables)
    assert {(problem.severity, problem.code) for problem in problems} == {("warning", "setting-unknown")}
    assert [problem.hint for problem in problems] == [
        "Use the flag `--agent-setup`.",
        "Use the flag `--num-runs` or the key `num-runs` of agent-eval.toml.",
        "Did you mean AGENT_EVAL_JUDGE_API_KEY?",
    ]


def test_read_settings__an_input_of_github_wins_over_a_variable_with_underscores(tmp_path: Path) -> None:
    for given, runs in (
        ({"INPUT_NUM_RUNS": "3"}, 3),
        ({"INPUT_NUM_RUNS": "5", "INPUT_NUM-RUNS": "2"}, 2),
        ({"INPUT_NUM-RUNS": "3", "INPUT_NUM_RUNS": ""}, 3),
        ({"INPUT_NUM-RUNS": "", "INPUT_NUM_RUNS": "4"}, 1),
    ):
        settings, problems = read_settings(tmp_path, environ=given)
        assert (settings.num_runs, problems) == (runs, []), given


def test_read_settings__a_line_that_may_have_a_secret_is_not_repeated(tmp_path: Path) -> None:
    (tmp_path / "agent-eval.toml").write_text("judge-api-key = AIzaSyD-0123\n", "utf-8")
    _, [problem] = read_settings(tmp_path)
    assert problem.line == 1 and "AIza" not in f"{problem.message} {problem.hint}"


def test_read_settings__settings_in_another_place_are_named(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    for name in ("agent-eval.yaml", "evals/agent-eval.toml"):
        (tmp_path / name).write_text("num-runs: 3\n", "utf-8")
    (tmp_path / "pyproject.toml").write_text("[project]\n[tool.agent-eval]\nnum-runs = 3\n", "utf-8")
    _, problems = read_settings(tmp_path)
    assert {problem.code for problem in problems} == {"settings-file-misnamed"}
    assert [problem.location for problem in problems] == [
        "agent-eval.yaml",
        "evals/agent-eval.toml",
        "pyproject.toml:2",
    ]
    (tmp_path / "agent-eval.toml").write_text("num-runs = 3\n", "utf-8")
    _, problems = read_settings(tmp_path)
    assert [problem.file for problem in problems] == ["agent-eval.yaml", "pyproject.toml"], "evals/ may be a root, too"


def test_written_directories__a_folder_that_is_named_off_is_no_cache(tmp_path: Path) -> None:
    settings, _ = read_settings(tmp_path)
    assert settings.judge_cache == "off" and settings.written_directories == [settings.output]
