"""Mistakes in the set-up: each ends with a message that names the way out."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from adk_envs import adk_python
from agents_open_dir import as_root, python_for, remove
from base_repos import new_repo
from dead_or_alive import ECHO, EVALS, suite
from gate_runs import Done, Repository, patience, repository_in

from agent_eval.results.comparison import BaselineReport

SECRET = "abcdefgh-12345"


def append(agent: Path, code: str) -> None:
    """Adds to the end of an agent's module."""
    with (agent / "agent.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\n{code}\n")


def test_agent_env__a_variable_of_the_job_that_the_agent_lacks_is_named(repository: Repository) -> None:
    repository.agent("faults")
    append(repository.root / "faults", 'import os\n\nTOKEN = os.environ["CRM_TOKEN"]')
    repository.evals("faults/a.test.json", {"one": "say hello"})
    done = repository.gate("run", environment={"CRM_TOKEN": SECRET})
    assert done.code == 1, done.out + done.err
    assert "KeyError: 'CRM_TOKEN'" in done.out
    assert "`agent-env: +CRM_TOKEN`" in " ".join(done.out.split())
    written = [path.read_text("utf-8") for path in done.output.rglob("*.*") if path.suffix in {".json", ".xml", ".md"}]
    assert not any(SECRET in text for text in [done.out, done.err, *written])


@pytest.mark.parametrize(
    ("python", "message"),
    [
        ("pyhton3.12", "can't be started"),
        ("'python3", "No closing quotation"),
        (sys.executable, "google-adk is not installed"),
    ],
)
def test_agent_python__that_cannot_be_used_is_invalid_and_nothing_is_lost(
    repository: Repository, python: str, message: str
) -> None:
    repository.agent("faults")
    repository.evals("faults/a.test.json", {"one": "say hello"})
    repository.write({"agent-eval-results/journal.jsonl": "of an earlier run\n"})
    done = repository.gate("run", "--agent-python", python, python=False)
    assert done.code == 2, done.out + done.err
    assert "agent-python-unusable" in done.out
    assert message in " ".join(done.out.split())
    assert "nothing was run" in done.out
    assert (done.output / "journal.jsonl").read_text("utf-8") == "of an earlier run\n"


@pytest.fixture
def open_repository() -> Iterator[Repository]:
    """In a directory that other users can enter."""
    folder = Path(tempfile.mkdtemp(prefix="agent-eval-hints-"))
    folder.chmod(0o755)
    try:
        with repository_in(folder / "repository") as made:
            yield made
    finally:
        remove(folder)


@as_root
def test_agent_python__in_a_home_that_is_closed_to_the_agent_names_the_way_out(open_repository: Repository) -> None:
    open_repository.agent("faults")
    open_repository.evals("faults/a.test.json", {"one": "say hello"})
    home = open_repository.root.parent / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(python_for(None))
    python = str(home / "bin" / "python")
    done = open_repository.gate("run", "--agent-python", python, python=False, environment={"HOME": str(home)})
    assert done.code == 2, done.out + done.err
    printed = " ".join(done.out.split())
    assert f"because of the permissions of {home}" in printed
    assert "who can't enter HOME" in printed
    assert home.stat().st_mode & 0o777 == 0o755  # what was closed is open again


@as_root
def test_agent_directory__that_its_user_cannot_read_is_invalid_and_a_dotenv_a_warning(
    open_repository: Repository,
) -> None:
    open_repository.agent("faults")
    open_repository.evals("evals/a.test.json", {"one": "say hello"})
    for closed in (open_repository.root / "faults", open_repository.root / "faults/agent.py"):
        mode = closed.stat().st_mode
        closed.chmod(0o600)
        done = open_repository.gate("run", "--agent", "faults")
        closed.chmod(mode)
        printed = " ".join(done.out.split())
        assert (done.code, "agent-unreachable" in done.out) == (2, True), done.out + done.err
        assert f"the permissions of {closed}" in printed and "chmod -R o+rX" in printed

    dotenv = open_repository.root / "faults" / ".env"
    dotenv.write_text("CRM_TOKEN=1\n", "utf-8")
    dotenv.chmod(0o600)
    done = open_repository.gate("run", "--agent", "faults")
    printed = " ".join(done.out.split())
    assert "warning [env-file-unreadable]" in printed, done.out + done.err
    assert f"can't read {dotenv} because of the permissions of {dotenv}" in printed
    dotenv.chmod(0o644)
    assert "env-file-unreadable" not in open_repository.gate("run", "--agent", "faults").out


@pytest.mark.slow
def test_agent_cwd__an_agent_finds_the_files_of_its_project(repository: Repository) -> None:
    """As travel-concierge of adk-samples, which opens `travel_concierge/profiles/...`."""
    for project in ("agents/one", "agents/two"):
        repository.agent("faults")
        (repository.root / project).mkdir(parents=True)
        place = repository.root / project / f"bot_{project[-3:]}"
        (repository.root / "faults").rename(place)
        repository.write({f"{project}/pyproject.toml": "[tool.ruff]\n", f"{project}/profile.txt": project})
        append(place, f"from pathlib import Path\n\nassert Path('profile.txt').read_text() == {project!r}")
        repository.evals(f"{project}/evals/a.test.json", {"case": "say hello"})
    done = repository.gate("run")
    assert done.code == 0, done.out + done.err
    at_root = repository.gate("run", "--agent-cwd", "root")
    assert at_root.code == 1
    assert "FileNotFoundError" in at_root.out
    named = repository.gate("run", "agents/two", "--agent-cwd", "agents/two")
    assert named.code == 0, named.out + named.err
    nowhere = repository.gate("run", "--agent-cwd", "agents/tow")
    assert nowhere.code == 2
    assert "is not a directory" in " ".join(nowhere.out.split())


@pytest.mark.slow
def test_agent_cwd__leads_the_base_into_its_own_directory(repository: Repository) -> None:
    """Else the base's agent would read the head's files, and what the head breaks would be red on both sides."""
    repo = new_repo(repository.root)
    repository.agent("faults")
    append(repository.root / "faults", "from pathlib import Path\n\nassert Path('profile.txt').read_text() == 'whole'")
    repository.evals("faults/a.test.json", {"case": "say hello"})
    repo.commit({})
    base = repo.commit({"data/profile.txt": "whole"})
    repo.branch("change")
    repo.commit({"data/profile.txt": "broken"})

    def compared(cwd: str, ref: str) -> BaselineReport:
        done = repository.gate("run", "--agent-cwd", cwd, "--baseline", "rerun", "--base-ref", ref)
        assert done.code == 1, done.out + done.err
        # Logs are named by the agent, not by the path of the checkout.
        assert [folder.name for folder in (done.output / "logs").iterdir()] == ["faults"]
        assert done.report.baseline is not None
        return done.report.baseline

    absolute = compared(str(repository.root / "data"), "main")
    assert (absolute.status, absolute.commit) == ("found", base), absolute.message
    absent = compared("data", "main~1")
    assert absent.status == "none-yet"
    assert "The base has no directory data, which `agent-cwd` names." in absent.message


@pytest.mark.slow
def test_agent_python__that_agent_setup_does_not_make_is_invalid(repository: Repository) -> None:
    repository.agent("faults")
    repository.evals("faults/a.test.json", {"one": "say hello"})
    chosen = ("--agent-python", "made/python")
    done = repository.gate("run", *chosen, "--agent-setup", "echo made > log.txt", python=False)
    assert done.code == 2, done.out + done.err
    printed = " ".join(done.out.split())
    assert "agent-python-unusable" in printed
    assert "after agent-setup has run" in printed
    assert (repository.root / "log.txt").exists()
    make = f"mkdir made; printf '#!/bin/sh\\nexec {adk_python()} \"$@\"\\n' > made/python; chmod a+rx made made/python"
    made = repository.gate("run", *chosen, "--agent-setup", make, python=False)
    assert made.code == 0, made.out + made.err


def test_agent_setup__that_fails_is_reported_as_such(repository: Repository) -> None:
    repository.agent("faults")
    repository.evals("faults/a.test.json", {"one": "say hello"})
    done = repository.gate("run", "--agent-setup", "echo no such package; exit 7")
    assert done.code == 1, done.out + done.err
    assert "`agent-setup` ended with exit code 7" in " ".join(done.out.split())


@pytest.mark.slow
def test_paths__agent_and_file_in_the_order_of_adk_eval(tmp_path: Path) -> None:
    repository = suite(tmp_path / "repo")  # `bot` repeats what it is asked.
    broken = {"broken/__init__.py": "from . import agent\n", "broken/agent.py": ECHO.replace("text=text", "text='No.'")}
    repository.write(broken)
    arguments = ("broken", f"{EVALS}:lamp_on")

    def planned(*paths: str) -> Done:
        return repository.gate("validate", "--plan", *paths, python=False)

    done = repository.gate("run", *arguments)
    from_python = subprocess.run(
        [sys.executable, "-c", f"import agent_eval as a; print(a.run({arguments}, check=False).report.files[0].agent)"],
        cwd=repository.root,
        env=repository.environment(),
        capture_output=True,
        text=True,
        timeout=90 * patience(),
        check=False,
    )

    assert (done.code, done.report.files[0].agent, len(done.report.cases)) == (1, "broken", 1), done.out + done.err
    assert from_python.stdout.splitlines()[-1:] == ["broken"], from_python.stdout + from_python.stderr
    for paths in (("broken/agent.py", EVALS), ("broken", "evals"), ("broken", "evals/*.json")):
        assert planned(*paths).out.startswith("broken\n  evals/bot.evalset.json"), paths
    # What is named on the command line replaces the agent of the file, but not that of another flag.
    repository.write({"agent-eval.toml": 'agent = "bot"\n'})
    assert planned("broken", EVALS).out.startswith("broken\n  evals/bot.evalset.json")
    assert planned("broken", EVALS, "--agent", "bot").out.startswith("bot\n  evals/bot.evalset.json")
    (repository.root / "agent-eval.toml").unlink()
    # An agent with eval files may be meant as a place to search: it is, with a notice.
    repository.evals("broken/own.test.json", {"own": "Hello."}, expect={"own": "No."})
    both = planned(*arguments)
    assert "[agent-as-path]" in both.out + both.err
    assert both.out.startswith("broken\n  broken/own.test.json"), both.out
    assert "error [agent-ambiguous]" in both.err, both.err
