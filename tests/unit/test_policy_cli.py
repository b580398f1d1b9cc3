"""Every mistake in a policy ends `agent-eval run` with exit code 2, at its line, before an agent is started."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_eval.cli import main

SOON = (datetime.now(UTC) + timedelta(days=90)).date().isoformat()
TURN = {"user_content": {"parts": [{"text": "Lamp on"}]}, "final_response": {"parts": [{"text": "It is on."}]}}
SUITE = {
    "eval_set_id": "home",
    "eval_cases": [{"eval_id": name, "conversation": [TURN]} for name in ("a", "b")],
}
HELD = '\n[[quarantine]]\ncase = "evals/home.test.json:a"\nreason = "r"\nowner = "@o"\n'


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
        (f"{HELD}expires = {SOON}", 2, "[quarantine-too-many] 1 of 2 cases is quarantined"),
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
    (repository / "agent-eval.toml").write_text(f"max-quarantined = 0.5\n{HELD}expires = 2020-01-31", encoding="utf-8")
    assert main(["validate"]) == 2
    assert "[quarantine-expired]" in capsys.readouterr().out
    (repository / "agent-eval.toml").write_text("[[policy]]\nalpha = 0.1", encoding="utf-8")
    assert main(["validate"]) == 0
