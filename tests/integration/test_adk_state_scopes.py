"""What one case leaves in the state of its user or its app, no other case finds."""

from __future__ import annotations

from pathlib import Path

from adk_harness import running, say

from agent_eval.core.content import text_of


async def test_state_scopes__state_of_a_user_ends_with_its_session(tmp_path: Path) -> None:
    async with running("home", tmp_path / "logs") as agent:
        own = await say(agent, "remember user:mood gay", "instruction", state={"guest": "Ann"})
        other = await say(agent, "instruction", state={"guest": "Bo"})
    assert text_of(own.final_response).startswith("Serve Ann in the . Shared: gay")
    assert text_of(other.final_response).startswith("Serve Bo in the . Shared: ")
    assert "gay" not in text_of(other.final_response)
