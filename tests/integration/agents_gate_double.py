"""Starts a command the way the gate starts an agent, with a token in its own environment. Prints the child's output.

Run as `python agents_gate_double.py ROOT OUTPUT_DIR STATE_DIR COMMAND...`; `--open` instead of STATE_DIR isolates
nothing.
"""

import asyncio
import os
import sys
from pathlib import Path

from agent_eval_agents.sandbox.forwarding import allow_list
from agent_eval_agents.sandbox.isolation import isolated
from agent_eval_agents.sandbox.spawn import Sandbox, kill_group


async def start(sandbox: Sandbox, cwd: Path, argv: list[str]) -> None:
    process = await sandbox.start(argv, cwd=cwd)
    assert process.stdout is not None
    print((await process.stdout.read()).decode(), end="")
    await kill_group(process)


def main() -> None:
    root, output_dir, state_dir, argv = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
    if state_dir == "--open":
        asyncio.run(start(Sandbox(environment=os.environ), root, argv))
        return
    with isolated(
        os.environ, root=root, output_dir=output_dir, allow=allow_list(None), state_dir=Path(state_dir)
    ) as isolation:
        for problem in isolation.problems:
            print(problem, file=sys.stderr)
        asyncio.run(start(isolation.sandbox, root, argv))


if __name__ == "__main__":
    main()
