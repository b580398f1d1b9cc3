"""What criteria without a model see of facts: wrong ones that pass, rewordings that fail. `python benchmarks/facts.py`.

The answers are those of `facts.toml`, in six languages, which know nothing of the rules. Each reference is compared
with the same scene that has another value, in the first words and in the last ones, and with the same value in another
form, in other words, and in both. A case passes if all its criteria reach their thresholds.

With `--held-out` the answers are those of `facts_heldout.toml`, written by somebody who did not know the rules.

With `--foreign` also the final responses of google/adk-samples' eval sets, fetched at a pinned commit: which share
has facts, and how many of them a changed digit turns red.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.extend(map(str, (Path(__file__).parents[1] / "src").glob("*")))

from agent_eval_scoring.core.content import model_message, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.criteria import Conversation, Scored, build
from agent_eval_scoring.evalset.models import CRITERION_MODELS, EvalCase
from agent_eval_scoring.evalset.parse import criterion

TODAY: dict[str, dict[str, Any]] = {"response_match_score": {"threshold": 0.5}}
AFTER = {
    "response_match_score": {"threshold": 0.3},
    "response_facts": {"threshold": 1.0, "names": True, "states": True, "negation": True},
}
"""The criteria of answers that `init` wrote, and those that it writes."""
GOALS = dict.fromkeys(("number", "amount", "percent", "date", "time", "code"), 0.98)
GOALS |= dict.fromkeys(("name", "status", "negation"), 0.8)
MOST_FAILING = 0.03
FOREIGN = "https://github.com/google/adk-samples"
COMMIT = "e39b8067995c3df2d394d2c1a8ee332da621ffcc"


def pairs() -> Iterator[tuple[str, str, bool, str, str]]:
    """Language, kind, whether the fact is wrong, reference and answer."""
    blocks = tomllib.loads(Path(__file__).with_name("facts.toml").read_text("utf-8"))["block"]
    for block in blocks:
        values = block["values"]
        for say in block["say"]:
            for at, value in enumerate(values):
                reference, other = say[0].replace("{}", value[0]), values[(at + 1) % len(values)]
                wrong = [(say[0], other[0]), (say[-1], other[-1])]
                same = [(say[0], value[-1]), (say[1 % len(say)], value[0]), (say[-1], value[len(value) // 2])]
                for is_wrong, answers in ((True, wrong), (False, same)):
                    for answer in dict.fromkeys(words.replace("{}", spelled) for words, spelled in answers):
                        if answer != reference:
                            yield block["lang"], block["kind"], is_wrong, reference, answer


def held_out() -> Iterator[tuple[str, str, bool, str, str]]:
    """The same of the other file; the half of which a pair is stands in the place of the language."""
    for each in tomllib.loads(Path(__file__).with_name("facts_heldout.toml").read_text("utf-8"))["reference"]:
        for key in (each["half"], f"{each['half']}, {each['language']}"):
            for wrong in each["wrong"] if key == each["half"] else ():
                yield f"{key}, {wrong['kind']}", "", True, each["text"], wrong["text"]
            yield from ((key, "", True, each["text"], wrong["text"]) for wrong in each["wrong"])
            yield from ((key, "", False, each["text"], answer) for answer in each["same"])


def passes(criteria: dict[str, dict[str, Any]], reference: str, answer: str) -> bool:
    """Whether an answer passes all criteria."""
    turns = [
        Invocation(user_content=user_message("?"), final_response=model_message(text)) for text in (answer, reference)
    ]
    conversation = Conversation(case=EvalCase(eval_id="c", conversation=[]), actual=turns[:1], expected=turns[1:])
    for name, options in criteria.items():
        result = asyncio.run(build(criterion(name, CRITERION_MODELS[name].model_validate(options))).score(conversation))
        if isinstance(result, Scored) and result.score is not None and result.score < options["threshold"]:
            return False
    return True


def foreign(repository: str) -> Iterator[str]:
    """The expected answers of others' eval files."""
    with tempfile.TemporaryDirectory() as folder:
        for command in (["init", "-q"], ["fetch", "-q", "--depth=1", repository, COMMIT], ["checkout", "-q", COMMIT]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        for path in sorted(Path(folder).rglob("*.json")):
            if path.name.endswith((".test.json", ".evalset.json")):
                yield from _answers(json.loads(path.read_text("utf-8")))


def _answers(data: Any) -> Iterator[str]:
    """What both formats expect."""
    for case in data["eval_cases"] if isinstance(data, dict) else []:
        for turn in case.get("conversation") or []:
            yield "".join(part.get("text") or "" for part in (turn.get("final_response") or {}).get("parts") or [])
    for turn in data if isinstance(data, list) else []:
        yield turn.get("reference") or ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--foreign", nargs="?", const=FOREIGN, metavar="URL", help="also the eval sets of google/adk-samples"
    )
    parser.add_argument("--held-out", action="store_true", help="the answers of facts_heldout.toml instead")
    parser.add_argument("--options", default="names,states,negation", help="those of response_facts that are on")
    parser.add_argument("--show", action="store_true", help="print what goes wrong")
    options = parser.parse_args(arguments)
    for name in ("names", "states", "negation"):
        AFTER["response_facts"][name] = name in options.options.split(",")
    counts: defaultdict[tuple[str, bool], list[int]] = defaultdict(lambda: [0, 0, 0])
    references = set()
    for language, kind, is_wrong, reference, answer in held_out() if options.held_out else pairs():
        references.add(reference)
        results = [passes(criteria, reference, answer) for criteria in (TODAY, AFTER)]
        for key in (language,) if options.held_out else (kind, language, "all"):
            count = counts[key, is_wrong]
            count[0] += 1
            for at, passed in enumerate(results, start=1):
                count[at] += passed is is_wrong
        if options.show and results[1] is is_wrong:
            print("wrong, passes:" if is_wrong else "reworded, fails:", reference, "|", answer)
    print(f"{len(references)} references")
    print(f"{'':16}{'wrong':>8}{'pass today':>13}{'after':>10}{'reworded':>12}{'fail today':>13}{'after':>10}")
    missed = False
    for key in sorted({key for key, _ in counts}) if options.held_out else dict.fromkeys(key for key, _ in counts):
        (wrong, before, now), (same, failed, failing) = counts[key, True], counts[key, False]
        row = f"{key:16}{wrong:8}{before / wrong:13.1%}{now / wrong:10.1%}"
        print(row + (f"{same:12}{failed / same:13.1%}{failing / same:10.1%}" if same else ""))
        goal = GOALS.get(key.rpartition(", ")[2], 0.0)
        missed |= now / wrong > 1 - goal + 1e-9 or (key in {"all", "final"} and failing / same > MOST_FAILING)
    if options.foreign:
        texts = [text for text in foreign(options.foreign) if text.strip()]
        digits = [text for text in texts if re.search(r"\d", text)]
        changed = [re.sub(r"\d", lambda match: str((int(match[0]) + 1) % 10), text, count=1) for text in digits]
        red = [sum(not passes(each, *both) for both in zip(digits, changed, strict=True)) for each in (TODAY, AFTER)]
        print(f"google/adk-samples: {len(texts)} answers, {len(digits)} with digits")
        print(f"one digit changed: {red[0]} fail today, {red[1]} after")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
