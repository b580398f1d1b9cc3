"""cases.jsonl.gz, and reading stored lines of which some are damaged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from judged_samples import turn
from runner_doubles import planned as planned_case

from agent_eval.core.invocation import Invocation, adk_value
from agent_eval.evalset.models import ConversationScenario, EvalCase
from agent_eval.results import Recording
from agent_eval.runner import StoredCase, StoredLines, case_fingerprint, case_lines, stored_index
from agent_eval.runner.journal import write_lines
from agent_eval.runner.plan import PlannedCase

SCENARIO = ConversationScenario(starting_prompt="hi", conversation_plan="ask for a lamp")


def planned(case: EvalCase, user_config: Mapping[str, object] | None = None) -> PlannedCase:
    content = case_fingerprint(case, user_config)
    return replace(planned_case(case.eval_id), case=case, user_config=user_config, content=content)


def test_case_lines__a_case_is_read_back_as_it_was_run(tmp_path: Path) -> None:
    lamp = EvalCase(eval_id="lamp", conversation=[turn("where?", "here\u2028\U0001f4a1")])
    guest = EvalCase(eval_id="guest", conversation_scenario=SCENARIO)
    path = tmp_path / "cases.jsonl.gz"
    simulated = {"model": "gemini-2.5-pro"}
    write_lines(path, case_lines([planned(lamp, simulated), planned(guest, simulated)]))

    stored = list(StoredLines(path=path, model=StoredCase))
    assert [line.case for line in stored] == [lamp, guest]
    assert [line.case_id for line in stored] == ["a.test.json:lamp", "a.test.json:guest"]
    assert [line.user_simulator_config for line in stored] == [None, simulated]
    assert [line.fingerprint for line in stored] == [
        case_fingerprint(line.case, line.user_simulator_config) for line in stored
    ]


def test_stored_lines__damaged_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    good = b'{"run_id":"a:b#1","case_id":"a:b","file":"a","eval_set_id":"s","eval_id":"b","run":0,"fingerprint":"f",'
    good += b'"started_at":0,"duration":1}\n'
    path = tmp_path / "recordings.jsonl.gz"
    lines = StoredLines(path=path, model=Recording)
    assert list(lines) == []
    assert lines.skipped == 0

    path.write_bytes(gzip.compress(good + b"no json\n" + b'{"run_id": 1}\n' + good))
    assert [recording.run_id for recording in lines] == ["a:b#1", "a:b#1"]
    assert lines.skipped == 2

    path.write_bytes(gzip.compress(good * 1000)[:-9])
    assert 0 < len(list(lines)) <= 1000
    assert lines.skipped == 1


def test_stored_index__finds_lines_by_case_whatever_the_id(tmp_path: Path) -> None:
    ids = [
        "plain",
        'with "quotes"',
        "back\\slash",
        "line\nbreak",
        "日本語 \U0001f4a1",
        "\u2028",
        "",
        '","case_id":"other',
    ]
    cases = [planned(EvalCase(eval_id=name, conversation=[turn(name or "?", "here")])) for name in ids]
    path = tmp_path / "cases.jsonl.gz"
    by_hand = json.dumps(
        {"case_id": "by hand", "file": "a", "eval_set_id": "s", "fingerprint": "f", "case": {}}
    ).encode()
    cut = next(case_lines(cases[:1]))[:-20] + b"\n"
    strange = b'{"schema_version":"1","case_id":"not UTF-8 \xff"}\n'
    write_lines(path, [*case_lines(cases), by_hand + b"\n", b"no json\n", cut, strange])

    with stored_index(path, StoredCase) as index:
        assert index.skipped == 2  # The line that was cut off is found when it is needed.
        for case in cases:
            assert [line.case for line in index.of(case.case_id)] == [case.case]
        assert index.skipped == 3
        assert index.strangers(case.case_id for case in cases) == 1
        assert list(index.of("by hand")) == []
        assert index.skipped == 4


def test_adk_value__has_nothing_that_only_we_record() -> None:
    recorded = Invocation.model_validate(
        {
            "user_content": {"parts": [{"text": "hi"}]},
            "intermediate_data": {"invocation_events": [{"author": "home", "branch": "root.home"}]},
            "spans": [{"kind": "model", "agent": "home", "name": "m", "start": 0, "end": 1}],
        }
    )
    assert adk_value(recorded) == {
        "invocation_id": "",
        "user_content": {"parts": [{"text": "hi"}]},
        "intermediate_data": {"invocation_events": [{"author": "home"}]},
        "creation_timestamp": 0.0,
    }
