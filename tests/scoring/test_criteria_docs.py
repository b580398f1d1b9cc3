"""The pages about criteria say what the code does."""

import json
import re
from pathlib import Path

from remark_samples import lines

from agent_eval_scoring.core.content import FunctionCall
from agent_eval_scoring.criteria._explain import explain_response, explain_trajectory, list_calls
from agent_eval_scoring.criteria._sequences import rouge1
from agent_eval_scoring.criteria.custom import NOT_EVALUATED
from agent_eval_scoring.criteria.judged.judge import CODES
from agent_eval_scoring.criteria.judged.settling import NO_VERDICT
from agent_eval_scoring.criteria.registry import INFORMATIONAL, supported
from agent_eval_scoring.criteria.tokenize import tokenize
from agent_eval_scoring.evalset.metric_runner import MetricFailureKind
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS, METRICS

ROOT = Path(__file__).parents[2]
CRITERIA = (ROOT / "docs" / "criteria.md").read_text(encoding="utf-8")
COMPATIBILITY = (ROOT / "docs" / "adk-compatibility.md").read_text(encoding="utf-8")
SCORES = ROOT / "src/agent-eval-scoring/agent_eval_scoring/criteria"


def test_criteria_docs__every_metric_with_a_scorer_is_described() -> None:
    names = {name for name in METRICS if supported(name, judged=True)} | {criterion.name for criterion in INFORMATIONAL}

    assert {name for name in names if f"`{name}`" not in CRITERIA} == set()


def test_criteria_docs__every_code_of_a_missing_score_is_described() -> None:
    sources = "".join(path.read_text(encoding="utf-8") for path in SCORES.rglob("*.py"))
    emitted = {*re.findall(r'(?:code=|NotEvaluated\.of\(\s*)"([a-z-]+)"', sources), *CODES.values()}
    emitted |= {NO_VERDICT, NOT_EVALUATED}
    section = CRITERIA.partition("## When there is no score")[2]
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE))
    # docs/problems.md has the failures of custom metrics, which fail a run too (test_docs_verdict.py).
    assert listed == emitted - set(MetricFailureKind)


def test_criteria_docs__every_criterion_has_an_example_and_all_are_configs() -> None:
    blocks = re.findall(r"```json\n(.*?)```", CRITERIA, re.DOTALL)
    examples = [example for block in blocks for example in json.loads(block)["criteria"].items()]
    for metric, value in examples:
        model = CRITERION_MODELS[metric].model_validate(value if isinstance(value, dict) else {"threshold": value})
        assert supported(metric, judged=True) and not model.model_extra, metric

    as_task_success = {f"multi_turn_{name}_quality_v1" for name in ("trajectory", "tool_use")}
    unshown = {criterion.name for criterion in INFORMATIONAL} | as_task_success
    assert set(METRICS) - unshown <= {metric for metric, _ in examples}


def test_criteria_docs__every_section_is_complete() -> None:
    anchors = set(re.findall(r"^\| \[.+?\]\(#([\w-]+)\)", CRITERIA, re.MULTILINE))
    sections = {
        re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-"): text
        for title, text in re.findall(r"^#{2,3} (.+?)\n(.*?)(?=^#{2,3} |\Z)", CRITERIA, re.MULTILINE | re.DOTALL)
    }

    assert len(anchors) > 8
    for anchor in anchors:
        for word in ("Need", "Use"):
            assert re.search(rf"^- \*\*{word}", sections[anchor], re.MULTILINE), f"{anchor}: {word}"


def test_criteria_docs__findings_are_real() -> None:
    level_3, level_text = (FunctionCall(name="turn_on", args={"device": "lamp", "level": level}) for level in (3, "3"))
    calls = [level_3, FunctionCall(name="set_timer", args={"minutes": 10})]
    made = [FunctionCall(name="get_devices", args={}), level_text]
    expected, actual = "Turned on the lights in the living room", "Turning off the light"
    answer = explain_response(expected, actual, rouge1(tokenize(expected), tokenize(actual)))
    for why in (explain_trajectory(calls, made), answer):
        assert "\nwhy\n" + "\n".join(lines(why)) + "\n```" in CRITERIA
    for listed in (list_calls(calls), list_calls(made)):
        assert all(line in CRITERIA for line in listed.splitlines())


def test_criteria_docs__every_quirk_has_a_row() -> None:
    named = {int(number) for number in re.findall(r"\bQ(\d+)\b", COMPATIBILITY)}

    assert named == set(range(1, 23))
