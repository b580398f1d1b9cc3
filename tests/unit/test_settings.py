"""Settings from flags, inputs and agent-eval.toml, with its tables."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from golden_files import check
from policy_texts import policy_of

from agent_eval.agents.driver import ServerSpec
from agent_eval.cli import main
from agent_eval.core.problem import Problem, Severity, docs_page
from agent_eval.gate.policy import Policy, PolicyEntry, PolicyReader
from agent_eval.settings import BY_INPUT, FORMER, SETTINGS, Settings, read_settings
from agent_eval.settings.toml_file import CONFIG_FILE

# Reading Settings from flags, inputs and agent-eval.toml, with its `[servers.NAME]`.


def read(
    root: Path,
    *,
    toml: str | None = None,
    flags: Mapping[str, str | Sequence[str]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Settings, list[Problem]]:
    if toml is not None:
        (root / "agent-eval.toml").write_text(toml, encoding="utf-8")
    return read_settings(root, flags=flags, environ=environ)


def good(root: Path, **sources: object) -> Settings:
    settings, problems = read(root, **sources)  # type: ignore[arg-type]
    assert problems == []
    return settings


def test_read_settings__values(tmp_path: Path) -> None:
    """Of their types; what is a list can be a text in a file and in an input, but no flag is split."""
    ignored = {"INPUT_TOKEN": "x", "PATH": "/bin", "NUM-RUNS": "9", "INPUT_": ""}
    assert good(tmp_path, environ=None) == good(tmp_path, environ=ignored) == Settings(root=tmp_path)
    toml = '\ufeffnum-runs = 1_0\nmin-pass-rate = 0.5\nresume = true\nturn-timeout = "1.5"\n'
    settings = good(tmp_path, toml=toml + '[agents]\n"evals/**" = "my_agent"\nlast = "other"')
    assert (settings.num_runs, settings.min_pass_rate, settings.resume, settings.turn_timeout) == (10, 0.5, True, 1.5)
    assert list(settings.agents.items()) == [("evals/**", "my_agent"), ("last", "other")]
    for text, paths in (
        ('"a b/*.test.json"', ("a", "b/*.test.json")),
        ('["a", "with blank"]', ("a", "with blank")),
        ("\"'with blank' b\\nc\"", ("with blank", "b", "c")),
        ("[]", ()),
    ):
        assert good(tmp_path, toml=f"paths = {text}").paths == paths
    assert good(tmp_path, toml="", flags={"paths": ["a b", "c"]}).paths == ("a b", "c")
    assert good(tmp_path, environ={"INPUT_PATHS": "evals\nmore/*.test.json\n"}).paths == ("evals", "more/*.test.json")
    assert good(tmp_path, flags={"output-dir": "out"}).output == tmp_path / "out"
    assert good(tmp_path, flags={"output-dir": "/elsewhere"}).output == Path("/elsewhere")


def test_settings__every_row_has_a_field() -> None:
    assert {setting.field for setting in SETTINGS} <= {field.name for field in dataclasses.fields(Settings)}


def test_read_settings__precedence_of_sources(tmp_path: Path) -> None:
    toml = 'num-runs = 2\nconcurrency = 2\nworkers = 2\nagent = "from_toml"'
    environ = {"INPUT_NUM-RUNS": "3", "INPUT_CONCURRENCY": "3", "INPUT_AGENT": "", "INPUT_FAIL-FAST": " TRUE "}
    settings = good(tmp_path, toml=toml, environ=environ, flags={"num-runs": "4"})
    assert (settings.num_runs, settings.concurrency, settings.workers) == (4, 3, 2)
    assert settings.agent == "from_toml", "the runner passes an omitted input as an empty text"
    assert settings.fail_fast is True


def test_read_settings__all_mistakes_at_once(tmp_path: Path) -> None:
    toml = '# ours\nworkers = 2\nnum-runs = 0\nconcurency = 4\nconfig = ["a"]\n\n[agents]\n"a/**" = 1\n[unheard_of]\n'
    settings, problems = read(
        tmp_path,
        toml=toml,
        flags={"turn-timeout": "soon", "output-dir": "out"},
        environ={"INPUT_FAIL-FAST": "maybe", "INPUT_NUMRUNS": "2"},
    )
    found = {(problem.code, problem.file, problem.line, problem.message.split(":")[0]) for problem in problems}
    assert {(code.removeprefix("setting-"), line, says.split(" for ")[-1]) for code, _, line, says in found} == {
        ("invalid", 3, "num-runs in agent-eval.toml"),
        ("unknown", 4, "`concurency`."),
        ("unknown", 9, "`unheard_of`."),
        ("invalid", 5, "`config` has a value of the wrong type."),
        ("invalid", 7, '[agents] must map patterns to agents, e.g. "evals/**" = "my_agent".'),
        ("invalid", None, "--turn-timeout"),
        ("invalid", None, "input fail-fast"),
        ("unknown", None, "the input `numruns`."),
    }
    assert {file for _, file, line, _ in found if line} == {"agent-eval.toml"}
    hints = "".join(problem.hint or "" for problem in problems if problem.code == "setting-unknown")
    for hint in ("Did you mean `concurrency`?", "Did you mean `num-runs`?", "min-pass-rate"):
        assert hint in hints
    assert settings.output_dir == Path("out"), "later steps look for the files there"


def test_read_settings__setting_below_the_agents_table(tmp_path: Path) -> None:
    settings, (problem,) = read(tmp_path, toml='[agents]\n"evals/**" = "a"\nagent-python = "python3"\n')
    assert (problem.code, problem.line) == ("setting-invalid", 3)
    assert "`agent-python` is below [agents]" in problem.message
    assert settings.agents == {"evals/**": "a"}


@pytest.mark.parametrize(
    ("content", "line"),
    [(b"num-runs = \n", 1), (b'a = 1\nb = "open\n', 2), (b"\xff\xfe", None), (b"a = 1\na = 2\n", 2)],
)
def test_read_settings__invalid_toml(tmp_path: Path, content: bytes, line: int | None) -> None:
    (tmp_path / "agent-eval.toml").write_bytes(content)
    _, (problem,) = read(tmp_path)
    assert (problem.code, problem.file, problem.line) == ("settings-file-unreadable", "agent-eval.toml", line)


def test_read_settings__what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "agent-eval.toml").symlink_to("missing.toml")
    _, (problem,) = read(tmp_path)
    assert problem.message == "agent-eval.toml can't be read: it is a broken symbolic link"
    (tmp_path / "missing.toml").mkdir()
    _, (problem,) = read(tmp_path)
    assert problem.code == "settings-file-unreadable"


@pytest.mark.parametrize("name", FORMER)
def test_read_settings__former_name_says_the_new_one(tmp_path: Path, name: str) -> None:
    assert name not in BY_INPUT
    given, written = read(tmp_path, environ={f"INPUT_{name.upper()}": "x"}), read(tmp_path, toml=f'{name} = "x"\n')
    for problem in (*given[1], *written[1]):
        assert (problem.code, problem.hint) == ("setting-unknown", f"Use {FORMER[name]}.")
    assert (len(given[1]), len(written[1])) == (1, 1)


@pytest.mark.parametrize("name", [setting.input for setting in SETTINGS if not setting.in_file])
def test_read_settings__refuses_workflow_settings_in_toml(tmp_path: Path, name: str) -> None:
    settings, (problem,) = read(tmp_path, toml=f'num-runs = 2\n{name} = "x"\n')
    assert (problem.code, problem.file, problem.line) == ("setting-not-in-file", "agent-eval.toml", 2)
    assert problem.severity is Severity.ERROR
    assert getattr(settings, name.replace("-", "_")) == getattr(Settings(root=tmp_path), name.replace("-", "_"))


def test_settings_table__commands_variables_directories_and_addresses_are_workflow_settings() -> None:
    assert {setting.input for setting in SETTINGS if not setting.in_file} == {
        "agent-setup", "agent-env", "agent-headers", "output-dir", "cache-dir", "judge-cache", "judge-api-key", "judge-base-url",  # noqa: E501
        "mode", "github-token", "allow-pull-request-target", "base-ref", "base-branches",
        "comment-author", "name", "shard", "shard-plan",
    }  # fmt: skip


def test_read_settings__secret_from_input_or_variable_is_not_in_repr(tmp_path: Path) -> None:
    variables = {"AGENT_EVAL_JUDGE_API_KEY": "of-the-shell"}
    settings, problems = read_settings(tmp_path, secrets=variables)
    assert (settings.judge_api_key, problems) == ("of-the-shell", [])
    settings, _ = read_settings(tmp_path, environ={"INPUT_JUDGE-API-KEY": "of-the-workflow"}, secrets=variables)
    assert settings.judge_api_key == "of-the-workflow"
    assert "of-the-workflow" not in repr(settings)


def test_read_settings__prices(tmp_path: Path) -> None:
    prices = '[prices]\n"my-model" = { input = 1, output = 2.5 }\n'
    assert good(tmp_path, toml=prices).prices == {"my-model": {"input": 1, "output": 2.5}}


@pytest.mark.parametrize("text", ['agent = "adk:http://h"', '[agents]\n"**" = "adk:http://h"'])
def test_read_settings__headers_and_a_remote_agent_in_the_file_are_an_error(tmp_path: Path, text: str) -> None:
    secrets = {"AGENT_EVAL_AGENT_HEADERS": "X-Token: hunter2"}
    (tmp_path / CONFIG_FILE).write_text(text, encoding="utf-8")
    settings, problems = read_settings(tmp_path, secrets=secrets)
    assert [(problem.code, problem.line) for problem in problems] == [("remote-agent-headers", text.count("\n") + 1)]
    assert settings.agent_headers == {"X-Token": "hunter2"} and "hunter2" not in repr(settings)
    (tmp_path / CONFIG_FILE).write_text('[agents]\n"**" = "agents/x"', encoding="utf-8")
    assert read_settings(tmp_path, secrets=secrets, flags={"agent": "adk:http://h"})[1] == []
    assert read_settings(tmp_path, secrets={"AGENT_EVAL_AGENT_HEADERS": "X: Bearer "})[0].agent_headers == {}


def test_read_settings__gate_jobs_divides_every_alpha(tmp_path: Path) -> None:
    entries = '[[policy]]\nalpha = 0.2\n[[policy]]\nmetric = "safety_v1"\nalpha = 0.1\n'
    settings, problems = read(tmp_path, toml=f"gate-jobs = 4\n{entries}")
    reader = PolicyReader(settings.policy)

    assert problems == []
    assert settings.policy.alpha == pytest.approx(0.05)
    assert reader.metric("safety_v1", reader.of_case("a.test.json", "a")).alpha == pytest.approx(0.025)
    assert read(tmp_path, toml="")[0].policy.alpha == 0.05


@pytest.mark.parametrize(
    ("flags", "inputs", "toml", "mode"),
    [
        ({}, {}, "", "live"),
        ({"replay": "tools"}, {}, "", "replay"),
        ({"record": "missing"}, {}, "", "record-missing"),
        ({"record": "all"}, {"INPUT_REPLAY": "tools"}, "", "record"),
        ({"replay": "tools"}, {}, 'record = "all"\n', "replay"),
        ({}, {"INPUT_RECORD": "missing"}, 'replay = "tools"\n', "record-missing"),
        ({"record": "all", "replay": "off"}, {}, 'replay = "tools"\n', "record"),
    ],
)
def test_read_settings__one_of_replay_and_record_counts(
    tmp_path: Path, flags: dict[str, str], inputs: dict[str, str], toml: str, mode: str
) -> None:
    assert good(tmp_path, flags=flags, environ=inputs, toml=toml).tape_mode == mode


def servers_of(tmp_path: Path, text: str, **flags: str) -> tuple[dict[str, ServerSpec], list[str]]:
    settings, problems = read_settings(tmp_path, text=text, flags=flags)
    return dict(settings.servers), [f"{problem.code}:{problem.line}: {problem.message}" for problem in problems]


def test_servers__every_key(tmp_path: Path) -> None:
    text = """
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
    servers, problems = servers_of(tmp_path, text, agent="server:small")
    assert problems == []
    weather = servers["weather-1"]
    assert (weather.command, weather.url, weather.app) == (
        ("go", "run", ".", "{port}"),
        "http://localhost:{port}/api",
        "weather",
    )
    assert (weather.ready_paths, weather.ready_timeout, weather.version) == (("/ok",), 300, "v1")
    small = servers["small"]
    assert (small.ready_paths, small.url) == (("/health", "/list-apps"), "http://127.0.0.1:{port}")


def test_servers__headers_never_go_to_a_server_of_the_pull_request(tmp_path: Path) -> None:
    text = 'agent = "server:x"\n[servers.x]\ncommand = ["x"]\n'
    secrets = {"AGENT_EVAL_AGENT_HEADERS": "X-Token: hunter2"}
    _, problems = read_settings(tmp_path, text=text, secrets=secrets)
    assert [problem.code for problem in problems] == ["remote-agent-headers"]


def test_volatile__valid(tmp_path: Path) -> None:
    rules = ("pattern = 'Today is \\w{1,9}'", "agent = 'a*'\npattern = 'T-\\d{4}'\nin = 'contents'")
    settings, problems = read_settings(tmp_path, text="".join(f"[[volatile]]\n{rule}\n" for rule in rules))
    assert problems == []
    assert [(rule.agent, rule.pattern.pattern, rule.place) for rule in settings.volatile_rules] == [
        ("*", r"Today is \w{1,9}", "instruction"),
        ("a*", r"T-\d{4}", "contents"),
    ]


# The tables [[policy]] and [[quarantine]] of agent-eval.toml: what they say, and that no mistake in them passes.


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


def test_read_settings__policy_next_to_settings(tmp_path: Path) -> None:
    settings, problems = read_settings(tmp_path, text=FULL)
    policy = settings.policy

    assert problems == []
    assert (settings.gate, settings.agents) == ("both", {"evals/**": "agents/home"})
    assert policy.entries == (
        PolicyEntry(alpha=0.01, line=4),
        PolicyEntry(
            metric="response_match_*",
            cases=("evals/home/**", "evals/a.test.json:lamp_*"),
            threshold=1.0,
            max_drop=0.05,
            blocking=False,
            line=7,
        ),
        PolicyEntry(metric="token_usage_v1", direction="lower", max_drop=0.2, line=14),
    )
    [held] = policy.quarantine
    assert (held.case, held.reason) == ("evals/home.test.json:garage", "the clock of the fixture drifts")
    assert (held.owner, held.expires, held.line) == ("@alice", date(2027, 1, 31), 19)
    assert (policy.max_quarantined, policy.alpha) == (0.2, 0.01)


def test_read_policy__defaults() -> None:
    assert policy_of("num-runs = 2") == (Policy(), [])
    complementing = f'{ENTRY}alpha = 0.1{ENTRY}max-drop = 0.1{ENTRY}cases = "x"\nalpha = 0.2'
    assert policy_of(complementing)[1] == []
    assert Policy().alpha == 0.05


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
        said += [f"    {one.code}:{one.file}:{one.line}: {one.message} {one.hint}\n" for one in problems]
        assert {problem.severity for problem in problems} == {Severity.ERROR}
        assert settings.servers.keys() <= {"other"} and settings.volatile_rules == ()
        assert flags not in values or settings == Settings(root=tmp_path)
    site = docs_page("").removesuffix("/")  # It is another one in a released tree.
    check("golden_settings_problems.txt", "".join(said).replace(site, "DOCS/"))


# Every mistake in a policy ends `agent-eval run` with exit code 2, at its line, before an agent is started.


SOON = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
LAMP_TURN = {"user_content": {"parts": [{"text": "Lamp on"}]}, "final_response": {"parts": [{"text": "It is on."}]}}
SUITE = {
    "eval_set_id": "home",
    "eval_cases": [{"eval_id": name, "conversation": [LAMP_TURN]} for name in ("a", "b")],
}
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


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[[policy]]\nmetric = "safety_v1"\ntreshold = 1', 3, "[policy-invalid] There is no `treshold`"),
        ('[[policy]]\ncases = "evals/x.test.json"\nalpha = 0.1', 1, "[policy-matches-nothing] `evals/x.test.json`"),
        (f"{LAMP_HELD}expires = {SOON}", 2, "[quarantine-too-many] 1 of 2 cases is quarantined"),
        ('gate = "regression"', 1, "[setting-invalid]"),
    ],
)
def test_run__mistake_in_the_policy_ends_with_exit_code_2(
    repository: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, message: str
) -> None:
    (repository / "agent-eval.toml").write_text(text, encoding="utf-8")

    assert main(["run", "--output-dir", "out"]) == 2

    out = " ".join(capsys.readouterr().out.split())
    assert f"agent-eval.toml:{line}" in out
    assert message in out
    report = json.loads((repository / "out" / "results.json").read_text("utf-8"))
    assert [(problem["file"], problem["line"]) for problem in report["problems"] if problem["severity"] == "error"] == [
        ("agent-eval.toml", line)
    ]
    assert not list(repository.rglob("started"))


def test_validate__mistake_in_the_policy(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "agent-eval.toml").write_text(
        f"max-quarantined = 0.5\n{LAMP_HELD}expires = 2020-01-31", encoding="utf-8"
    )
    assert main(["validate"]) == 2
    assert "[quarantine-expired]" in capsys.readouterr().out
    (repository / "agent-eval.toml").write_text("[[policy]]\nalpha = 0.1", encoding="utf-8")
    assert main(["validate"]) == 0
