"""What the gate starts instead of the interpreter: asks the server of `host_forks.py` for a fork and ends as it does.

Becomes the interpreter if a fork can't do it. Each host and each question to the interpreter starts one: with `socket`,
`signal` and `json` it would take 20 ms of CPU, and without them it takes 9 ms.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import os
import sys


def _ask(address: str, arguments: list[str]) -> None:
    if "parent" in arguments:
        sys.exit("forks of a fork can't say how they ended")
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(b"\0" + address.encode("ascii"))
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # its pid, uid and gid
    uid = int.from_bytes(peer[4:8], sys.byteorder)
    read_at_start = any(name.startswith("PYTHON") for name in os.environ)
    is_host = arguments[0].endswith("/agent_eval_host")
    if (not is_host and arguments[0] != "-c") or uid != os.geteuid() or read_at_start:
        os.execv(sys.executable, [sys.executable, *arguments])
    request = {"arguments": arguments, "environment": dict(os.environ), "cwd": os.getcwd()}
    channel = [int(arguments[-1])] if is_host else []
    for template in arguments[1:-1]:  # It would be a template of the server.
        os.close(int(template))
    del arguments[1:-1]
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in [0, 1, 2, *channel])
    message = ascii(request).encode("ascii") + b"\n"
    connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    for descriptor in channel:
        os.close(descriptor)
    code = int(connection.recv(64) or b"70")
    if code < 0:
        try:
            _signal.signal(-code, _signal.SIG_DFL)
        except OSError:  # of SIGKILL, which has no other
            pass
        os.kill(os.getpid(), -code)
    os._exit(code)


_ask(sys.argv[1], sys.argv[2:])
