"""adk-rust's own scores, as criteria of a package: `adk_rust_response_similarity`, `adk_rust_tool_trajectory`.

Source: the crate adk-eval of zavora-ai/adk-rust at 7fbc01fa. The scores differ from those of our criteria with the same
purpose: ROUGE-N is the recall over distinct n-grams, tokens keep their punctuation, an empty text is contained in every
text, calls are matched greedily, and of several turns the last one weighs a half. The fields have adk-rust's names.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agent_eval_scoring.core.content import Content
from agent_eval_scoring.criteria import api, common_length, edit_distance

_SPACE = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's White_Space. Python's `str.split` also splits at U+001C to U+001F."""
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORDS = re.compile(f"[^{_SPACE}]+")
_TOKENS = re.compile(f"[{_CJK}]|[^{_SPACE}{_CJK}]+")
_KEPT_SPACE = re.compile(f"[{_SPACE}]")
_HEXADECIMAL = """
345 5b0-5bd 5bf 5c1-5c2 5c4-5c5 5c7 610-61a 64b-657 659-65f 670 6d6-6dc 6e1-6e8 6ed 711-73f 7a6-7b0 816-817
81b-82c 8d4-8df 8e3-8e9 8f0-93b 93e-94c 94e-94f 955-963 981-983 9be-9cc 9d7-9e3 a01-a03 a3e-a4c a51-a75 a81-a83
abe-acc ae2-ae3 afa-afc b01-b03 b3e-b4c b56-b63 b82-bcc bd7 c00-c03 c3e-c4c c55-c63 c81-c83 cbe-ccc cd5-d03
d3e-d4c d57-d63 d81-d83 dcf-df3 e31-e3a e4d eb1-eb9 ebb-ebc ecd f71-f81 f8d-fbc 102b-1036 1038 103b-103e
1056-109d 1712-1713 1732-1733 1752-1773 17b6-17c8 1885-1938 1a17-1a1b 1a55-1a5e 1a61-1a74 1abf-1ac0 1acc-1b04
1b35-1b43 1b80-1ba9 1bac-1bad 1be7-1bf1 1c24-1c36 1de7-1df4 24b6-24e9 2de0-2dff a674-a67b a69e-a69f a802
a80b-a827 a880-a8c3 a8c5 a8ff-a92a a947-a952 a980-a983 a9b4-a9bf a9e5-aa4d aa7b-aabe aaeb-aaef aaf5 abe3-abea
fb1e 10376-1037a 10a01-10a0f 10d24-10eac 11000-11045 11073-11074 11082-110b8 110c2 11100-11132 11145-11146
11180-111bf 111ce-111cf 1122c-11234 11237 1123e 112df-112e8 11300-11303 1133e-1134c 11357-11363 11435-11441
11443-11445 114b0-114c1 115af-115be 115dc-1163e 11640 116ab-116b5 1171d-1172a 1182c-11838 11930-1193c
11940-11942 119d1-119df 119e4-11a0a 11a35-11a3e 11a51-11a97 11c2f-11c3e 11c92-11d41 11d43 11d47-11d96
11ef3-11ef6 16f4f-16f92 16ff0-16ff1 1bc9e 1e000-1e02a 1e947 1f130-1f149 1f150-1f169 1f170-1f189
"""
"""Ranges, ascending. Unicode 14.0, Other_Alphabetic (https://www.unicode.org/reports/tr44/#Other_Alphabetic). A range
may include letters and unassigned characters, which need no distinction."""


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first, 16), int(last or first, 16)


_RANGES = [_range(text) for text in _HEXADECIMAL.split()]
_STARTS = [first for first, _ in _RANGES]


def _is_other_alphabetic(character: str) -> bool:
    """Whether a character that `str.isalpha` denies is Alphabetic."""
    code = ord(character)
    at = bisect_right(_STARTS, code)
    return at > 0 and code <= _RANGES[at - 1][1]


ALGORITHMS = ("exact", "contains", "levenshtein", "jaccard", "rouge1", "rouge2", "rouge_l")


def normalized(text: str, *, ignore_case: bool, ignore_punctuation: bool) -> str:
    """The text in lower case, only with letters, digits and white space, as far as asked for; white space collapsed."""
    if ignore_case:
        text = text.lower()
    if ignore_punctuation:
        text = "".join(character for character in text if _is_kept(character))
    return " ".join(_WORDS.findall(text))


def _is_kept(character: str) -> bool:
    """Rust's `is_alphanumeric` or `is_whitespace`."""
    return character.isalnum() or _is_other_alphabetic(character) or bool(_KEPT_SPACE.match(character))


def similarity(algorithm: str, expected: str, actual: str) -> float:
    """The similarity of two prepared texts by one of ALGORITHMS, 0..1."""
    ours, theirs = _TOKENS.findall(expected), _TOKENS.findall(actual)
    match algorithm:
        case "exact":
            return float(expected == actual)
        case "contains":
            # In both directions, and so true of every empty text.
            return float(expected in actual or actual in expected)
        case "levenshtein":
            longest = max(len(expected), len(actual))
            return 1.0 - edit_distance(expected, actual) / longest if longest else 1.0
        case "jaccard":
            either = {*ours, *theirs}
            return len({*ours} & {*theirs}) / len(either) if either else 1.0
        case "rouge_l":
            return _rouge_l(ours, theirs)
        case _:
            return _distinct_recall(ours, theirs, 1 if algorithm == "rouge1" else 2)


def _distinct_recall(ours: Sequence[str], theirs: Sequence[str], size: int) -> float:
    wanted, found = (
        {tuple(words[start : start + size]) for start in range(len(words) - size + 1)} for words in (ours, theirs)
    )
    if not wanted:
        return 0.0 if found else 1.0
    return len(wanted & found) / len(wanted)


def _rouge_l(ours: Sequence[str], theirs: Sequence[str]) -> float:
    if not ours:
        return 0.0 if theirs else 1.0
    common = common_length(ours, theirs)
    precision, recall = common / len(theirs) if theirs else 0.0, common / len(ours)
    return 2.0 * precision * recall / (precision + recall) if common else 0.0


def trajectory(
    expected: Sequence[api.FunctionCall], actual: Sequence[api.FunctionCall], *, strict_order: bool, strict_args: bool
) -> float:
    """Matched calls / calls of the longer list, 0..1; 1 if both are empty.

    Each expected call takes the first free call that fits, in order only after the one that was taken last.
    """
    taken: set[int] = set()
    cursor = 0
    for call in expected:
        for j in range(cursor, len(actual)):
            if j not in taken and _same_call(call, actual[j], strict_args=strict_args):
                taken.add(j)
                cursor = j + 1 if strict_order else 0
                break
    longest = max(len(expected), len(actual))
    return len(taken) / longest if longest else 1.0


def _same_call(expected: api.FunctionCall, actual: api.FunctionCall, *, strict_args: bool) -> bool:
    """Whether two calls match. Omitted args are null there, so they match only omitted ones."""
    ours, theirs = expected.args, actual.args
    if expected.name != actual.name:
        return False
    if strict_args or ours is None or theirs is None:
        return _equal(ours, theirs)
    return all(key in theirs and _equal(value, theirs[key]) for key, value in ours.items())


def _equal(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal to serde_json, where 1, 1.0 and true differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return type(left) is type(right) and bool(left == right)


@dataclass(frozen=True, kw_only=True)
class _PerTurn:
    """Scores turn by turn. Each must reach the threshold; the score of the case is adk-rust's mean by halves."""

    name: str
    threshold: float
    turns: Any
    """Expected and actual side of a turn, as the score compares them; None: the turn is left out."""
    compare: Any

    async def score(self, conversation: api.Conversation) -> api.Result:
        """NotEvaluated if the case has no expectation, or another number of turns."""
        expected = conversation.expected
        if expected is None or len(expected) != len(conversation.actual):
            message = f"`{self.name}` compares turn by turn with the eval file"
            return api.NotEvaluated(code="needs-reference", message=message)
        scores: list[float | None] = []
        findings = []
        for number, (reference, turn) in enumerate(zip(expected, conversation.actual, strict=True)):
            ours, theirs = self.turns(reference), self.turns(turn)
            score = None if ours is None else 0.0 if theirs is None else float(self.compare(ours, theirs))
            scores.append(score)
            if score is not None and score < self.threshold:
                shown = [_shown(side) for side in (ours, theirs)]
                findings.append(api.TurnFinding(turn=number, score=score, expected=shown[0], actual=shown[1]))
        present = [score for score in scores if score is not None]
        if not present:
            return api.NotEvaluated(code="no-reference-text", message="no turn has an expected answer")
        mean = present[0]
        for score in present[1:]:
            # adk-rust's own, also in its order: the last turn weighs a half.
            mean = (mean + score) / 2.0
        # Its own decision: each turn has to reach the threshold, whatever the mean is.
        return api.Scored(score=mean, passed=not findings, turn_scores=tuple(scores), findings=tuple(findings))


def _shown(side: Any) -> str:
    if side is None or isinstance(side, str):
        return side or "(no text)"
    return "\n".join(f"{call.name}({call.args})" for call in side) or "(no calls)"


def _text(content: Content | None) -> str | None:
    """The text parts of an answer without separators; None for no answer."""
    parts = list(content.iter_parts()) if content is not None else []
    return "".join(part.text for part in parts if part.text) if parts else None


def response_similarity(config: api.CriterionConfig) -> api.Criterion:
    """adk-rust's `ResponseScorer`, with the fields of its `response_match_config`.

    Raises:
        ValueError: A field or its value is unknown.
    """
    defaults = {"algorithm": "jaccard", "normalize": True, "ignore_case": True, "ignore_punctuation": False}
    fields = _fields(config, defaults)
    # As its pages write it, `Jaccard` and `RougeL`, or as its JSON does.
    if (algorithm := re.sub(r"(?<=[a-z])L$", "_l", fields["algorithm"]).lower()) not in ALGORITHMS:
        raise ValueError(f"`algorithm` must be one of {', '.join(ALGORITHMS)}")
    prepare: Any = str  # Without `normalize`, the two flags have no effect.
    if fields["normalize"]:
        prepare = partial(
            normalized, ignore_case=fields["ignore_case"], ignore_punctuation=fields["ignore_punctuation"]
        )
    return _PerTurn(
        name=config.metric,
        threshold=config.bound,
        turns=lambda turn: _text(turn.final_response),
        compare=lambda ours, theirs: similarity(algorithm, prepare(ours), prepare(theirs)),
    )


def tool_trajectory(config: api.CriterionConfig) -> api.Criterion:
    """adk-rust's `ToolTrajectoryScorer`, with the fields of its `tool_trajectory_config`.

    Raises:
        ValueError: A field or its value is unknown.
    """
    fields = _fields(config, {"strict_order": True, "strict_args": False})
    return _PerTurn(
        name=config.metric,
        threshold=config.bound,
        turns=lambda turn: api.tool_calls(turn.intermediate_data),
        compare=partial(trajectory, **fields),
    )


def _fields(config: api.CriterionConfig, defaults: Mapping[str, Any]) -> dict[str, Any]:
    # Every config has this field of ADK's, which adk-rust lacks.
    given = {name: value for name, value in config.options.items() if name != "include_intermediate_responses_in_final"}
    fields = {**defaults, **given}
    if unknown := fields.keys() - defaults.keys():
        raise ValueError(f"its fields are {', '.join(defaults)}, not {', '.join(sorted(unknown))}")
    for name, default in defaults.items():
        if type(fields[name]) is not type(default):
            raise ValueError(f"`{name}` must be {'true or false' if isinstance(default, bool) else 'text'}")
    return fields
