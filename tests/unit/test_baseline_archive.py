"""What is read of an artifact's zip, and that nothing is that looks like an attack."""

from __future__ import annotations

import io
import itertools
import stat
import struct
import zipfile
import zlib

import pytest
from baseline_samples import zipped
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.baseline.archive import ArchiveLimits, NoResults, UnsafeArchive, read_results

SMALL = ArchiveLimits(archive_bytes=100_000, entries=50, results_bytes=10_000, ratio=100)
DOTDOT = "an entry is outside the archive"


@pytest.mark.parametrize(
    "files",
    [
        {"junit.xml": b"<a/>", "results.json": b"{}", "logs/bot/worker-1.log": b"x" * 5_000},
        {**{f"logs/{number}": b"" for number in range(49)}, "results.json": b"{}"},
        # The directory that upload-artifact keeps with several paths.
        {"agent-eval-results/results.json": b"{}", "coverage/html/index.html": b""},
        {"kept/results.json": b"[1]", "results.json": b"{}"},
    ],
    ids=["among all that is uploaded", "as many entries as allowed", "in a directory", "the topmost of several"],
)
def test_archive__the_results_are_found(files: dict[str, bytes]) -> None:
    assert read_results(zipped(files), SMALL) == b"{}"


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


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "it is damaged or not a zip archive"),
        (b"\x1f\x8b\x08 not a zip", "it is damaged or not a zip archive"),
        (zipped({"results.json": b"{}"})[:-30], "it is damaged or not a zip archive"),
        (zipped({"a": bytes(range(256)) * 500}, method=zipfile.ZIP_STORED), "it is larger than 100,000 bytes"),
        (zipped({f"logs/{number}": b"" for number in range(51)}), "it has more than 50 entries"),
        (zipped({"../results.json": b"{}"}), DOTDOT),
        (zipped({"results.json": b"{}", "a/../../etc/cron.d/x": b""}), DOTDOT),
        (zipped({"results.json": b"{}", "..\\..\\x": b""}), DOTDOT),
        (zipped({"/etc/results.json": b"{}"}), "an entry has an absolute path"),
        (zipped({"C:/results.json": b"{}"}), "an entry has an absolute path"),
        (zipped({"junit.xml": b"<a/>"}), "it has no results.json"),
        (zipped({"results.json/": b""}), "it has no results.json"),
        (zipped({"a/results.json": b"{}", "b/results.json": b"{}"}), "it has 2 files named results.json"),
        (zipped({"results.json": b"[1]"}, {"results.json": b"[2]"}), "it has 2 files named results.json"),
        (_encrypted(), "its results.json is encrypted"),
        (_link(), "its results.json is not a regular file"),
        (zipped({"results.json": b"{}"}, method=zipfile.ZIP_LZMA), "an unsupported compression method"),
        (zipped({"results.json": bytes(range(256)) * 40}), "its results.json is larger than 10,000 bytes"),
        (zipped({"results.json": b" " * 9_999}), "like a zip bomb"),
        (_false_size(3), "it is damaged or not a zip archive"),
        (_false_size(900), "its results.json is shorter than declared"),
    ],
    ids=itertools.count(),  # A zip holds the time at which it was made: no name that all of xdist's workers agree on.
)
def test_archive__what_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(UnsafeArchive, match=reason):
        read_results(data, SMALL)


def test_archive__a_run_that_died_early_is_not_taken_for_an_attack() -> None:
    with pytest.raises(NoResults):
        read_results(zipped({"logs/bot/worker-1.log": b"Traceback"}))


def test_archive__a_directory_of_a_million_entries_costs_no_memory() -> None:
    entry = b"PK\x01\x02" + bytes(42)
    data = zipped({"results.json": b"{}"}) + entry * 1_000_000

    with pytest.raises(UnsafeArchive, match="it has more than 5,000 entries"):
        read_results(data)


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
