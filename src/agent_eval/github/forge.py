"""GitHub as a `Forge`; and the acceptance of a pull request's changes to the gate, by a label.

Only people with triage permission can set labels. A label remains when commits are pushed, but the person who set it
has not seen them. So it counts only for the commit on which it was set. GitHub's clock decides this, since a commit's
dates are chosen by its author: the label must be newer than this commit's run, or have started it.
"""

from __future__ import annotations

from agent_eval.core.text import harmless
from agent_eval.forge import ACCEPT_RULES, Acceptance
from agent_eval.github import binding, comments, runs
from agent_eval.github.client import GitHubClient
from agent_eval.github.errors import GitHubError


def acceptance(github: GitHubClient, number: int, *, run_id: int | None, started_by_label: bool) -> Acceptance:
    """Reads the label of a pull request.

    Args:
        github: The repository.
        number: Number of the pull request.
        run_id: This run; None if it has no id.
        started_by_label: Setting the label started this run.
    """
    try:
        label = _last_label(github, number)
        if label is None:
            return Acceptance()
        if label.actor is None or label.actor.type == "Bot":
            return Acceptance(why_not=f"The label `{ACCEPT_RULES}` does not count: a program set it, not a person.")
        if not started_by_label:
            if run_id is None:
                return Acceptance(why_not=f"The label `{ACCEPT_RULES}` does not count: this run has no id.")
            if label.created_at <= runs.get_run(github, run_id).created_at:
                return Acceptance(
                    why_not=f"The label `{ACCEPT_RULES}` does not count: it was set before this commit was pushed. "
                    "Remove it, set it again and re-run this job."
                )
    except GitHubError as error:
        return Acceptance(why_not=f"Whether the label `{ACCEPT_RULES}` is set could not be read: {error}")
    return Acceptance(by=harmless(label.actor.login))


def _last_label(github: GitHubClient, number: int) -> runs.LabelEvent | None:
    """Returns the last setting of the label; None if it is not set."""
    last = None
    for event in runs.label_events(github, number):
        if event.label.name.casefold() == ACCEPT_RULES.casefold():
            last = event
    return last if last is not None and last.event == "labeled" else None


class GitHub(GitHubClient):
    """One repository on GitHub. The methods are those of `agent_eval.forge.Forge`; each takes the client first."""

    upsert_comment = comments.upsert_comment
    acceptance = acceptance
    bind = binding.bind
    file_at = runs.file_at
    changed_files = runs.changed_files
    commit_parents = runs.commit_parents
    first_parents = runs.first_parents
    merge_base = runs.merge_base
    list_runs = runs.list_runs
    list_artifacts = runs.list_artifacts
    download_artifact = runs.download_artifact
