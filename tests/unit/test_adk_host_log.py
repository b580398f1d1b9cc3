"""What is kept of a host's output."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.agents.host._log import HostLog
from agent_eval.core.masking import Masker

SECRET = "hunter2-and-more"


def fed(path: Path, chunks: list[bytes], *, limit: int = 1_000_000, secrets: tuple[str, ...] = (SECRET,)) -> HostLog:
    log = HostLog(path, masker=Masker(secrets), limit=limit)
    for chunk in chunks:
        log.feed(chunk)
    log.close()
    log.close()
    return log


LONGER = "hunter2-and-more-EU-0123456789abcdef"


@given(st.lists(st.integers(0, 150), max_size=6), st.integers(0, 3))
@example([102], 0)  # within a secret that begins with another
def test_host_log__a_secret_is_masked_wherever_the_chunks_end(cuts: list[int], before: int) -> None:
    """Also one that begins with another, or that ends in one."""
    data = b"x" * before + f"a {SECRET} b\n{SECRET}{SECRET}\n{LONGER}, and all...\n{SECRET} {LONGER}\n".encode()
    ends = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    chunks = [data[start:end] for start, end in itertools.pairwise(ends)]
    with tempfile.TemporaryDirectory() as directory:
        log = fed(Path(directory) / "log", chunks, secrets=(SECRET, LONGER, "abcdef, and all"))
        shown = "x" * before + "a *** b\n******\n***...\n*** ***\n"
        assert log.path.read_text() == shown
        assert log.tail() == shown.rstrip("\n")


def test_host_log__the_first_and_the_last_half_are_kept(tmp_path: Path) -> None:
    lines = [f"line {number:06}\n".encode() for number in range(100_000)]
    log = fed(tmp_path / "log", lines, limit=10_000)
    content = log.path.read_bytes()
    head, note, rest = content.partition(b"\n[... ")
    assert note
    assert content.startswith(b"line 000000\n")
    assert content.endswith(b"line 099999\n")
    assert len(head) == 5_000
    missing = int(rest.split(b" bytes")[0].replace(b",", b""))
    assert len(head) + missing + len(rest.partition(b"]\n")[2]) == 100_000 * 12
    assert log.tail().endswith("line 099999")
    assert len(log.tail()) <= 4_000
    assert log.tail().startswith("line 0")


def test_host_log__the_tail_is_known_while_the_process_runs(tmp_path: Path) -> None:
    log = HostLog(tmp_path / "log", masker=Masker([SECRET]), limit=1_000_000)
    log.feed(b"one\ntwo\nthr")
    assert log.tail() == "one\ntwo"
    log.feed(b"ee\n")
    assert log.tail() == "one\ntwo\nthree"
    log.close()
    plain = HostLog(tmp_path / "plain", masker=Masker(), limit=1_000_000)
    plain.feed(b"a\x00\xff\x1b[31mb")
    assert plain.tail() == "a\ufffd\ufffd\ufffd[31mb", "without a secret nothing is held back"
    plain.close()
    assert not fed(tmp_path / "none", []).path.exists()


def test_host_log__that_cannot_be_written_keeps_its_end_in_memory_and_never_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (Path("/dev/full"), tmp_path / "file" / "log"):
        assert fed(path, [b"one\n", b"two\n"]).tail() == "one\ntwo"


@pytest.mark.parametrize("limit", [10, 12_000, 1_000_000])
def test_the_tail__is_the_same_before_and_after_it_is_closed(tmp_path: Path, limit: int) -> None:
    log = HostLog(tmp_path / "log", masker=Masker(), limit=limit)
    for number in range(1_000):
        log.feed(f"line {number}\n".encode())
    before = log.tail()
    log.close()
    assert log.tail() == before
    assert before.endswith("line 999")
