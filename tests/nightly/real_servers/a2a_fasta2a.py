"""An agent behind fasta2a 2.1.1 that does what the user's message says. Argument: port."""

import sys
from contextlib import asynccontextmanager

import uvicorn
from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.storage import InMemoryStorage


class Obedient(Worker):
    async def run_task(self, params):
        said = params["message"]["parts"][0]["text"]
        await self.storage.update_task(params["id"], state="working")
        if said == "raises":
            raise ValueError("boom")
        parts = {"text": {"text": "21 degrees"}, "data": {"data": {"unit": "C", "celsius": 21}}}.get(said)
        artifacts = [{"artifact_id": "a", "parts": [parts]}] if parts else []
        for artifact in artifacts if said != "data" else ():  # That one is in the task only.
            await self.publish_artifact(params["id"], params["context_id"], artifact)
        state = said if said in ("failed", "canceled") else "completed"
        await self.storage.update_task(params["id"], state=state, new_artifacts=artifacts)

    async def cancel_task(self, params):
        raise NotImplementedError

    def build_message_history(self, history):
        return history

    def build_artifacts(self, result):
        return []


storage, broker = InMemoryStorage(), InMemoryBroker()


@asynccontextmanager
async def lifespan(app):
    async with app.task_manager, Obedient(broker=broker, storage=storage).run():
        yield


port = int(sys.argv[1])
app = FastA2A(storage=storage, broker=broker, lifespan=lifespan, url=f"http://127.0.0.1:{port}")
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
