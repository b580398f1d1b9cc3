"""Starts the host: `PYTHON PLACE FD`, or a parent of hosts: `PYTHON PLACE parent FD`.

PLACE is the directory of this package, or an archive of it.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from types import ModuleType

_COLLECTOR = (50_000, 10, 10)
"""Thresholds of the garbage collector, unless the agent sets others. A turn makes thousands of objects that end without
the collector: with Python's threshold of 700 a case takes a tenth more CPU, with one of 10,000 2% (google-adk 2.13.0,
Python 3.11)."""


def _import_from(place: Path) -> None:
    """Makes this package importable, and nothing else beside or in it: the agent must not import our modules."""
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry) not in (place, place.resolve())]
    package = sys.modules["agent_eval_host"] = ModuleType("agent_eval_host")
    package.__path__ = [str(place)]


def main() -> None:
    """Serves until the gate closes the connection."""
    import faulthandler

    place = Path(__file__).parent
    _import_from(place)
    from agent_eval_host.channel import Channel
    from agent_eval_host.loading import compile_sources
    from agent_eval_host.serving import Host

    if sys.argv[2:]:  # A host must not import this: it needs ctypes, which the interpreter may lack.
        from agent_eval_host.forking import fork_hosts
    compile_sources()
    if str(place.parent) == "/dev/fd":  # an open archive, which is not needed any more
        os.close(int(place.name))
    descriptor = int(sys.argv.pop())
    faulthandler.enable()
    gc.set_threshold(*_COLLECTOR)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    if sys.argv[1:]:
        del sys.argv[1:]
        descriptor = fork_hosts(descriptor)
    Host(Channel(descriptor)).run()


if __name__ == "__main__":
    main()
