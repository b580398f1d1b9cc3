"""Work in a fork beside the process, in processes of one thread: pytest's workers have several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from gate_runs import patience, wait_until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="forks are used on Linux with two cores"
)
TESTS = Path(__file__).parent.parent


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Runs code in an interpreter of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(TESTS / "unit")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(code: str, *arguments: object) -> list[str]:
    out, errors = start(code, *arguments).communicate(timeout=60 * patience())
    assert errors == ""
    return out.splitlines()


def test_beside__done_failed_killed_or_not_started(tmp_path: Path) -> None:
    lines = output_of(
        """
        import os, signal, sys, threading
        from pathlib import Path
        from agent_eval.pipeline._beside import beside

        file = Path(sys.argv[1])

        def fails():
            raise ValueError("must not be printed")

        def dies():
            os.kill(os.getpid(), signal.SIGKILL)

        def signalled():  # The parent decides what these mean.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                os.kill(os.getpid(), number)
            file.write_text(str(os.getpid()))

        for work in (signalled, fails, dies):
            with beside(work) as is_done:
                print(work.__name__, is_done(), is_done(), flush=True)
        print("in another process", int(file.read_text()) != os.getpid())

        with beside(lambda: file.write_text("late")) as is_done:
            pass  # It has ended when the context has.
        print(file.read_text())
        try:
            with beside(lambda: file.write_text("later")):
                raise KeyError
        except KeyError:
            print(file.read_text())
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            print("no children")

        with beside(fails, if_worth=False) as is_done:
            print("not worth it", is_done)
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        with beside(fails) as is_done:
            print("a thread", is_done)
        end.set()
        thread.join()
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        with beside(fails) as is_done:
            print("one core", is_done)
        """,
        tmp_path / "file",
    )
    assert lines == [
        "signalled True True",
        "fails False False",
        "dies False False",
        "in another process True",
        "late",
        "later",
        "no children",
        "not worth it None",
        "a thread None",
        "one core None",
    ]


def test_beside__ends_with_its_parent() -> None:
    parent = start(
        """
        import os, time
        from agent_eval.pipeline._beside import beside

        def work():
            print(os.getpid(), flush=True)
            time.sleep(600)

        with beside(work) as is_done:
            is_done()
        """
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGTERM)
    parent.communicate(timeout=60 * patience())
    assert parent.returncode == -signal.SIGTERM
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def test_loop_threads__idle_threads_end_and_busy_ones_stay() -> None:
    lines = output_of(
        """
        import asyncio, threading, time
        from agent_eval.pipeline._beside import LoopThreads, beside

        def try_to_fork(what):
            with beside(lambda: None) as is_done:
                print(what, is_done is not None)

        async def run():
            threads = LoopThreads()
            await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(2)))
            try_to_fork("idle threads")
            threads.end_idle()
            try_to_fork("ended")
            end = threading.Event()
            busy = asyncio.create_task(asyncio.to_thread(end.wait))
            await asyncio.sleep(0.05)
            threads.end_idle()
            try_to_fork("busy thread")
            end.set()
            print("result", await busy, await asyncio.to_thread(str, "again"))

        asyncio.run(run())
        """
    )
    assert lines == [
        "idle threads False",
        "ended True",
        "busy thread False",
        "result True again",
    ]


def test_write__a_big_report_beside_its_page_and_one_after_the_other(tmp_path: Path) -> None:
    lines = output_of(
        """
        import os, sys
        from pathlib import Path
        from agent_eval.pipeline import RunContext
        from agent_eval.pipeline.output import write
        from agent_eval.settings import Settings
        from report_samples import SAMPLES

        root = Path(sys.argv[1])
        report = SAMPLES["failed"]()
        report.cases = [
            case.model_copy(update={"case_id": f"{case.case_id} {number}", "eval_id": f"{case.eval_id} {number}"})
            for number in range(1 + 2_000 // len(report.cases))
            for case in report.cases
        ]
        forks = []
        os.register_at_fork(after_in_parent=lambda: forks.append(1))

        def written(folder, before=lambda output: None):
            output = root / folder
            output.mkdir()
            before(output)
            logged = []
            forks.clear()
            try:
                files = list(write(Settings(root=root, output_dir=Path(folder)),
                                   RunContext(environ={}, log=logged.append), report).files)
            except OSError as error:
                files = f"{type(error).__name__}: {error}"
            left = sorted(path.name for path in output.glob(".*.*.*"))
            print(f"{len(forks)} {files} {logged} {left}".replace(folder, "OUTPUT"))

        def no_page(output):
            (output / "report.html").mkdir()

        def no_junit(output):
            (output / "junit.xml").mkdir()

        cores = os.sched_getaffinity(0)
        for name in ("with-fork", "one-by-one"):
            written(name)
            written(f"{name}-page", no_page)
            written(f"{name}-junit", no_junit)
            os.sched_setaffinity(0, {min(cores)})
        """,
        tmp_path,
    )
    assert [line[0] for line in lines] == ["1", "1", "1", "0", "0", "0"]
    assert [line[1:] for line in lines[:3]] == [line[1:] for line in lines[3:]]
    assert lines[0][1:] == " ['results-file', 'report-file', 'junit-file', 'summary-file'] [] []"
    assert "report.html could not be written: OSError: " in lines[1]
    assert lines[2].startswith("1 OSError: [Errno 22] It is a directory, not a regular file")
    for folder in ("", "-page"):
        assert contents(tmp_path / f"with-fork{folder}") == contents(tmp_path / f"one-by-one{folder}")
    assert b"OUTPUT/report.html" in contents(tmp_path / "with-fork")["summary.md"]
    assert b"OUTPUT/report.html" not in contents(tmp_path / "with-fork-page")["summary.md"]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of an output directory, with the directory's own name taken out."""
    return {
        path.name: path.read_bytes().replace(folder.name.encode(), b"OUTPUT")
        for path in folder.iterdir()
        if path.is_file()
    }
