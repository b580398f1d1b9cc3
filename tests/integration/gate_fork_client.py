"""What a test starts instead of `python`: asks the server of `gate_server.py` for a fork and ends as it does.

For `-m agent_eval ARGUMENTS` and `-c CODE`, with our streams, environment and working directory; becomes `python` for
anything else. If we are killed, the fork is killed. Signals that a test sends us don't reach it.
"""

import _json
import _socket
import os
import sys

_quoted = _json.encode_basestring_ascii


def _ask(address: str, arguments: list[str]) -> None:
    given = [each for each in arguments if each != "-P"]
    if given[0] != "-c" and given[:2] != ["-m", "agent_eval"]:
        os.execv(sys.executable, [sys.executable, *arguments])
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(b"\0" + address.encode("ascii"))
    connection.recv(64)  # the process that forks
    source = given[1] if given[0] == "-c" else ""
    environment = ",".join(f"{_quoted(name)}:{_quoted(value)}" for name, value in os.environ.items())
    listed = ",".join(map(_quoted, given[2:]))
    request = f'"source":{_quoted(source)},"cwd":{_quoted(os.getcwd())},"arguments":[{listed}]'
    message = f'{{{request},"environment":{{{environment}}}}}\n'.encode("ascii")
    descriptors = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)])
    os._exit(int(connection.recv(64) or b"70") & 0xFF)


_ask(sys.argv[1], sys.argv[2:])
