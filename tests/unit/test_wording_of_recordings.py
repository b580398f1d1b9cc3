"""Texts about recordings: what is wrong with a path."""

from __future__ import annotations

import os
from pathlib import Path

from agent_eval_agents.recorded import DRIVER


def test_wording_of_recordings__a_fifo_as_recording_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    problem = DRIVER.refuse("pipe", tmp_path, "`agent`")
    assert problem is not None and problem.message.endswith("which is not a regular file")
