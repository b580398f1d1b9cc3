"""A repository with a base branch, pull requests and runs of their workflow: real git, a stand-in for GitHub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from base_repos import Repo
from fake_github import FakeGitHub, Run
from gate_runs import Done, Repository, told

from agent_eval.commands.publish import REPORT_URL

WORKFLOW = ".github/workflows/evals.yml"
BOT = '''
"""Repeats the message of the user, as often as answers.json says; 1 without an entry."""

import json
import random
from pathlib import Path

from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types

RATES = json.loads(Path(__file__).with_name("answers.json").read_text())


class Bot(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        if said in RATES.get("raises", []):
            raise ValueError("the lamp is gone")
        good = random.random() < RATES.get(said, 1.0)
        text = said if good else RATES.get("else", "No idea.")
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Bot(name="bot")
'''


def job_of(github: FakeGitHub, folder: Path, event: str, payload: Mapping[str, Any], run: int) -> dict[str, str]:
    """The variables of a job of GitHub's, whose event is written into a folder."""
    (folder / "event.json").write_text(json.dumps(payload), "utf-8")
    return {
        "GITHUB_EVENT_NAME": event,
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": github.state.repository,
        "GITHUB_RUN_ID": str(run),
        "GITHUB_SERVER_URL": github.server_url,
        "GITHUB_API_URL": github.api_url,
        "GITHUB_TOKEN": github.token,
    }


@dataclass(kw_only=True)
class Lab:
    """The repository and its GitHub. The working tree is that of the last checkout."""

    repository: Repository
    github: FakeGitHub
    repo: Repo
    runs: list[Run] = field(default_factory=list)
    environments: dict[int, dict[str, str]] = field(default_factory=dict)
    """The environment of each run's job."""

    @classmethod
    def make(cls, root: Path, github: FakeGitHub, *cases: str) -> Lab:
        """A base branch with an agent that answers everything."""
        root.mkdir()
        repository, repo = Repository(root=root), Repo(root)
        repo.git("init", "-q", "-b", "main")
        lab = cls(repository=repository, github=github, repo=repo)
        repository.evals("evals/bot.evalset.json", {case: f"Say {case}." for case in cases})
        lab.commit({})
        return lab

    def commit(self, rates: Mapping[str, Any] | None = None, **files: str | None) -> str:
        """Commits an agent with these rates by case, and other files by name (`__` for a slash; None removes one)."""
        named = {
            f"Say {case}." if case not in {"else", "raises"} else case: rate for case, rate in (rates or {}).items()
        }
        written: dict[str, str | bytes | None] = {
            "bot/__init__.py": "from . import agent\n",
            "bot/agent.py": BOT,
            "bot/answers.json": json.dumps(named),
            ".gitignore": "agent-eval-results/\n__pycache__/\n",
            **{name.replace("__", "/"): text for name, text in files.items()},
        }
        sha = self.repo.commit(written)
        self.github.state.take_git(self.repo.root)
        return sha

    def base_run(
        self, *arguments: str, upload: bool = True, event: str = "push", attempt: int = 1, **options: Any
    ) -> Done:
        """A push to main (or another event), its run, and the artifact that it uploads."""
        self.repo.git("checkout", "-q", "main")
        sha = self.repo.head
        run = self.github.state.run(sha, path=WORKFLOW, event=event)
        run.attempt = attempt
        payload = {"repository": {"default_branch": "main"}, "after": sha}
        done = self._gate(event, payload, sha, "refs/heads/main", run, *arguments, **options)
        run.conclusion = "success" if done.code == 0 else "failure"
        if upload:
            self.github.state.upload(run, done.output)
        return done

    def queue(self, number: int, *arguments: str, squash: bool = False, **options: Any) -> Done:
        """The merge queue tests what main would be with a pull request, and then moves main there.

        With `squash`, main gets another commit of the same files.
        """
        base, branch = self.github.state.branches["main"], f"gh-readonly-queue/main/pr-{number}"
        head = self.repo.merge(f"change-{number}", "main")
        self.github.state.take_git(self.repo.root)
        group = {"base_sha": base, "base_ref": "refs/heads/main", "head_sha": head, "head_ref": f"refs/heads/{branch}"}
        run = self.github.state.run(head, path=WORKFLOW, event="merge_group", branch=branch)
        payload = {"repository": {"default_branch": "main"}, "merge_group": group}
        done = self._gate("merge_group", payload, head, f"refs/heads/{branch}", run, *arguments, **options)
        run.conclusion = "success" if done.code == 0 else "failure"
        self.github.state.upload(run, done.output)
        self.repo.git("checkout", "-q", "main")
        if squash:
            self.repo.git("merge", "-q", "--squash", head)
            self.repo.git("commit", "-q", "-m", f"Squashed (#{number})")
        else:
            self.repo.git("merge", "-q", "--ff-only", head)
        self.github.state.take_git(self.repo.root)
        return done

    def pull_request(
        self,
        number: int,
        rates: Mapping[str, Any] | None = None,
        *arguments: str,
        files: Mapping[str, str | None] | None = None,
        fork: str | None = None,
        upload: bool = False,
        label: str = "",
        **options: Any,
    ) -> Done:
        """Pushes a commit to the pull request (made at the first push), and runs the gate on GitHub's merge of it.

        With a label, somebody sets it after the push and starts the job again.
        """
        branch, owner = f"change-{number}", fork or self.github.state.repository
        is_new = number not in self.github.state.pulls
        self.repo.git("checkout", "-q", "main" if is_new else branch)
        if is_new:
            self.repo.branch(branch)
        head = self.commit(rates, **(files or {}))
        if is_new:
            self.github.state.pull(number, head_sha=head, head_ref=branch, head_repository=owner)
        self.github.state.pulls[number].head_sha = head
        merge = self.repo.merge(branch, "main")
        self.github.state.take_git(self.repo.root)
        payload = self.github.state.event_of(number)
        run = self.github.state.run(head, path=WORKFLOW, event="pull_request", branch=branch, head_repository=owner)
        if label:
            self.github.state.label(number, label)
        done = self._gate("pull_request", payload, merge, f"refs/pull/{number}/merge", run, *arguments, **options)
        run.conclusion = "success" if done.code == 0 else "failure"
        if upload:
            self.github.state.upload(run, done.output)
        return done

    def again(self, *arguments: str, upload: bool = False, **options: Any) -> Done:
        """Starts the last run's job again: another attempt at the same commit."""
        run = self.runs[-1]
        run.attempt += 1
        environment = self.environments[run.id] | {"GITHUB_RUN_ATTEMPT": str(run.attempt)}
        done = self.repository.gate("run", *arguments, environment=environment, **options)
        if upload:
            self.github.state.upload(run, done.output)
        return done

    def publish(self, run: Run, **options: Any) -> Done:
        """The privileged job that runs when a run has ended."""
        self.repo.git("checkout", "-q", "main")
        payload = {
            "repository": {"default_branch": "main", "full_name": self.github.state.repository},
            "workflow_run": {"id": run.id, "event": run.event, "head_sha": run.sha, "head_branch": run.branch},
        }
        own = self.github.state.run(self.repo.head, path=".github/workflows/comment.yml", event="workflow_run")
        return self._gate("workflow_run", payload, self.repo.head, "refs/heads/main", own, **options)

    def told(self, title: str, done: Done, number: int = 7, *shown: str) -> str:
        """What a run came to, and lines of the comment that begin like this, or with what is to be done."""
        lines = self.comment(number).splitlines() if self.github.state.comments_of(number) else []
        begins = shown or ("## ", "⚠️", "**Next")
        return told(title, done, *(line for line in lines if line.startswith(begins) or "accept" in line))

    def comment(self, number: int = 7) -> str:
        """Our only comment on a pull request, as people read it."""
        [body] = [item.body for item in self.github.state.comments_of(number) if "agent-eval key=" in item.body]
        return body.replace("\\", "").replace("&#8203;", "")

    def link(self, url: str, run: Run | None = None) -> Done:
        """The gate once more in the job of a run, the last one if none is named: `mode: link`."""
        environment = {**self.environments[(run or self.runs[-1]).id], REPORT_URL: url}
        return self.repository.gate("run", "--mode", "link", environment=environment)

    def _gate(
        self, event: str, payload: Mapping[str, Any], sha: str, ref: str, run: Run, *arguments: str, **options: Any
    ) -> Done:
        self.runs.append(run)
        job = self.repository.root.parent / f"job-{run.id}"
        job.mkdir()
        environment = {
            **job_of(self.github, job, event, payload, run.id),
            "GITHUB_ACTIONS": "true",
            "GITHUB_SHA": sha,
            "GITHUB_REF": ref,
            "GITHUB_RUN_ATTEMPT": str(run.attempt),
            "GITHUB_WORKFLOW_REF": f"{self.github.state.repository}/{run.path}@{ref}",
            "GITHUB_OUTPUT": str(job / "output"),
            "GITHUB_STEP_SUMMARY": str(job / "summary"),
            **options.pop("environment", {}),
        }
        self.environments[run.id] = environment
        return self.repository.gate("run", *arguments, environment=environment, **options)
