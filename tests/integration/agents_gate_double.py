"""Starts a command the way the gate starts an agent, with a token in its own environment. Prints the child's output.

Run as `python agents_gate_double.py ROOT OUTPUT_DIR STATE_DIR COMMAND...`; `--open` instead of STATE_DIR isolates
nothing. With FORKED=1, the command's script runs in a host that a parent has forked.
"""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from forked_hosts import host_of, write_adk

from agent_eval_agents.host._program import ProgramSpec
from agent_eval_agents.host.parents import Parent
from agent_eval_agents.sandbox.forwarding import allow_list
from agent_eval_agents.sandbox.isolation import isolated
from agent_eval_agents.sandbox.spawn import Sandbox, kill_group
from agent_eval_scoring.core.masking import Masker


async def start(sandbox: Sandbox, cwd: Path, argv: list[str]) -> None:
    process = await sandbox.start(argv, cwd=cwd)
    assert process.stdout is not None
    print((await process.stdout.read()).decode(), end="")
    await kill_group(process)


async def fork(sandbox: Sandbox, cwd: Path, argv: list[str]) -> None:
    write_adk(cwd)
    environment = {**sandbox.environment, "PYTHONPATH": f"{cwd}/site-packages"}
    spec = ProgramSpec(python=argv[:1], root=cwd, sandbox=replace(sandbox, environment=environment), masker=Masker())
    parent = await Parent.start(spec)
    assert parent is not None
    code = "import contextlib, io, json, sys\nfrom pathlib import Path\nout = io.StringIO()\n"
    code += f"sys.argv = {argv[1:]!r}\nwith contextlib.redirect_stdout(out):\n"
    code += "    exec(Path(sys.argv[0]).read_text(), {})\nreturn json.loads(out.getvalue())"
    async with host_of(parent, cwd) as host:
        print(json.dumps(await host.run(code)))
    await parent.close()


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
        asyncio.run((fork if "FORKED" in os.environ else start)(isolation.sandbox, root, argv))


if __name__ == "__main__":
    main()
