"""A gate failure always publishes, and nothing that goes wrong with publishing changes the verdict: whole commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_github import Fault
from pull_requests import Lab

CASES = ("door", "window")
TOML = "agent-eval.toml"


@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        ({TOML: "num-runs = \n"}, (), "agent-eval.toml can't be read"),
        ({"evals/bot.evalset.json": "{]"}, (), "bot.evalset.json"),
        ({}, ("--num-runs", "many"), "--num-runs"),
        # A broken file does not choose where it is reported.
        ({TOML: 'comment = "never"\nnum-runs = 0\n'}, (), "must be a whole number"),
    ],
    ids=["no TOML", "eval file", "input", "value"],
)
def test_publishing__what_is_invalid_is_reported_in_the_comment(
    lab: Lab, files: dict[str, str], arguments: tuple[str, ...], words: str
) -> None:
    lab.commit({}, **{TOML: 'comment = "always"\n'})

    done = lab.pull_request(7, {}, *arguments, files=files)

    assert (done.code, done.report.verdict) == (2, "invalid"), done.out + done.err
    assert words in lab.comment()
    assert ("This pull request changes agent-eval.toml" in lab.comment()) == (TOML in files)
    assert done.report.origin is not None and done.report.origin.pull_request == 7


@pytest.mark.parametrize("place", ["agent-eval-results", "agent-eval-results/logs", "agent-eval-results/journal.jsonl"])
def test_publishing__a_link_in_the_place_of_results_is_refused(lab: Lab, tmp_path: Path, place: str) -> None:
    """We may be root: what is written, and given to the workspace's owner, is not for the pull request to say."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "kept.txt").write_text("as it was", "utf-8")
    link = lab.repository.root / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(victim / "kept.txt" if place.endswith(".jsonl") else victim)

    done = lab.pull_request(7, {})

    assert done.code == 2, done.out + done.err
    assert "is a symbolic link" in lab.comment() and place in lab.comment()
    assert {path.name: path.read_text("utf-8") for path in victim.iterdir()} == {"kept.txt": "as it was"}
    outputs = (lab.repository.root.parent / f"job-{lab.runs[-1].id}/output").read_text("utf-8")
    assert "results-file" in outputs and "invalid" in outputs


@pytest.mark.parametrize("place", ["agent-eval-results", "out/results"])
def test_publishing__a_file_in_the_place_of_results_is_reported(lab: Lab, place: str) -> None:
    (lab.repository.root / place.split("/", maxsplit=1)[0]).write_text("mine", "utf-8")

    done = lab.pull_request(7, {}, "--output-dir", place)

    assert done.code == 2, done.out + done.err
    assert f"{place.split('/')[0]} is a file: no results can be written there." in " ".join(done.out.split())
    assert "is a file: no results can be written there" in lab.comment()
    outputs = (lab.repository.root.parent / f"job-{lab.runs[-1].id}/output").read_text("utf-8")
    assert "results-file" in outputs and "invalid" in outputs


BROKEN = """
import sys
from pathlib import Path
if "agent_eval" in sys.modules:
    raise ZeroDivisionError("out of order")
sys.path.remove(str(Path(__file__).parent))
del sys.modules["requests"]
import requests
"""
"""A module that only we can't import; the agent, which has the same PYTHONPATH, gets the real one."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("modules", "environment", "rates", "code"),
    [
        ({"requests.py": BROKEN}, {}, {}, 0),
        ({"requests.py": BROKEN}, {}, {"door": 0.0}, 1),
        ({}, {"GITHUB_TOKEN": "two words"}, {"door": 0.0}, 1),
        ({}, {"GITHUB_OUTPUT": "/no/such/file", "GITHUB_STEP_SUMMARY": "/no/such/file"}, {}, 0),
    ],
    ids=["the client can't be imported", "the same, failed", "the token is none", "no file can be written"],
)
def test_publishing__a_crash_while_publishing_changes_no_exit_code(
    lab: Lab, tmp_path: Path, modules: dict[str, str], environment: dict[str, str], rates: dict[str, float], code: int
) -> None:
    shadow = tmp_path / "modules"
    shadow.mkdir()
    for name, text in modules.items():
        (shadow / name).write_text(text, "utf-8")

    done = lab.pull_request(7, rates, "--baseline", "none", environment={"PYTHONPATH": str(shadow), **environment})

    assert (done.code, done.report.verdict) == (code, "passed" if code == 0 else "failed"), done.out + done.err
    assert "this is a bug" not in done.err
    if "GITHUB_OUTPUT" in environment:
        assert all(f"{name} could not be written" in done.err for name in environment)
        assert len(lab.github.state.comments_of(7)) == 1
    else:
        assert lab.github.state.comments_of(7) == []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_publishing__a_log_that_takes_no_more_changes_no_exit_code(lab: Lab) -> None:
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = lab.pull_request(7, {"door": 0.0}, "--baseline", "none", stdout=full)

    assert done.code == 1, done.err
    assert "door" in lab.comment()


def test_publishing__answers_of_any_shape_change_no_exit_code(lab: Lab) -> None:
    """GitHub, or what stands in its place, may say anything."""
    lab.github.faults.append(
        Fault(path=r".*/comments", status=200, body=b'[{"id": [], "body": {}, "user": 3}, {}]', times=99)
    )

    done = lab.pull_request(7, {}, "--baseline", "none")

    assert done.code == 0, done.err
