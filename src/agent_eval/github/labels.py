"""Whether a person has accepted what a pull request changes about the gate, by setting a label.

Only people who may triage the repository can set labels. A label stays when more is pushed, and what is pushed later
was not seen by whoever set it: it counts for the commit that it was set on. GitHub's clock decides that, since a
commit's own dates are its author's choice: the label must be younger than this commit's run, or have started it.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.core.text import harmless
from agent_eval.github import runs
from agent_eval.github.client import GitHub
from agent_eval.github.errors import GitHubError
from agent_eval.github.events import Event, text_at

ACCEPT_RULES = "agent-eval: accept rules"
"""The label's name."""


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """What the label says."""

    by: str = ""
    """Who set it; "" if it does not count."""
    why_not: str = ""
    """Why it does not count although it is set, or why that is unknown, as a sentence; "" if it is not set."""


def acceptance(github: GitHub, event: Event, number: int) -> Acceptance:
    """Looks for the label on a pull request.

    Args:
        github: The repository.
        event: What started this run.
        number: Of the pull request.
    """
    try:
        label = _last_label(github, number)
        if label is None:
            return Acceptance()
        if label.actor is None or label.actor.type == "Bot":
            return Acceptance(why_not=f"The label `{ACCEPT_RULES}` does not count: a program set it, not a person.")
        if not _started_by_label(event):
            if event.run_id is None:
                return Acceptance(why_not=f"The label `{ACCEPT_RULES}` does not count: this run has no id.")
            if label.created_at <= runs.get_run(github, event.run_id).created_at:
                return Acceptance(
                    why_not=f"The label `{ACCEPT_RULES}` does not count: it was set before this commit was pushed. "
                    "Remove it, set it again and start this job again."
                )
    except GitHubError as error:
        return Acceptance(why_not=f"Whether the label `{ACCEPT_RULES}` is set could not be read: {error}")
    return Acceptance(by=harmless(label.actor.login))


def _last_label(github: GitHub, number: int) -> runs.LabelEvent | None:
    """When the label was set for the last time; None if it is not set."""
    found = None
    for one in runs.label_events(github, number):
        if one.label.name.casefold() == ACCEPT_RULES.casefold():
            found = one
    return found if found is not None and found.event == "labeled" else None


def _started_by_label(event: Event) -> bool:
    """Whether setting the label started this run: the payload then has the commit that it was set on."""
    name = text_at(event.payload, "label", "name") or ""
    return text_at(event.payload, "action") == "labeled" and name.casefold() == ACCEPT_RULES.casefold()
