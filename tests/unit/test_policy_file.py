"""The tables [[policy]] and [[quarantine]] of agent-eval.toml: what they say, and that no mistake in them passes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from policy_texts import policy_of

from agent_eval.core.problem import Problem, Severity
from agent_eval.gate.policy import Policy, PolicyEntry
from agent_eval.settings import read_settings

FULL = """\
gate = "both"
max-quarantined = 0.2

[[policy]]
alpha = 0.01

[[policy]]
metric = "response_match_*"
cases = ["evals/home/**", "evals/a.test.json:lamp_*"]
threshold = 1
max-drop = 0.05
blocking = false

[[policy]]
metric = "token_usage_v1"
direction = "lower"
max-drop = 0.2

[[quarantine]]
case = "evals/home.test.json:garage"
reason = "the clock of the fixture drifts"
owner = "@alice"
expires = 2027-01-31

[agents]
"evals/**" = "agents/home"
"""


def test_read_policy__all_keys() -> None:
    policy, problems = policy_of(FULL)

    assert problems == []
    assert policy.entries == (
        PolicyEntry(alpha=0.01, line=4),
        PolicyEntry(
            metric="response_match_*",
            cases=("evals/home/**", "evals/a.test.json:lamp_*"),
            threshold=1.0,
            max_drop=0.05,
            blocking=False,
            line=7,
        ),
        PolicyEntry(metric="token_usage_v1", direction="lower", max_drop=0.2, line=14),
    )
    [held] = policy.quarantine
    assert (held.case, held.reason) == ("evals/home.test.json:garage", "the clock of the fixture drifts")
    assert (held.owner, held.expires, held.line) == ("@alice", date(2027, 1, 31), 19)
    assert (policy.max_quarantined, policy.alpha) == (0.2, 0.01)


def test_read_policy__defaults() -> None:
    assert policy_of("num-runs = 2") == (Policy(), [])
    complementing = f'{ENTRY}alpha = 0.1{ENTRY}max-drop = 0.1{ENTRY}cases = "x"\nalpha = 0.2'
    assert policy_of(complementing)[1] == []
    assert Policy().alpha == 0.05


def test_read_settings__policy_next_to_settings(tmp_path: Path) -> None:
    (tmp_path / "agent-eval.toml").write_text(FULL, encoding="utf-8")

    settings, problems = read_settings(tmp_path)

    assert problems == []
    assert settings.gate == "both"
    assert settings.agents == {"evals/**": "agents/home"}
    assert settings.policy == policy_of(FULL)[0]


ENTRY = '\n[[policy]]\nmetric = "safety_v1"\n'
HELD = '[[quarantine]]\ncase = "a:b"\nreason = "r"\nowner = "o"\n'
TODAY = "expires = 2027-01-31\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (f"{ENTRY}treshold = 1", 4, "Did you mean `threshold`?"),
        (f"{ENTRY}zzz = 1", 4, "Known keys: metric, cases"),
        (f"{ENTRY}alpha = 0.1\nnum-runs = 3", 5, "move it above the first table"),
        (f"{ENTRY}alpha = 1.5", 4, "above 0 and below 1, not 1.5"),
        (f"{ENTRY}alpha = 1", 4, "above 0 and below 1, not 1"),
        (f"{ENTRY}alpha = nan", 4, "not nan"),
        (f"{ENTRY}threshold = true", 4, "must be a number, not true"),
        (f"{ENTRY}max-drop = true", 4, "from 0 to 1, not true"),
        (f"{ENTRY}max-drop = 5", 4, "from 0 to 1, not 5"),
        (f'{ENTRY}max-drop = "0.05"', 4, 'from 0 to 1, not "0.05"'),
        (f"{ENTRY}blocking = 1", 4, "true or false, not 1"),
        (f'{ENTRY}direction = "down"', 4, '"higher" or "lower", not "down"'),
        (f"{ENTRY}cases = []\nalpha = 0.1", 4, "at least one pattern"),
        (f'{ENTRY}cases = ["a", 1]\nalpha = 0.1', 4, "non-empty text"),
        (f'{ENTRY}cases = "!"\nalpha = 0.1', 4, "invalid pattern"),
        ('[[policy]]\nmetric = " "\nalpha = 0.1', 2, "non-empty text"),
        (ENTRY, 2, "sets no rule"),
        ("[[policy]]\nthreshold = 0.5", 2, "names none"),
        ('[[policy]]\nmetric = "pass"\ndirection = "lower"', 3, "names none"),
        ("# x\n[policy]\nalpha = 0.1", 2, "each below a line `[[policy]]`"),
        ("\npolicy = 0.1", 2, "each below a line `[[policy]]`"),
        ('\npolicy = [{metric = "m", alpha = 2}]', 2, "not 2"),
        (f"{ENTRY}alpha = 0.1{ENTRY}\n\nalpha = 0.2", 9, "already set in line 2"),
        ("max-quarantined = 2", 1, "from 0 to 1, not 2"),
        ("\nmax-quarantined = false", 2, "from 0 to 1, not false"),
        (HELD, 1, "no `expires`"),
        ('[[quarantine]]\ncase = "x"', 1, "no `reason`, `owner`, `expires`"),
        (f'{HELD}expires = "2027-01-31"', 5, "without quotation marks"),
        (f"{HELD}expires = 2027-01-31T00:00:00Z", 5, "without quotation marks or a time"),
        (f"{HELD}{TODAY}until = 1", 6, "Known keys"),
        (
            '[[quarantine]]\nowner = ""\ncase = "x"\nreason = "x"\nexpires = 2027-01-01',
            2,
            "non-empty",
        ),
        (f"{HELD}{TODAY}{HELD}{TODAY}", 6, "already quarantined in line 1"),
    ],
)
def test_read_policy__mistake_is_an_error_with_its_line(text: str, line: int, message: str) -> None:
    _, [problem] = policy_of(text)

    code = "policy-duplicate" if "already" in message else "policy-invalid"
    assert (problem.severity, problem.code) == (Severity.ERROR, code)
    assert (problem.file, problem.line) == ("agent-eval.toml", line)
    assert message in f"{problem.message} {problem.hint}"


def test_read_policy__mistakes_in_file_order(tmp_path: Path) -> None:
    text = f"num-run = 1\nmax-quarantined = 3\n{HELD}{ENTRY}alpha = 2\nblockin = true\n"
    (tmp_path / "agent-eval.toml").write_text(text, encoding="utf-8")

    problems: list[Problem] = read_settings(tmp_path)[1]

    assert sorted((problem.line or 0, problem.code) for problem in problems) == [
        (1, "setting-unknown"),
        (2, "policy-invalid"),
        (3, "policy-invalid"),
        (10, "policy-invalid"),
        (11, "policy-invalid"),
    ]
