#!/usr/bin/env bash
# litellm 1.110.2: a missing API key is HTTP 500 of the provider for some providers, and 401 for others.
#
# Valid input: completions without any key in the environment, sent to a server on this machine that counts requests.
# Expected:    one exception for a mistake of the caller that is found before a request: AuthenticationError, 401.
# Seen:        providers that LiteLLM calls through the openai package: InternalServerError with status 500; Azure: an
#              APIError with 500; Fireworks and Gemini: APIConnectionError with 500; Anthropic: AuthenticationError with 401.
#              None of them has sent a request.
# Matters:     programs retry a 500 and call it an outage. google-adk's LiteLlm passes the exception on, so a key that
#              nobody set looks like a provider that is down.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -qq --disable-pip-version-check litellm==1.110.2
cat >"$work/ask.py" <<'PYTHON'
import asyncio
import http.server
import threading

import litellm

litellm.suppress_debug_info = True
requests = []


class Provider(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        requests.append(self.path)
        self.send_error(401)

    def log_message(self, *_):
        pass


async def ask(model, url):
    try:
        await litellm.acompletion(model=model, messages=[{"role": "user", "content": "Hello."}], api_base=url)
    except Exception as error:
        print(model.split("/")[0], type(error).__name__, error.status_code, "after", len(requests), "requests")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
for model in ("openai/m", "perplexity/m", "cerebras/m", "nvidia_nim/m", "azure/m", "fireworks_ai/m", "gemini/m", "anthropic/m"):
    asyncio.run(ask(model, f"http://127.0.0.1:{server.server_port}"))
server.shutdown()
PYTHON
# Without the variable, LiteLLM asks the network for its price list when it is imported.
env -i PATH="$PATH" HOME="$work" LITELLM_LOCAL_MODEL_COST_MAP=True "$work/venv/bin/python" "$work/ask.py" 2>/dev/null | tee "$work/seen"
diff "$work/seen" - <<'SEEN'
openai InternalServerError 500 after 0 requests
perplexity InternalServerError 500 after 0 requests
cerebras InternalServerError 500 after 0 requests
nvidia_nim InternalServerError 500 after 0 requests
azure APIError 500 after 0 requests
fireworks_ai APIConnectionError 500 after 0 requests
gemini APIConnectionError 500 after 0 requests
anthropic AuthenticationError 401 after 0 requests
SEEN
echo "as before: a missing key is a 500"
