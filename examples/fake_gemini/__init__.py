"""A Gemini on loopback: the two generate methods of the Gemini API on a real socket, with scripted answers and faults.

For examples, tests and benchmarks, where a real model would cost money, need a key and vary. One thread, one event
loop, standard library only; a request costs it a fraction of a millisecond, so that it doesn't compete for the machine
with what is measured.

    with FakeGemini(lambda request: Answer.text("Hello")) as gemini:
        environment = {"GOOGLE_GEMINI_BASE_URL": gemini.url, "GOOGLE_API_KEY": "any"}

Spoken: `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent` (with and without `alt=sse`); the same
under Vertex AI's paths, with the bearer token that `POST /token` gives to any service account; and for who starts it as
a process `GET /stats` and `POST /reset`. Bodies are checked as Gemini checks them: what it would refuse is refused
here, with its status and error body (https://ai.google.dev/api/generate-content).

Vertex AI's evaluation service, which is asked in another way, is in evaluation.py.
"""

from __future__ import annotations

from fake_gemini.messages import Answer, BadRequest, Fault, GenerateRequest, Script, check_body
from fake_gemini.server import FakeGemini, Stats

__all__ = ["Answer", "BadRequest", "FakeGemini", "Fault", "GenerateRequest", "Script", "Stats", "check_body"]
