"""Which entry of a policy holds for which metric of which case, and what doesn't fit the cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from policy_texts import policy_of

from agent_eval.core.problem import Severity
from agent_eval.gate.policy import MetricPolicy, PolicyReader, case_matcher, quarantined
from agent_eval.gate.policy_checks import KnownCase, check_policy

TODAY = date(2026, 11, 21)
MATCH, SAFETY, TOKENS = "response_match_score", "safety_v1", "token_usage_v1"


@pytest.mark.parametrize(
    ("pattern", "file", "eval_id", "meant"),
    [
        ("evals/home.test.json", "evals/home.test.json", "x", True),
        ("evals/home.test.json", "more/evals/home.test.json", "x", False),
        ("evals/", "evals/deep/home.test.json", "x", True),
        ("evals/**", "evals/deep/home.test.json", "x", True),
        ("*.test.json", "evals/deep/home.test.json", "x", True),
        ("evals/home.test.json:lamp_*", "evals/home.test.json", "lamp_on", True),
        ("evals/home.test.json:lamp_*", "evals/home.test.json", "fan_on", False),
        ("evals/**:lamp_on", "evals/deep/home.test.json", "lamp_on", True),
        ("evals/**:lamp_on", "other/home.test.json", "lamp_on", False),
        (":lamp_on", "anywhere/home.test.json", "lamp_on", True),
        ("lamp_on", "anywhere/home.test.json", "lamp_on", False),
        ("a.test.json:what: now?", "a.test.json", "what: now?", True),
        ("a[1].test.json:x", "a[1].test.json", "x", True),
        ("a.test.json:[x]", "a.test.json", "[x]", True),
        ("a.test.json:[x]", "a.test.json", "x", True),
        ("a.test.json:X", "a.test.json", "x", False),
    ],
)
def test_policy__a_pattern_of_cases(pattern: str, file: str, eval_id: str, meant: bool) -> None:
    assert case_matcher(pattern)(file, eval_id) is meant


ORDER = f"""
[[policy]]
max-drop = 0.01
[[policy]]
metric = "*_score"
max-drop = 0.05
threshold = 0.5
[[policy]]
metric = "{MATCH}"
cases = ["evals/**", "never/**"]
threshold = 0.7
[[policy]]
cases = "drafts/**"
blocking = false
"""


EVERYTHING = '[[policy]]\nmetric = "*"\nmax-drop = 0.3\nblocking = false'
OF_SAFETY = f'[[policy]]\nmetric = "{SAFETY}"\n'
OF_CASES = '[[policy]]\ncases = "evals/"\n'


@pytest.mark.parametrize(
    ("text", "metric", "expected"),
    [
        # The last entry that says something counts, key by key.
        (ORDER, MATCH, MetricPolicy(threshold=0.7, max_drop=0.05, named=True)),
        (ORDER.replace("evals", "other"), MATCH, MetricPolicy(threshold=0.5, max_drop=0.05, named=True)),
        (ORDER, SAFETY, MetricPolicy(max_drop=0.01)),
        # A glob of metrics does not match `pass`.
        (EVERYTHING, "pass", MetricPolicy()),
        (EVERYTHING, SAFETY, MetricPolicy(max_drop=0.3, blocking=False, named=True)),
        # A case that does not block still fails by its metrics.
        (f"{OF_CASES}blocking = false", SAFETY, MetricPolicy()),
        # A rate for everything belongs to no metric.
        ("[[policy]]\nalpha = 0.2", SAFETY, MetricPolicy()),
        (f"{OF_SAFETY}alpha = 0.2", SAFETY, MetricPolicy(alpha=0.2, named=True)),
        (f"{OF_CASES}alpha = 0.2", "pass", MetricPolicy(alpha=0.2)),
        # A metric is tested when an entry asks for it.
        (f"{OF_SAFETY}threshold = 0.2", SAFETY, MetricPolicy(threshold=0.2)),
        (f"{OF_SAFETY}blocking = true", SAFETY, MetricPolicy(named=True)),
        ("[[policy]]\nblocking = true", SAFETY, MetricPolicy()),
    ],
)
def test_policy__what_holds_for_a_metric_of_a_case(text: str, metric: str, expected: MetricPolicy) -> None:
    policy, problems = policy_of(text)
    assert problems == []
    reader = PolicyReader(policy)
    assert reader.metric(metric, reader.of_case("evals/a.test.json", "lamp_on")) == expected


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", True),
        ('[[policy]]\ncases = "evals/"\nblocking = false', False),
        ('[[policy]]\nmetric = "pass"\nblocking = false', False),
        (f'[[policy]]\nmetric = "{SAFETY}"\nblocking = false', True),
        ('[[policy]]\nblocking = false\n[[policy]]\ncases = "evals/"\nblocking = true', True),
    ],
)
def test_policy__whether_a_case_may_block(text: str, blocks: bool) -> None:
    reader = PolicyReader(policy_of(text)[0])
    assert reader.blocks(reader.of_case("evals/a.test.json", "x")) is blocks


def test_policy__which_entries_quarantine_a_case() -> None:
    entry = '[[quarantine]]\nreason = "r"\nowner = "o"\nexpires = 2027-01-31\ncase = '
    policy = policy_of(f'{entry}"a.test.json:x"\n{entry}"a.test.json"\n{entry}":z"')[0]
    cases = [("a.test.json", "x"), ("a.test.json", "y"), ("b.test.json", "y"), ("b.test.json", "z")]
    assert quarantined(policy.quarantine, cases) == {0: [0, 1], 1: [1], 3: [2]}
    assert quarantined((), cases) == {}


NOTHING = "policy-matches-nothing"
CASES = [
    KnownCase(file=f"evals/{name}.test.json", eval_id=f"{name}_{number}", metrics=frozenset({MATCH, SAFETY}))
    for name in ("home", "shop")
    for number in range(10)
]


def wrong(
    text: str, *, cases: Sequence[KnownCase] = CASES, everything: Sequence[KnownCase] | None = None
) -> list[tuple[int | None, str, str]]:
    policy, problems = policy_of(text)
    assert problems == []
    more = None if everything is None else lambda: everything
    findings = check_policy(policy, cases, today=TODAY, everything=more)
    assert all(finding.file == "agent-eval.toml" for finding in findings)
    return [
        (finding.line, finding.code, f"{finding.severity}: {finding.message} {finding.hint}") for finding in findings
    ]


def quarantine(case: str, expires: str = "2027-01-31") -> str:
    return f'[[quarantine]]\ncase = "{case}"\nreason = "slow clock"\nowner = "@alice"\nexpires = {expires}\n'


HELD = quarantine(":home_1") + quarantine(":home_2")


@pytest.mark.parametrize(
    "text",
    [
        f"{ORDER.replace('drafts', 'evals').replace('never', 'evals')}{quarantine(':home_1')}",
        f'[[policy]]\nmetric = "{TOKENS}"\nthreshold = 2000\ndirection = "lower"\n',
        '[[policy]]\nmetric = "pass"\nmax-drop = 0.1\n',
        *(f'[[policy]]\nmetric = "{MATCH}"\nthreshold = {threshold}' for threshold in (0, 1)),
        # Two of twenty are ten percent. An entry that means a case that another means too takes no more of the share.
        HELD,
        HELD + quarantine("evals/home.test.json:home_2"),
        quarantine(":home_1", "2026-12-06"),
    ],
)
def test_policy__what_fits(text: str) -> None:
    assert wrong(text) == []


@pytest.mark.parametrize(
    ("text", "line", "code", "expected_text"),
    [
        ('[[policy]]\ncases = "evals/hom.test.json"\nalpha = 0.1', 1, NOTHING, "`evals/home.test.json`"),
        ('\n[[policy]]\ncases = ["evals/**", "x/**"]\nalpha = 0.1', 2, NOTHING, "`x/**` means no case"),
        (quarantine("evals/home.test.json:home_11"), 1, NOTHING, "`evals/home.test.json:home_1`"),
        (quarantine("home_1"), 1, NOTHING, "Did you mean `:home_1`?"),
        ('[[policy]]\nmetric = "saftey_v1"\nalpha = 0.1', 1, NOTHING, "Did you mean `safety_v1`?"),
        ('[[policy]]\nmetric = "hallu*"\nalpha = 0.1', 1, NOTHING, "They have: response_match_score"),
        (f'[[policy]]\nmetric = "{MATCH}"\nthreshold = 80', 1, "policy-invalid", "from 0 to 1, not 80"),
        (f'[[policy]]\nmetric = "{TOKENS}"\nthreshold = -1', 1, "policy-invalid", "at least 0, not -1"),
        (f'[[policy]]\nmetric = "{MATCH}"\ndirection = "lower"', 1, "policy-invalid", "better when they are higher"),
        (quarantine(":home_[1-3]"), 1, "quarantine-too-many", "3 of 20 cases are quarantined; max-"),
        (f"max-quarantined = 0\n{quarantine(':home_1')}", 2, "quarantine-too-many", "which is 0"),
        (quarantine(":home_1", "2026-11-20"), 1, "quarantine-expired", "(@alice: slow clock) ended on 2026-11-20."),
    ],
)  # fmt: skip
def test_policy__what_does_not_fit_is_an_error(text: str, line: int, code: str, expected_text: str) -> None:
    [(found_line, found_code, message)] = wrong(text)
    assert (found_line, found_code) == (line, code)
    assert message.startswith(Severity.ERROR)
    assert expected_text in message


def test_policy__the_end_of_a_quarantine_is_announced() -> None:
    [(line, code, message)] = wrong(quarantine(":home_1", "2026-12-05"))
    assert (line, code) == (1, "quarantine-ends-soon")
    assert message.startswith("warning: The quarantine of `:home_1` (@alice: slow clock) ends in 14 days")
    assert "ends today" in wrong(quarantine(":home_1", "2026-11-21"))[0][2]


def test_policy__a_run_of_some_cases_is_held_against_all_of_the_repository() -> None:
    text = quarantine(":home_1") + '[[policy]]\ncases = "evals/shop.test.json"\nalpha = 0.1'
    some = CASES[:2]
    assert {code for _, code, _ in wrong(text, cases=some)} == {NOTHING, "quarantine-too-many"}
    assert wrong(text, cases=some, everything=CASES) == []
    assert {code for _, code, _ in wrong(quarantine("x"), cases=some, everything=CASES)} == {"policy-matches-nothing"}


def test_policy__what_a_pull_request_fixes_in_the_bases_policy_does_not_stop_it() -> None:
    lasting = quarantine(":home_2", TODAY.isoformat())  # its last day is a day of it
    base = policy_of(quarantine(":gone") + quarantine(":home_1", "2026-11-20") + lasting)[0]
    own = policy_of(quarantine(":home_2"))[0]

    applied = base.instead_of(own, TODAY)

    assert [entry.case for entry in applied.quarantine] == [":gone", ":home_2"]
    findings = check_policy(applied, CASES, today=TODAY)
    assert [(finding.severity, finding.code, finding.file) for finding in findings] == [
        (Severity.WARNING, "quarantine-ends-soon", None),
        (Severity.WARNING, "quarantine-expired", None),
        (Severity.WARNING, NOTHING, None),
    ]
    assert findings[1].message.startswith("agent-eval.toml of the base branch, line 6: The quarantine of `:home_1`")


def test_policy__the_policy_of_the_checkout_is_still_checked_completely() -> None:
    own = policy_of(quarantine(":gone") + quarantine(":home_1", "2026-11-20"))[0]
    findings = check_policy(policy_of("")[0].instead_of(own, TODAY), CASES, today=TODAY)
    assert [(finding.severity, finding.code, finding.line) for finding in findings] == [
        (Severity.ERROR, NOTHING, 1),
        (Severity.ERROR, "quarantine-expired", 6),
    ]


def test_policy__a_renamed_case_has_the_stricter_policy_of_both_names() -> None:
    of_match = '[[policy]]\nmetric = "response_match_score"\n'
    policy = policy_of(
        f'{of_match}cases = ":old"\nthreshold = 0.9\nmax-drop = 0.1\n'
        f'{of_match}cases = ":new"\nthreshold = 0.5\nmax-drop = 0.3\nalpha = 0.01\n'
        '[[policy]]\nmetric = "token_usage_v1"\ncases = ":new"\nthreshold = 100\nmax-drop = 0.5\n'
        '[[policy]]\ncases = ":new"\nblocking = false\n'
    )[0]
    reader = PolicyReader(replace(policy, renamed={"evals/a.test.json:new": ("evals/a.test.json", "old")}))
    entries = reader.of_case("evals/a.test.json", "new")
    assert reader.blocks(entries)
    match, usage = reader.metric(MATCH, entries), reader.metric(TOKENS, entries)
    assert (match.threshold, match.max_drop, match.alpha, match.blocking) == (0.9, 0.1, 0.01, True)
    assert (usage.threshold, usage.max_drop, usage.also_configured) == (100, 0.5, True)
    assert reader.loosened("evals/a.test.json", "new", [MATCH])
    assert not reader.loosened("evals/a.test.json", "old", [MATCH])


@pytest.mark.parametrize(("threshold", "stricter"), [(None, 0.9), (0.5, 0.9), (0.95, 0.95)])
def test_policy__the_threshold_of_a_renamed_case(threshold: float | None, stricter: float) -> None:
    old, new = MetricPolicy(threshold=0.9), MetricPolicy(threshold=threshold)
    assert old.stricter(new).threshold == new.stricter(old).threshold == stricter
    lower = MetricPolicy(threshold=0.9, direction="lower").stricter(MetricPolicy(threshold=threshold))
    assert lower.threshold == min(0.9, threshold or 1.0)


def test_policy__a_renamed_case_is_quarantined_only_by_both_names() -> None:
    policy = policy_of(quarantine(":[ab]"))[0]
    names = {f"x.test.json:{new}": ("x.test.json", old) for new, old in ("ab", "bc", "da")}
    reader = PolicyReader(replace(policy, renamed=names))
    assert [name for name in "abd" if reader.quarantine("x.test.json", name) is not None] == ["a"]
