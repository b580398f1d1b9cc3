"""Why something has its status: a code with data. `report/phrases` says it in English."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, TypedDict, Unpack

from pydantic import BeforeValidator, Field

from agent_eval_scoring.core.wire import ReportModel

NoMoreRuns = Literal["limit", "time", "cost", "outage", "recorded", "thresholds", "decided"]
"""Why a case can't run again: the limit of extra runs, of the run's time or of what models may cost, a service that
failed during them, recorded answers, which never vary, or a gate that decides by thresholds only."""

NO_REASON = "no reason was recorded"
_EMPTY: tuple[Any, ...] = (None, "", [], {})


class Numbers(TypedDict):
    """A case's runs on both sides: the numbers behind a decision."""

    case: str
    """Its id."""
    metric: str
    """`pass` stands for the case's status."""
    head: float | None
    """Mean score, or the share of passed runs; None without a run."""
    head_runs: int
    base: float | None
    base_runs: int
    again: bool
    """Whether the head's runs are those that were made to confirm a regression."""


class Facts(TypedDict, total=False):
    """The data of reasons. A key means the same for every code; a code has the keys that its phrase takes."""

    phrase: str
    """The phrase that says it, where the code is another's: an error's kind, or a cause that several reasons share."""
    kind: str
    """Of an error, or the code of a cause."""
    message: str
    """Text from outside, e.g. of an error."""
    because: Reason | None
    """The reason behind this one."""
    base: str
    """The base branch's name, where it is not the one that the report names."""
    cases: list[str]
    """Ids."""
    count: int
    """Number of the cases, runs or errors that it is about."""
    total: int
    """Number of all of them."""
    runs: int
    passed: int
    """Runs that passed."""
    numbers: list[Numbers]
    since: list[str]
    """The commits at which its cases began to fail on the base branch; "" where unknown."""
    before: list[str]
    """Ids of cases that ran before."""
    causes: dict[str, int]
    """Number of cases by code."""
    files: list[str]
    file: str
    line: int
    """1-based."""
    metric: str
    metrics: list[str]
    models: list[str]
    turn: int
    """1-based; 0 for the whole conversation."""
    expected: int
    """Number of expected turns, calls, items or words."""
    subject: str
    """What a judge was asked about, e.g. a rubric's id."""
    span: list[float]
    """The lowest and the highest score that are possible."""
    rate: float
    """`min-pass-rate`, 0 to 1."""
    decided: dict[str, list[float]]
    """Metrics that failed by their own decision, each with its score and its threshold."""
    drop: float
    """How much worse, in the score's own unit; a share of the runs for `pass`."""
    rises: bool
    """Whether the scores got higher, where lower is better."""
    remedy: NoMoreRuns | Literal["tools", "again"]
    """What keeps a case from running again; or what to do about a part: record tools, or start it again."""
    base_runs: int
    """Runs of the base branch that would decide."""
    more: int
    """Runs that were made in addition."""
    missing: list[int]
    """Parts of a run without results, from 1."""
    part: int
    """Number of a part, from 1."""
    result: str
    """What it would be otherwise: a case's status without its quarantine, the verdict without `gate: advisory`."""
    until: str
    """The last day of a quarantine, as YYYY-MM-DD."""
    owner: str
    """Who has quarantined a case."""
    note: str
    """Why they have."""
    records: bool
    """Whether the run records a baseline instead of being compared with one."""
    is_fork: bool
    quarantined: int
    informing: int
    """Cases that never fail the gate."""
    parts: list[Reason]
    """Reasons that one phrase joins."""
    beside: list[Reason]
    """Clauses of a headline, each in its own words."""
    aside: list[Reason]
    """Clauses of a headline about what does not block."""
    agent: str
    """Path."""
    crashed: int
    """Cases in which the agent raised an error."""
    is_same: bool
    """Whether all is as on the base branch."""
    is_joint: bool
    """Whether cases are significant only together."""
    is_explained: bool
    """Whether failing cases share a cause."""
    shared: list[int]
    """0-based indexes of the report's causes."""
    places: list[Any]
    """Lines of files: each a `Place` of results.json."""
    is_whole: bool
    """Whether whole files were removed, or whether all that failed ran live."""
    one_of: bool
    """Whether only one of the places has to matter."""
    more_errors: int
    """Errors beside the first."""
    needs_accepting: bool
    """Whether a maintainer may accept it instead."""
    call: str
    """A call as code, or the tool and the path of an argument."""
    at: int
    """1-based place, of calls among the expected ones; 0 if there is only one."""
    was: int
    """1-based place among the calls that were made."""
    wanted: str
    """What is expected, as short code."""
    got: str
    """What there is instead."""
    kinds: list[str]
    """JSON types of both."""
    names: dict[str, int]
    """How often each tool or word is there."""
    others: list[str]
    """What is there in addition."""
    blank: bool
    """Whether a text has no characters but blanks."""
    recall: float
    precision: float
    votes: str
    """Of judges, e.g. `3:2`."""
    here: float
    """A number of this run, and the same one of the base branch."""
    there: float
    side: Literal["here", "base", "both"]
    """Which side has no result."""
    calls: int
    """Of models."""
    cost: float
    """US dollars; 0 if it is unknown."""
    days: int
    """Age of a recording."""
    conclusion: str
    """GitHub's, of a workflow run."""


class Reason(ReportModel):
    """The reason for a status: a code with data for programs, and a message for people."""

    code: str
    message: str = ""
    """In English. "" until `report/phrases` has put code and data into words, which happens when the report is written;
    text from outside is its own message."""
    data: dict[str, Any] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """The facts, by name."""

    @classmethod
    def of(cls, code: str, **data: Unpack[Facts]) -> Self:
        """A reason without its text. Facts that are None or empty are left out."""
        return cls(code=code, data={name: value for name, value in data.items() if value not in _EMPTY})


Note = Annotated[
    Reason, BeforeValidator(lambda value: {"code": "note", "message": value} if isinstance(value, str) else value)
]
"""A remark. Older files have only its text."""


def looks_alike(line: Reason) -> bool:
    """Whether a reader of two calls would overlook in what this line says that they differ."""
    # A report is read from a file: its data can be anything.
    because = line.data.get("because") if line.code == "call-differs" else line
    code: Any = ""
    data: Any = None
    if isinstance(because, Reason):
        code, data = because.code, because.data
    elif isinstance(because, dict):
        code, data = because.get("code"), because.get("data")
    if code in ("capitals-differ", "whitespace-differs", "characters-look-alike"):
        return True
    if code != "values-differ" or not isinstance(data, dict) or not data.get("kinds"):
        return False
    wanted, got = (str(data.get(side, "")) for side in ("wanted", "got"))
    return wanted.strip('"') == got.strip('"')
