"""Writes what changed since the target branch into the merge request: one note, kept up to date."""

import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

MARKER = "<!-- agent-eval -->"
RESULTS = "agent-eval-results/results.json"
env = os.environ
project = f"{env['CI_API_V4_URL']}/projects/{env['CI_PROJECT_ID']}"
notes = f"{project}/merge_requests/{env['CI_MERGE_REQUEST_IID']}/notes"


def ask(url, method="GET", data=None):
    body = None if data is None else json.dumps(data).encode()
    headers = {"PRIVATE-TOKEN": env["EVALS_NOTE_TOKEN"], "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read(), answer.headers


def text():
    branch = urllib.parse.quote(env["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"], safe="")
    try:
        base, _ = ask(f"{project}/jobs/artifacts/{branch}/raw/{RESULTS}?job=evals")
    except urllib.error.HTTPError as error:
        if error.code != 404:  # 404: that branch has no results yet
            raise
        return Path("agent-eval-results/summary.md").read_text("utf-8")
    Path("base-results.json").write_bytes(base)
    source = f"{env['CI_PROJECT_URL']}/-/blob/{env['CI_COMMIT_SHA']}"
    compare = ["agent-eval", "compare", RESULTS, "base-results.json", "--format", "markdown", "--source-url", source]
    return subprocess.run(compare, check=True, capture_output=True, encoding="utf-8").stdout


def own_note():
    me = json.loads(ask(f"{env['CI_API_V4_URL']}/user")[0])["id"]
    page = "1"
    while page:
        listed, headers = ask(f"{notes}?per_page=100&page={page}")
        for note in json.loads(listed):
            if note["author"]["id"] == me and note["body"].startswith(MARKER):
                return note["id"]
        page = headers.get("x-next-page")
    return None


# A line that begins with a slash would be a quick action, done in our name: `/merge`.
body = MARKER + "\n\n" + re.sub(r"(?m)^(\s*)/", "\\1\u200b/", text())
note = own_note()
ask(f"{notes}/{note}" if note else notes, "PUT" if note else "POST", {"body": body})
print("Updated the note" if note else "Wrote a note")
