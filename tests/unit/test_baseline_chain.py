"""Where the base branch's result comes from, and whether it can be used."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from baseline_samples import REPOSITORY, WORKFLOW, case, measured, results, sha, wire, zipped
from golden_files import as_lines, check, facts_of
from history_samples import compare, said
from hypothesis import given
from hypothesis import strategies as st
from recording_samples import facts

from agent_eval import __version__
from agent_eval.baseline.archive import (
    ArchiveLimits,
    NoResults,
    UnsafeArchive,
    read_results,
    recordings_in,
    unpack,
    write_recordings,
)
from agent_eval.baseline.artifact import may_record
from agent_eval.baseline.lookup import (
    Baseline,
    BaselineRequest,
    FetchFailed,
    Found,
    Incompatible,
    NoneYet,
    Provenance,
    checked,
    incomparable,
    resolve,
    step_of,
    to_report,
)
from agent_eval.baseline.reader import incomplete, read_report
from agent_eval.pipeline._regression import pair_with_base
from agent_eval.runner import Plan
from agent_eval.settings.parsers import parse_order
from agent_eval_results import Recording, StoredLines
from agent_eval_results.data.comparison import BaselineSource
from agent_eval_results.data.decision import DecisionReport
from agent_eval_results.data.merging import WITHOUT_KEY
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.data.report import SCORING_VERSION, CaseReport, FileReport, Origin, Reason, RunReport, RunResult
from agent_eval_scoring.core.recording import RunError

# The order of sources, what came of them, and who may record.

WANTED = BaselineRequest(
    repository=REPOSITORY,
    base_ref="main",
    commit=sha(9),
    how="the first parent of the merge commit that was tested",
    is_pull_request=True,
    workflow=WORKFLOW,
)
FOUND = Found(
    report=results(),
    provenance=Provenance(
        commit=sha(7), distance=2, run_id=5, run_url="https://github.com/octo/bots/actions/runs/5", recorded_at=1.79e9
    ),
    message="The base branch's results come from main.",
)


ORDERS = ["auto", "none", " artifact ", "rerun,artifact", "artifact, file: evals/base line.json ,rerun"]
ORDERS += ["file:a.json,file:./b//c.json", "", "artefact", "auto,rerun", "artifact,none", "artifact,,rerun"]
ORDERS += ["rerun,artifact,rerun", "file:a.json,file:./a.json"]
ORDERS += [f"file:{path}" for path in ("", ".", "/etc/x", "../a", "a/../../a")]


def test_chain__orders() -> None:
    page = ""
    for order in ORDERS:
        try:
            page += f"{order!r}: {' '.join(f'{each.source}={each.path}' for each in parse_order(order))}\n"
        except ValueError as error:
            page += f"{order!r} is wrong: {error}\n"
    check("golden_orders.txt", page)


@dataclass
class Source:
    source: BaselineSource
    answer: Baseline
    asked: list[BaselineRequest] = field(default_factory=list)

    async def find(self, request: BaselineRequest) -> Baseline:
        self.asked.append(request)
        return self.answer


async def test_chain__the_first_in_the_callers_order_wins_and_the_rest_is_not_asked() -> None:
    failed = FetchFailed(message="The artifact has expired.")
    sources = [Source("rerun", failed), Source("file", FOUND), Source("artifact", FOUND)]

    outcome = await resolve(sources, WANTED)

    assert isinstance(outcome, Found) and outcome.report is FOUND.report
    assert [step.source for step in outcome.steps] == ["rerun", "file"]
    assert [source.asked for source in sources] == [[WANTED], [WANTED], []]


CHAINS: list[Sequence[Baseline]] = [
    [NoneYet(message="None."), NoneYet(message="Nor here.")],
    [NoneYet(message="None."), FetchFailed(message="403.", hint="Permit it.")],
    [FetchFailed(message="403."), FetchFailed(message="Too late.")],
    [FetchFailed(message="403."), Incompatible(message="Other judge.")],
    [],
    [NoneYet(message="There is no file.", hint="Commit one."), FOUND],
]


async def test_chain__the_weightiest_reason_is_the_reason_and_all_are_reported() -> None:
    names: list[BaselineSource] = ["file", "artifact"]
    page = []
    for answers in CHAINS:
        sources = [Source(name, answer) for name, answer in zip(names, answers, strict=False)]
        page += [*as_lines(to_report(await resolve(sources, WANTED), WANTED)), ""]
    check("golden_baselines.txt", "\n".join(page))


def _origin(**changes: object) -> Origin:
    facts = {"repository": REPOSITORY, "commit": sha(1), "ref": "refs/heads/main", "event": "push"}
    return Origin.model_validate(facts | changes)


ORIGINS: list[dict[str, Any]] = [
    {},
    *({"ref": ref} for ref in ("refs/heads/release/2", "refs/heads/feature", "refs/tags/main", "")),
    *({"event": event} for event in ("schedule", "workflow_dispatch", "pull_request_target", "merge_group")),
    *({"event": event} for event in ("workflow_run", "")),
    *({"event": event, "pull_request": 3} for event in ("push", "pull_request")),
]


def test_chain__only_runs_of_the_base_branch_record() -> None:
    origins = {str(changes): _origin(**changes) for changes in ORIGINS} | {"no CI": Origin(), "unknown": None}
    permissions = [(name, may_record(origin, branches=["release/2", "main"])) for name, origin in origins.items()]
    check("golden_recording.txt", "".join(f"{name}: {may.allowed}, {may.why}\n" for name, may in permissions))


# Somebody else's results.json: what is read, what is another version's, what is not to be trusted.

WHERE = "The artifact of run 7"


def _changed(**changes: Any) -> bytes:
    content = json.loads(wire(results()))
    return json.dumps(content | changes).encode()


def _with_drop(drop: float) -> dict[str, Any]:
    return {"outcome": "passed", "alpha": 0.05, "suites": [{"metric": "pass", "cases": 2, "drop": drop}]}


@pytest.mark.parametrize("decision", [None, DecisionReport.model_validate(_with_drop(0.5))])
def test_reading__what_we_write_is_read(decision: DecisionReport | None) -> None:
    report = results(case("one"), case("two", "failed"), decision=decision)
    assert read_report(wire(report), WHERE) == report


SCORED, HOSTILE = wire(results()), "\x1b[31m1\n::error::x" + "y" * 500
UNREAD = {
    "nothing": b"",
    "half of it": b'{"schema_version": "1"',
    "a list": b"[]",
    "another file": b'{"coverage": 17}',
    "very deep": b"[" * 100_000,
    "an unknown verdict": _changed(verdict="fine"),
    "two mistakes": _changed(cases="none", num_runs="x"),
    "a case twice": wire(results(case("one"), case("one"))),
    **{
        f"a score of {text}": SCORED.replace(b'"score":1.0', f'"score":{text}'.encode(), 1) for text in ("NaN", "1e999")
    },
    "an endless duration": SCORED.replace(b'"duration":0.5', b'"duration":-Infinity', 1),
    "a pass rate of NaN": _changed(pass_rates=[{"k": 1, "cases": 1, "any": math.nan, "all": 1}]),
    "endless costs": _changed(comparison={"compared": 1, "unchanged": 0, "cost": {"head": math.inf}}),
    "a drop of NaN": _changed(decision=_with_drop(math.nan)),
    "too many runs": _changed(num_runs=10**4_000),
    "too long": _changed(duration=1e300),
    "another schema": _changed(schema_version="2", tool_version="3.1.0", unheard_of=1),
    "a newer version": _changed(tool_version="1.9.0", weather={"sun": 1}),
    "other rules": _changed(scoring_version=SCORING_VERSION + 1),
    "hostile words stay words": _changed(schema_version="2", tool_version=HOSTILE),
}


def test_reading__what_is_no_report_or_of_another_version_is_not_used() -> None:
    page = ""
    for name, data in UNREAD.items():
        baseline = read_report(data, WHERE)
        assert isinstance(baseline, FetchFailed | Incompatible)
        message = baseline.message
        if isinstance(baseline, FetchFailed):  # Pydantic's words are those of its version.
            message = re.sub(r"\((\w+:)?[^()]*?(, and 1 more mistake)?\)", r"(\1...\2)", message)
        page += f"{name}: {baseline.status}, {message!a} {baseline.hint}\n"
        assert not {"\x1b", "\n"} & {*baseline.message} and len(baseline.message) < 400, "hostile words stay words"
    check("golden_unread_results.txt", page.replace(__version__, "VERSION"))


def _cut_off() -> CaseReport:
    half = case("two", "failed")
    half.runs.append(RunResult(run_id="two#2", run=1, status="not_run"))
    return half


def dead(eval_id: str, *, turns: int = 0) -> CaseReport:
    """A case in which the agent ended with an error, after some answers or none."""
    made = case(eval_id, "failed")
    made.metrics = []
    made.runs[0].error = RunError(kind="agent-import", owner="agent", message="KeyError: 'TOKEN'\nmore")
    made.runs[0].turns = turns
    return made


def _without_key() -> CaseReport:
    """Nothing but a judge looks at it, and the gate was told to do without judges that have no key."""
    return case("two", "not_run").model_copy(update={"reason": Reason(code=WITHOUT_KEY, message="no key")})


PARTIAL = {
    "all of it": results(),
    "everything failed": results(case("one", "failed"), case("two", "failed")),
    "a judge was down": results(case("one"), case("two", "errored")),
    "quarantined": results(case("one", "quarantined")),
    "invalid": results(verdict="invalid", cases=[]),
    "no cases": results(cases=[]),
    "a case was not run": results(case("one"), case("two", "not_run")),
    "a run of a case was not made": results(case("one"), _cut_off()),
    "a case has no key": results(case("one"), _without_key()),
    "no case has a key": results(_without_key()),
    "a dead agent": results(dead("one"), dead("two")),
    "an agent that answered once": results(dead("one"), dead("two", turns=1)),
    "an agent that died once": results(case("one"), dead("two")),
    "no score": results(case("one", "errored", measured(None))),
}


def test_reading__red_results_serve_and_partial_ones_do_not() -> None:
    check("golden_partial_results.txt", "".join(f"{name}: {incomplete(run)}\n" for name, run in PARTIAL.items()))


# What is read of an artifact's zip, and that nothing is that looks like an attack.

SMALL = ArchiveLimits(archive_bytes=100_000, entries=50, results_bytes=10_000, ratio=100)


def _link() -> bytes:
    entry = zipfile.ZipInfo("results.json")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(entry, b"/etc/passwd")
    return data.getvalue()


def _encrypted() -> bytes:
    data = bytearray(zipped({"results.json": b"{}"}))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    return bytes(data)


def _false_size(size: int) -> bytes:
    """Says in both of its headers that the content has another length."""
    data = bytearray(zipped({"results.json": b'{"a": "' + bytes(range(48, 58)) * 20 + b'"}'}))
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        struct.pack_into("<I", data, data.index(signature) + offset, size)
    return bytes(data)


EMPTY = {"results.json": b"{}"}
ARCHIVES = {
    "among all that is uploaded": zipped({"junit.xml": b"<a/>", **EMPTY, "logs/bot/worker-1.log": b"x" * 5_000}),
    "as many entries as allowed": zipped({f"logs/{number}": b"" for number in range(49)} | EMPTY),
    # The directory that upload-artifact keeps with several paths.
    "in a directory": zipped({"agent-eval-results/results.json": b"{}", "coverage/html/index.html": b""}),
    "the topmost of several": zipped({"kept/results.json": b"[1]", **EMPTY}),
    "nothing": b"",
    "a gzip": b"\x1f\x8b\x08 not a zip",
    "cut off": zipped(EMPTY)[:-30],
    "too large": zipped({"a": bytes(range(256)) * 500}, method=zipfile.ZIP_STORED),
    "too many entries": zipped({f"logs/{number}": b"" for number in range(51)}),
    **{f"an entry {name}": zipped({**EMPTY, name: b""}) for name in ("a/../../etc/cron.d/x", "..\\..\\x")},
    **{f"results in {of}": zipped({f"{of}/results.json": b"{}"}) for of in ("..", "/etc", "C:")},
    "no results": zipped({"junit.xml": b"<a/>"}),
    "a directory of that name": zipped({"results.json/": b""}),
    "two directories": zipped({"a/results.json": b"{}", "b/results.json": b"{}"}),
    "twice": zipped({"results.json": b"[1]"}, {"results.json": b"[2]"}),
    "encrypted": _encrypted(),
    "a link": _link(),
    "another compression": zipped(EMPTY, method=zipfile.ZIP_LZMA),
    "large results": zipped({"results.json": bytes(range(256)) * 40}),
    "a bomb": zipped({"results.json": b" " * 9_999}),
    **{f"says that it has {size} bytes": _false_size(size) for size in (3, 900)},
}


def test_archive__what_is_found_and_what_is_refused() -> None:
    page = ""
    for name, data in ARCHIVES.items():
        try:
            page += f"{name}: {read_results(data, SMALL).decode()}\n"
        except UnsafeArchive as error:
            page += f"{name}: refused, {str(error).partition(' (')[0]}\n"  # Python's words are those of its version.
    check("golden_archives.txt", page)


def test_archive__a_run_that_died_early_is_not_taken_for_an_attack() -> None:
    with pytest.raises(NoResults):
        read_results(zipped({"logs/bot/worker-1.log": b"Traceback"}))


def test_archive__a_directory_of_a_million_entries_costs_no_memory() -> None:
    entries = (b"PK\x01\x02" + bytes(42)) * 1_000_000
    with pytest.raises(UnsafeArchive, match="it has more than 5,000 entries"):
        read_results(zipped({"results.json": b"{}"}) + entries)


def test_archive__a_bomb_stays_small_in_memory_whatever_it_declares() -> None:
    """64 MB of blanks that say they are 10: zipfile must stop there."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    blanks = b" " * 1_000_000
    packed = b"".join(compressor.compress(blanks) for _ in range(64)) + compressor.flush()
    name = b"results.json"
    # Version needed, flags, method, time, date are 2 bytes each; then checksum, two sizes, two lengths.
    facts = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(packed), 10, len(name), 0)
    local = b"PK\x03\x04" + facts + name + packed
    central = b"PK\x01\x02" + struct.pack("<H", 20) + facts + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)

    with pytest.raises(UnsafeArchive, match="damaged"):
        read_results(local + central + end)


@given(st.binary(max_size=300), st.integers(min_value=0, max_value=400), st.integers(min_value=0, max_value=255))
def test_archive__whatever_the_bytes_it_is_read_or_refused(noise: bytes, position: int, value: int) -> None:
    data = bytearray(zipped({"results.json": b'{"a": 1}', "x": noise}))
    data[position % len(data)] = value
    for broken in (bytes(data), noise):
        try:
            content = read_results(broken, SMALL)
        except UnsafeArchive:
            continue
        assert content == b'{"a": 1}'


# The recordings of a baseline's artifact: streamed, limited, validated line by line; a refusal is a sentence.

LIMITS = ArchiveLimits(lines_bytes=20_000, ratio=100)


def line(name: str, run: int = 0, **changes: Any) -> bytes:
    return json.dumps(facts(name, run=run, file="evals/a.test.json", **changes)).encode() + b"\n"


def archive(recordings: bytes | None, **others: bytes) -> bytes:
    files = {"results.json": b"{}", "logs/recordings.jsonl.gz": b"another directory's"}
    files |= {} if recordings is None else {"recordings.jsonl.gz": recordings}
    return zipped({**files, **others})


def written(tmp_path: Path, data: bytes, *names: str) -> tuple[list[str], str | None]:
    path = tmp_path / "base" / "baseline-recordings.jsonl.gz"
    note = write_recordings(path, recordings_in(data, LIMITS), {f"evals/a.test.json:{name}" for name in names})
    return [recording.run_id.split(":")[1] for recording in StoredLines(path=path, model=Recording)], note


def test_write_recordings__only_the_valid_lines_of_the_cases(tmp_path: Path) -> None:
    lines = [line("door"), line("lamp"), line("door", 1), line("door", duration=9), line("heater")]
    data = archive(gzip.compress(b"".join(lines)))
    assert written(tmp_path, data, "door", "heater") == (["door#1", "door#2", "heater#1"], None)

    damaged = archive(gzip.compress(b"not json\n" + lines[0] + line("door", 1, extra="x") + lines[1]))
    assert written(tmp_path, damaged, "door") == (["door#1"], "2 recordings of the baseline could not be read.")


def test_write_recordings__there_is_no_file_without_recordings(tmp_path: Path) -> None:
    data = archive(gzip.compress(line("lamp")))
    assert written(tmp_path, data, "door") == ([], None)
    assert written(tmp_path, data) == ([], None)
    assert written(tmp_path, archive(None), "door") == ([], "The baseline's artifact has no recordings.jsonl.gz.")
    assert not list(tmp_path.rglob("*.gz"))


TWICE = zipped(EMPTY, *[{"recordings.jsonl.gz": gzip.compress(line("door"))}] * 2)
REFUSED = {
    "too large": archive(gzip.compress(line("door") * 200)),
    "one endless line": archive(gzip.compress(b" " * 40_000)),
    "cut off": archive(gzip.compress(line("door") * 20)[:-12]),
    "no gzip": archive(b"door"),
    "twice": TWICE,
    "too large in the zip": archive(b"x" * 30_000),
}


def test_write_recordings__a_refused_file_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    said = [f"{name}: {written(tmp_path, data, 'door')}\n" for name, data in REFUSED.items()]
    check("golden_refused_recordings.txt", re.sub(r"it is damaged .*", "it is damaged", "".join(said)))
    assert not list(tmp_path.rglob("*.gz"))


def test_unpack__writes_the_files_of_a_run_and_no_others(tmp_path: Path) -> None:
    packed = gzip.compress(line("door"))
    kept = {"results.json": b"{}", "recordings.jsonl.gz": packed, "base/recordings.jsonl.gz": packed}
    kept["cases.jsonl.gz"] = b"damage is the reader's matter"
    others = {"out/report.html": b"<script>", "out/logs/bot.log": b"", "cases.jsonl.gz": b"not beside the results"}
    unpack(zipped({**{f"out/{name}": content for name, content in kept.items()}, **others}), tmp_path, LIMITS)
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    assert {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in files} == kept

    bomb = archive(gzip.compress(b" " * 40_000))
    with pytest.raises(UnsafeArchive, match=r"its recordings\.jsonl\.gz is too large: uncompressed it is larger than"):
        unpack(bomb, tmp_path / "other", LIMITS)
    assert not (tmp_path / "other").exists()


# When nothing at all can be compared, in words; as long as one case can be, the comparison says the rest.

HEAD = results()


def why_not(head: RunReport, base: RunReport) -> Incompatible | None:
    return incomparable(head, base, pair_up(head.cases, base.cases))


def found(report: RunReport, *before: Baseline) -> Found:
    answer = Found(report=report, provenance=Provenance(commit="a" * 40), message="Found.")
    return replace(answer, steps=(*(step_of("artifact", other) for other in before), step_of("file", answer)))


NO_PLAN = Plan(cases=(), num_runs=1)


def with_head(baseline: Found, head: RunReport) -> Baseline:
    base = pair_with_base(head, baseline, 20, NO_PLAN)
    return baseline if base is None else checked(baseline, head, base.report, base.pairing)


def with_metric(**facts: Any) -> RunReport:
    return results(case("one", "passed", measured(1.0, **facts)))


MOVED = [item.model_copy(update={"case_id": f"moved.test.json:{item.eval_id}"}) for item in HEAD.cases]
OLD, JUDGED = case("one", "passed", measured(1.0, fingerprint="")), case("two", "passed", measured(1.0, judge="a"))
GEMINI = with_metric(judge="gemini-2.5-flash")
SIDES = {
    # One case that can be compared is enough.
    "the same": (HEAD, results()),
    "one of two": (HEAD, results(case("one"), case("two", fingerprint="other"))),
    "one of three": (HEAD, results(case("one"), case("three"))),
    "one without a fingerprint": (HEAD, results(case("one", fingerprint=""), case("three"))),
    "one that failed": (HEAD, results(case("one", "failed"))),
    "an old score and another judge": (HEAD, results(OLD, JUDGED)),
    "one of two metrics": (
        HEAD,
        results(case("one", "passed", measured(1.0), measured(1.0, name="safety_v1", judge="other"))),
    ),
    "one that was not evaluated": (HEAD, results(case("one", "errored"))),
    "a moved file": (HEAD, results(*MOVED)),
    "a head that measured nothing is no fault of the base": (results(dead("one"), dead("two")), results()),
    "no gating criteria on either side": (results(dead("one")), results(dead("one"))),
    "other rules": (HEAD, results(scoring_version=7)),
    "other cases": (HEAD, results(case("other"))),
    "other content": (HEAD, results(case("one", fingerprint="x"), case("two", fingerprint="y"))),
    "another judge": (GEMINI, with_metric(judge="gpt-5", fingerprint="g")),
    "no judge on the base": (GEMINI, with_metric()),
    "stricter": (HEAD, with_metric(fingerprint="stricter")),
    "another metric": (HEAD, with_metric(name="safety_v1")),
}


def test_compatibility__why_nothing_can_be_compared() -> None:
    page = [f"{name}: {(reason := why_not(*sides)) and facts_of(reason)}" for name, sides in SIDES.items()]
    check("golden_incomparable.txt", "\n".join(page) + "\n")


def test_compatibility__what_was_found_becomes_incompatible_once_the_head_is_known_or_stays() -> None:
    before = NoneYet(message="No artifact.")
    compatible = with_head(found(results(case("other")), before), HEAD)
    assert isinstance(compatible, Incompatible)
    assert compatible.steps == (step_of("artifact", before), step_of("file", compatible))
    baseline = found(results())
    assert with_head(baseline, HEAD) is baseline


def test_compatibility__what_an_earlier_source_said_is_the_reason_if_it_is_of_the_same_weight() -> None:
    before = Incompatible(message="Another version.", hint="Wait.")
    compatible = with_head(found(results(case("other")), before), HEAD)
    assert (compatible.status, compatible.message) == ("incompatible", "Another version. Wait.")
    assert [step.status for step in compatible.steps] == ["incompatible", "incompatible"]


def test_with_head__an_agent_that_answered_in_no_case_has_no_baseline_and_the_others_have() -> None:
    def two(*cases: CaseReport) -> RunReport:
        agents = {"bot": "bot", "shop": "shop", "sale": "shop"}
        files = [FileReport(file=f"{name}.json", eval_set_id=name, agent=agent) for name, agent in agents.items()]
        named = [item.model_copy(update={"file": f"{item.eval_id[:-1]}.json"}) for item in cases]
        return results(*named, files=files)

    base = two(dead("bot1"), dead("bot2"), case("shop1"), dead("shop2"), dead("sale1"))
    baseline = found(base)
    paired = pair_with_base(two(*base.cases), baseline, 20, NO_PLAN)

    assert with_head(baseline, two(*base.cases)) is baseline
    assert paired is not None
    assert {item.eval_id: item.status for item in paired.report.cases} == {
        **dict.fromkeys(("bot1", "bot2"), "errored"),
        **{"shop1": "passed", "shop2": "failed", "sale1": "failed"},
    }
    assert base.cases[0].status == "failed"
    by_id = {item.eval_id: (item.change, said(item.note)) for item in compare(two(*base.cases), paired.report).cases}
    assert by_id["bot1"] == ("unjudged", "could not be evaluated on the base")
    assert by_id["shop2"][0] == "still_failing"
