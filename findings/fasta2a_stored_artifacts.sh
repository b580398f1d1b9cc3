#!/usr/bin/env bash
# fasta2a 2.1.1: an artifact that a worker stores is in the task, and not in the stream of the same message.
#
# Valid input: a worker that ends with `storage.update_task(..., state="completed", new_artifacts=[...])`. A client sends
#              one message without and one with streaming, and asks for both tasks afterwards.
# Expected:    a stream that says `completed` has brought the task's artifacts, or ends with the task.
# Seen:        it has brought states alone. Both tasks have the artifact; only `publish_artifact` puts it into a stream.
# Matters:     a client that streams, as the agent's card offers, sees an agent that never answers. Evaluated, it fails
#              every case; asked without streaming, the same agent passes.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check fasta2a==2.1.1 uvicorn==0.51.0 httpx==0.28.1
cat >"$work/server.py" <<'PY'
import sys
from contextlib import asynccontextmanager

import uvicorn
from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.storage import InMemoryStorage


class Weather(Worker):
    async def run_task(self, params):
        await self.storage.update_task(params["id"], state="working")
        answer = {"artifact_id": "answer", "parts": [{"text": "21 degrees"}]}
        await self.storage.update_task(params["id"], state="completed", new_artifacts=[answer])

    async def cancel_task(self, params):
        raise NotImplementedError

    def build_message_history(self, history):
        return history

    def build_artifacts(self, result):
        return []


storage, broker = InMemoryStorage(), InMemoryBroker()


@asynccontextmanager
async def lifespan(app):
    async with app.task_manager, Weather(broker=broker, storage=storage).run():
        yield


url = f"http://127.0.0.1:{sys.argv[1]}"
app = FastA2A(storage=storage, broker=broker, lifespan=lifespan, url=url)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
PY
cat >"$work/client.py" <<'PY'
import json
import sys
import time

import httpx

client = httpx.Client(base_url=f"http://127.0.0.1:{sys.argv[1]}", timeout=30, headers={"A2A-Version": "1.0"})
for _ in range(300):
    try:
        card = client.get("/.well-known/agent-card.json").json()
        break
    except httpx.HTTPError:
        time.sleep(0.1)
print("the card offers streaming:", card["capabilities"].get("streaming", False))


def body(method, **params):
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def message(number):
    return {"role": "ROLE_USER", "parts": [{"text": "weather?"}], "messageId": f"m{number}"}


def task(task_id):
    for _ in range(100):
        found = client.post("/", json=body("GetTask", id=task_id)).json()["result"]
        if "COMPLETED" in found["status"]["state"]:
            break
        time.sleep(0.1)
    return "has the answer: " + str("21 degrees" in json.dumps(found))


sent = client.post("/", json=body("SendMessage", message=message(1))).json()["result"]["task"]
print("without streaming: the task", task(sent["id"]))
events = []
with client.stream("POST", "/", json=body("SendStreamingMessage", message=message(2))) as response:
    events += [json.loads(line[5:])["result"] for line in response.iter_lines() if line.startswith("data:")]
said = json.dumps(events)
print("with streaming: ends completed:", "COMPLETED" in json.dumps(events[-1]), "- the stream has the answer:", "21 degrees" in said)
print("with streaming: the task", task(events[0].get("task", {}).get("id") or events[0]["statusUpdate"]["taskId"]))
PY
port=$(python3 -c "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])")
"$work/venv/bin/python" "$work/server.py" "$port" &
server=$!
"$work/venv/bin/python" "$work/client.py" "$port" | tee "$work/seen"
diff "$work/seen" - <<'SEEN'
the card offers streaming: True
without streaming: the task has the answer: True
with streaming: ends completed: True - the stream has the answer: False
with streaming: the task has the answer: True
SEEN
echo "as before: a stream lacks what the task has"
