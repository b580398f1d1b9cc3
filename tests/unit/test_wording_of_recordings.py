"""Texts about recordings: what is wrong with a path, and how to run the cases again."""

from __future__ import annotations

import os
from pathlib import Path

from report_samples import wrong_room

from agent_eval.agents.recorded import DRIVER
from agent_eval.report.views.reproduction import reproduce


def test_wording_of_recordings__a_fifo_as_recording_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    problem = DRIVER.refuse("pipe", tmp_path, "`agent`")
    assert problem is not None and problem.message.endswith("which is not a regular file")


def test_wording_of_recordings__the_command_for_a_recording_names_no_interpreter() -> None:
    options = {"agent": "recorded:rec/a.json", "agent-python": "/opt/venv/bin/python"}
    assert "agent-python" not in reproduce([wrong_room()], options).command
    assert "--agent-python" in reproduce([wrong_room()], {**options, "agent": "bot"}).command
