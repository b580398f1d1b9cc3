"""Kills all processes of one user at once. `ending.Killer` starts this script before the agent.

    python -I -S kill_uid.py UID COVER

It waits for a byte on its standard input: `k` kills, and so does the end of the input, because then the gate has died;
`q` ends without killing. It writes `ready`, then `killed` or why it did not kill.

`kill(-1)` reaches every process that the sender may signal, in one step that no fork can outrun. So the sender must be
a process that may signal the agent's processes and no others: its effective user is the agent's. Its real and saved
user is COVER, which no other process uses. The agent may not signal or trace such a process, so it can't kill it.
"""

import os
import signal
import sys

SIGKILL = signal.SIGKILL


def main() -> int:
    """Waits, then kills."""
    uid, cover = int(sys.argv[1]), int(sys.argv[2])
    say("ready")
    if sys.stdin.buffer.read(1) == b"q":
        return 0
    try:
        os.setgroups([])
        os.setresgid(cover, cover, cover)
        os.setresuid(cover, uid, cover)
        refuse_more_than(uid, cover)
    except OSError as error:
        say(f"can't become uid {uid}: {error}")
        return 1
    try:
        os.kill(-1, SIGKILL)
    except ProcessLookupError:
        pass  # There were none.
    say("killed")
    return 0


def refuse_more_than(uid: int, cover: int) -> None:
    """Raises unless this process may signal only the two users' processes: kill(-1) as root would end the machine."""
    if os.getresuid() != (cover, uid, cover) or 0 in (uid, cover) or uid == cover:
        raise PermissionError(f"this process runs as {os.getresuid()}")
    # Bytes, not text: this user may be unable to read Python's modules, e.g. a codec.
    with open("/proc/self/status", "rb") as status:  # noqa: PTH123 - starts faster
        sets = dict(line.split(b":", 1) for line in status if line.startswith((b"CapEff", b"CapPrm")))
    if len(sets) != 2 or any(int(value, 16) for value in sets.values()):
        raise PermissionError("this process still has capabilities")


def say(text: str) -> None:
    """Writes a line to the gate, if it still runs."""
    try:
        os.write(1, text.encode() + b"\n")
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main())
