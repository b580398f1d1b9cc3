"""What is typed wrong is answered with what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.cli import main


@pytest.mark.parametrize(
    ("arguments", "usage", "message"),
    [
        (["validat"], "agent-eval [-h]", "there is no command `validat`. Did you mean `validate`?"),
        (["xyzzy"], "agent-eval [-h]", "there is no command `xyzzy`. The commands are run, validate,"),
        (["evals"], "agent-eval [-h]", "`evals` is a path, not a command. Did you mean `agent-eval run evals`?"),
        (["evals:one"], "agent-eval [-h]", "Did you mean `agent-eval run evals:one`?"),
        ([], "agent-eval [-h]", "a command must come first. The commands are run, validate,"),
        (["--num-runs", "3", "run"], "agent-eval [-h]", "a command must come first."),
        (
            ["run", "--num-run", "3"],
            "agent-eval run [options]",
            "`run` has no flag --num-run. Did you mean --num-runs?",
        ),
        (["run", "--num-run=3"], "agent-eval run [options]", "Did you mean --num-runs?"),
        (["run", "evals", "--xyzzy"], "agent-eval run [options]", "`run` has no flag --xyzzy\n"),
        (["validate", "--gate", "both"], "agent-eval validate [options]", "It is a flag of `run`, `plan`."),
        (["compare", "a", "b", "c"], "agent-eval compare [-h]", "`compare` takes no argument c"),
        (["run", "--judge-api-key", "x"], "agent-eval run [options]", "Set the variable AGENT_EVAL_JUDGE_API_KEY"),
    ],
)
def test_arguments__a_mistake_is_answered_with_what_was_meant(
    arguments: list[str],
    usage: str,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "evals").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"usage: {usage}")
    assert message in printed.err


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_arguments__help_and_version_need_no_command(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main([flag])
    assert exit.value.code == 0
    assert "agent-eval" in capsys.readouterr().out
