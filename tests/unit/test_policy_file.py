"""The tables [[policy]] and [[quarantine]] of agent-eval.toml: what they say, and that no mistake in them passes."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from policy_texts import policy_of

from agent_eval.core.problem import Problem, Severity
from agent_eval.gate.policy import Policy, PolicyEntry, QuarantineEntry
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
    assert policy == Policy(
        entries=(
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
        ),
        quarantine=(
            QuarantineEntry(
                case="evals/home.test.json:garage",
                reason="the clock of the fixture drifts",
                owner="@alice",
                expires=date(2027, 1, 31),
                line=19,
            ),
        ),
        max_quarantined=0.2,
    )
    assert policy.alpha == 0.01


def test_read_policy__defaults() -> None:
    assert policy_of("num-runs = 2") == (Policy(), [])
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
    ("text", "line", "code", "message"),
    [
        (f"{ENTRY}treshold = 1", 4, "policy-invalid", "Did you mean `threshold`?"),
        (f"{ENTRY}zzz = 1", 4, "policy-invalid", "Known keys: metric, cases"),
        (f"{ENTRY}alpha = 0.1\nnum-runs = 3", 5, "policy-invalid", "move it above the first table"),
        (f"{ENTRY}alpha = 1.5", 4, "policy-invalid", "above 0 and below 1, not 1.5"),
        (f"{ENTRY}alpha = 0", 4, "policy-invalid", "above 0 and below 1, not 0"),
        (f"{ENTRY}alpha = 1", 4, "policy-invalid", "above 0 and below 1, not 1"),
        (f"{ENTRY}alpha = nan", 4, "policy-invalid", "not nan"),
        (f"{ENTRY}threshold = true", 4, "policy-invalid", "must be a number, not true"),
        (f"{ENTRY}max-drop = true", 4, "policy-invalid", "from 0 to 1, not true"),
        (f"{ENTRY}max-drop = 5", 4, "policy-invalid", "from 0 to 1, not 5"),
        (f'{ENTRY}max-drop = "0.05"', 4, "policy-invalid", 'from 0 to 1, not "0.05"'),
        (f"{ENTRY}threshold = inf", 4, "policy-invalid", "not inf"),
        (f"{ENTRY}blocking = 1", 4, "policy-invalid", "true or false, not 1"),
        (f'{ENTRY}direction = "down"', 4, "policy-invalid", '"higher" or "lower", not "down"'),
        (f"{ENTRY}cases = []\nalpha = 0.1", 4, "policy-invalid", "at least one pattern"),
        (f'{ENTRY}cases = ["a", 1]\nalpha = 0.1', 4, "policy-invalid", "non-empty text"),
        (f'{ENTRY}cases = "!"\nalpha = 0.1', 4, "policy-invalid", "invalid pattern"),
        ('[[policy]]\nmetric = " "\nalpha = 0.1', 2, "policy-invalid", "non-empty text"),
        (ENTRY, 2, "policy-invalid", "sets no rule"),
        ("[[policy]]\nthreshold = 0.5", 2, "policy-invalid", "names none"),
        ('[[policy]]\nmetric = "pass"\ndirection = "lower"', 3, "policy-invalid", "names none"),
        ("# x\n[policy]\nalpha = 0.1", 2, "policy-invalid", "each below a line `[[policy]]`"),
        ("\npolicy = 0.1", 2, "policy-invalid", "each below a line `[[policy]]`"),
        ('\npolicy = [{metric = "m", alpha = 2}]', 2, "policy-invalid", "not 2"),
        (f"{ENTRY}alpha = 0.1{ENTRY}\n\nalpha = 0.2", 9, "policy-duplicate", "already set in line 2"),
        ("max-quarantined = 2", 1, "policy-invalid", "from 0 to 1, not 2"),
        ("\nmax-quarantined = false", 2, "policy-invalid", "from 0 to 1, not false"),
        (HELD, 1, "policy-invalid", "no `expires`"),
        ('[[quarantine]]\ncase = "x"', 1, "policy-invalid", "no `reason`, `owner`, `expires`"),
        (f'{HELD}expires = "2027-01-31"', 5, "policy-invalid", "without quotation marks"),
        (f"{HELD}expires = 2027-01-31T00:00:00Z", 5, "policy-invalid", "without quotation marks or a time"),
        (f"{HELD}{TODAY}until = 1", 6, "policy-invalid", "Known keys"),
        (
            '[[quarantine]]\nowner = ""\ncase = "x"\nreason = "x"\nexpires = 2027-01-01',
            2,
            "policy-invalid",
            "non-empty",
        ),
        (f"{HELD}{TODAY}{HELD}{TODAY}", 6, "policy-duplicate", "already quarantined in line 1"),
    ],
)
def test_read_policy__mistake_is_an_error_with_its_line(text: str, line: int, code: str, message: str) -> None:
    _, [problem] = policy_of(text)

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


def test_read_policy__entries_complement_each_other() -> None:
    _, problems = policy_of(f'{ENTRY}alpha = 0.1{ENTRY}max-drop = 0.1{ENTRY}cases = "x"\nalpha = 0.2')

    assert problems == []
