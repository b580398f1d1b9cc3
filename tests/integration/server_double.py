"""A server with ADK's REST interface and A2A, without ADK: starts in a moment. `python server_double.py PORT [MODE]`.

It answers `pid PID`, or does what the message says: `env NAME`, `header NAME` (A2A), `die`, `cwd`, `user`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CARD = {"name": "double", "url": "http://localhost:8000/", "protocolVersion": "0.3.0"}
"""As `to_a2a` writes it, which does not know the port."""


def answer(said: str) -> str:
    match said.split():
        case ["env", name]:
            return os.environ.get(name, "unset")
        case ["die"]:
            print("about to die", flush=True)
            os._exit(7)
        case ["cwd"]:
            return os.getcwd()
        case ["user"]:
            return str(os.getuid())
        case _:
            return f"pid {os.getpid()}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        by_id = {"/health": {"status": "ok"}, "/list-apps": ["double"], "/.well-known/agent-card.json": CARD}
        self.reply(by_id.get(self.path, {"detail": "Not Found"}), 200 if self.path in by_id else 404)

    def do_DELETE(self) -> None:
        self.reply(None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "jsonrpc" in body:
            said = body["params"]["message"]["parts"][0]["text"]
            command, _, name = said.partition(" ")
            text = self.headers.get(name, "unset") if command == "header" else answer(said)
            message = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": text}]}
            self.reply({"jsonrpc": "2.0", "id": body["id"], "result": message})
            return
        if self.path != "/run_sse":
            self.reply({"id": f"s{time.monotonic_ns()}", "state": body["state"]})
            return
        said = body["newMessage"]["parts"][0]["text"]
        content = {"role": "model", "parts": [{"text": answer(said)}]}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps({'author': 'double', 'content': content})}\n\n".encode())

    def reply(self, value: object, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    mode = sys.argv[2] if len(sys.argv) > 2 else ""
    print("starting, the key is", os.environ.get("GOOGLE_API_KEY"), flush=True)
    if mode == "broken":
        raise SystemExit("no such config file")
    if mode == "silent":
        time.sleep(600)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
