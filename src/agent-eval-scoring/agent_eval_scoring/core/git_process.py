"""Starts git without prompts, hooks, pagers or programs of other people, and with a time limit."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import Masked, Masker, first_line
from agent_eval_scoring.core.text import harmless

KEPT = (
    "PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "SSH_AUTH_SOCK",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
"""What git needs of our environment. Our own GIT_* variables (GIT_DIR, GIT_EXTERNAL_DIFF ...) would redirect it."""
ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "SSH_ASKPASS": "true",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_PAGER": "cat",
    "GIT_LFS_SKIP_SMUDGE": "1",
}
CONFIG = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),  # may name a program
    ("core.alternateRefsCommand", ""),
    ("credential.interactive", "false"),
    ("protocol.ext.allow", "never"),
    # A directory of the pull request may look like a bare repository, with a config of its own that names programs.
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    # Large files stay pointers: their contents may not be here, and fetching them needs credentials.
    ("filter.lfs.smudge", ""),
    ("filter.lfs.process", ""),
    ("filter.lfs.required", "false"),
)


class GitError(AgentEvalError):
    """Git failed. The message is a sentence."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class GitTimeout(GitError):
    """Git took too long."""


def run_git(
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    config: Sequence[tuple[str, str]],
    owner: tuple[int, int] | None,
    timeout: float,
    ok: Sequence[int] = (0,),
    stdin: bytes = b"",
) -> bytes:
    """Runs `git ARGUMENTS` and returns its standard output.

    Args:
        arguments: Untrusted ones follow `--` or were checked not to begin with a dash.
        cwd: Where to run.
        environment: The whole environment, except for the configuration.
        config: Overrides the configuration of the checkout. It is passed in the environment, so that no process list
            shows a token in it.
        owner: Run as this (uid, gid); None for the current user.
        timeout: Seconds.
        ok: Exit codes that are not errors.
        stdin: What git reads from its standard input.

    Raises:
        GitTimeout: Git took too long.
        GitError: Git failed, or is not installed.
    """
    uid, gid = owner or (None, None)
    try:
        process = subprocess.Popen(
            ["git", *arguments],
            cwd=cwd,
            env={**environment, **config_environment(config)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
            umask=0o022,  # the agent's user must be able to read a worktree
        )
    except OSError as error:
        hint = "Install git." if error.filename == "git" else None
        raise GitError(f"git could not be started: {error}.", hint=hint) from None
    with process:
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # with its helpers, which hold the pipes
                os.killpg(process.pid, signal.SIGKILL)
            raise GitTimeout(f"`git {arguments[0]}` took longer than {timeout:g} seconds.") from None
    if process.returncode not in ok:
        stderr = first_line(_mask(err.decode("utf-8", "replace"), config), 300)
        what = harmless(stderr).rstrip(".") or f"exit code {process.returncode}"
        raise GitError(f"`git {arguments[0]}` failed: {what}.")
    return out


def config_environment(config: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Configuration as git takes it from the environment (git-config, GIT_CONFIG_COUNT)."""
    variables = {"GIT_CONFIG_COUNT": str(len(config))}
    for number, (key, value) in enumerate(config):
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return variables


def authorization(url: str, token: str) -> list[tuple[str, str]]:
    """The same header as actions/checkout's. The leading empty value resets checkout's own."""
    match = re.match(r"https?://[^/@]+/", url)
    if match is None:
        raise GitError("A token is sent to http(s) URLs only.")
    key = f"http.{match[0]}.extraheader"
    basic = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    return [(key, ""), (key, f"AUTHORIZATION: basic {basic}"), ("http.followRedirects", "false")]


def _mask(text: str, config: Sequence[tuple[str, str]]) -> Masked:
    return Masker(value.rpartition(" ")[2] for key, value in config if key.endswith(".extraheader")).text(text)
