"""What is compared, scenario by scenario. Each checks that its sides did the work before it believes a time."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import workload
from environments import ADK, ADK_VERSION, PEER, Environments, find_python, uv
from measuring import Measurement, Spread, Void, measure

Side = Callable[[], Measurement]
EIGHT = "agent-eval --concurrency 8"
"""The side of the gate that runs eight cases at a time from beginning to end."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a scenario should reach."""

    text: str
    reached: str
    met: bool


@dataclass(kw_only=True)
class Result:
    """A scenario's measurements, a list for each side; the gate's side is first."""

    name: str
    title: str
    sides: dict[str, list[Measurement]]
    targets: list[Target] = field(default_factory=list)

    def seconds(self, side: str) -> Spread:
        """Wall seconds of a side."""
        return Spread.of([measurement.seconds for measurement in self.sides[side]])

    def peak_mb(self, side: str) -> float:
        """Peak megabytes of a side, the worst of its runs."""
        return max(measurement.peak_mb for measurement in self.sides[side])

    def demand_ratio(self, gate: str, peers: list[str], least: float, *, against: str) -> None:
        """Adds the target that the gate is `least` times faster than the fastest of the peers.

        It counts what each round says, and then the middle of the rounds: who else uses the machine meets both sides
        of a round alike, and the rounds differently.
        """
        rounds = zip(self.sides[gate], *(self.sides[peer] for peer in peers), strict=True)
        ratio = statistics.median(min(peer.seconds for peer in peers) / ours.seconds for ours, *peers in rounds)
        text = f"{gate}: at least {least:g} times faster than {against}"
        self.targets.append(Target(text=text, reached=f"{ratio:.1f} times", met=ratio >= least))

    def demand_seconds(self, side: str, most: float) -> None:
        """Adds the target that a side's median takes `most` seconds."""
        seconds = self.seconds(side).median
        self.targets.append(Target(text=f"{side}: at most {most:g} s", reached=f"{seconds:.2f} s", met=seconds <= most))

    def demand_memory(self, side: str, most: float) -> None:
        """Adds the target that a side never holds more than `most` megabytes."""
        peak = self.peak_mb(side)
        self.targets.append(Target(text=f"{side}: at most {most:g} MB", reached=f"{peak:.0f} MB", met=peak <= most))


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What every scenario needs."""

    environments: Environments
    directory: Path
    repeats: int
    quick: bool
    limit: int = 10
    """Requests in flight that the provider of `limited` allows."""

    def alternate(self, sides: dict[str, Side], *, repeats: int, warm: bool = True) -> dict[str, list[Measurement]]:
        """Measures the sides in turn, the other way round each time, so that drift of the machine meets both.

        Args:
            sides: By name.
            repeats: Measurements of each side.
            warm: Run each side once before, unmeasured: bytecode is compiled, files are in the page cache.
        """
        if warm:
            for side in sides.values():
                side()
        measured: dict[str, list[Measurement]] = {name: [] for name in sides}
        for turn in range(repeats):
            for name in list(sides) if turn % 2 == 0 else reversed(list(sides)):
                measured[name].append(sides[name]())
                print(f"  {name}: {measured[name][-1].seconds:.2f} s", flush=True)
        return measured


def check_gate(output: Path, *, passed: int, failed: int = 0, python: str | None = None) -> None:
    """Makes sure that the gate judged what it should, on the Python and the ADK that `adk eval` has.

    Raises:
        Void: Its results say something else.
    """
    results = json.loads((output / "results.json").read_text(encoding="utf-8"))
    used = (results["provenance"].get("python"), results["provenance"].get("adk"))
    if python is not None and used != (python, ADK_VERSION):
        raise Void(f"the agent ran on Python {used[0]} and google-adk {used[1]}, not on {python} and {ADK_VERSION}")
    totals = results["totals"]
    if (totals["cases"], totals["passed"], totals["failed"]) != (passed + failed, passed, failed):
        raise Void(f"{passed} passed and {failed} failed expected, the gate says {totals}")


def check_peer(measurement: Measurement, *, passed: int) -> None:
    """Makes sure that `adk eval` passed what it should.

    Raises:
        Void: Its summary says something else.
    """
    counts = re.findall(r"Tests (passed|failed): (\d+)", measurement.output)
    if counts != [("passed", str(passed)), ("failed", "0")]:
        raise Void(f"{passed} passed expected, adk eval says {counts}\n{measurement.output[-3000:]}")


def _weather_sides(
    bench: Bench, server: workload.ModelServer, cases: int, name: str, *, throttled: list[float] | None = None
) -> dict[str, Side]:
    """The gate at its defaults, `adk eval`, and for several cases the gate at fixed concurrencies.

    Args:
        bench: Where to run.
        server: The model.
        cases: How many.
        name: Of the workspaces.
        throttled: Gets the share of calls that the server refused with 429 in each run of the gate.
    """
    variables = bench.environments.environment(GOOGLE_GEMINI_BASE_URL=server.url)
    ours = workload.weather_workspace(bench.directory / f"{name}-gate", cases=cases, requirements=ADK)
    theirs = workload.weather_workspace(bench.directory / f"{name}-peer", cases=cases)

    def gate(*options: str) -> Measurement:
        output = ours / "out"
        shutil.rmtree(output, ignore_errors=True)
        server.reset()
        command: list[str | Path] = [bench.environments.gate, "run", "weather.test.json", "--agent", "gemini_weather"]
        command += ["--cache-dir", bench.environments.agents, "--output-dir", "out", *options]
        done = measure(command, cwd=ours, environment=variables)
        check_gate(output, passed=cases, python=bench.environments.python_version)
        server.check(cases, throttled=throttled is not None)
        if throttled is not None:
            stats = server.stats()
            throttled.append(stats["statuses"].get("429", 0) / stats["requests"])
        return done

    def peer() -> Measurement:
        shutil.rmtree(theirs / "gemini_weather" / ".adk", ignore_errors=True)
        server.reset()
        command: list[str | Path] = [bench.environments.peer, "eval", "gemini_weather", "weather.test.json"]
        done = measure([*command, "--config_file_path", "test_config.json"], cwd=theirs, environment=variables)
        check_peer(done, passed=cases)
        server.check(cases)
        return done

    sides: dict[str, Side] = {"agent-eval": gate, "adk eval": peer}
    if cases > 1:
        sides[EIGHT] = lambda: gate("--concurrency", "8")
        sides["agent-eval --concurrency 4"] = lambda: gate("--concurrency", "4")
    return sides


def one_case(bench: Bench) -> Result:
    """One case, a model of 200 ms: what a developer waits for, and mostly the cost of starting."""
    with workload.model_server(0.2) as server:
        sides = bench.alternate(_weather_sides(bench, server, 1, "one"), repeats=bench.repeats)
    result = Result(name="one", title="1 case, model of 200 ms", sides=sides)
    result.demand_ratio("agent-eval", ["adk eval"], 2.5, against="adk eval")
    return result


def fifty_cases(bench: Bench) -> Result:
    """Fifty cases, a model of 200 ms: where waiting for the model outweighs starting.

    Waiting alone takes 7 rounds of two calls at 8 cases at a time, 2.8 s. The gate's default begins with 8 and grows
    as long as the model keeps its pace. `adk eval` has no such setting: it runs 4 at a time, 5.2 s of waiting.
    """
    with workload.model_server(0.2) as server:
        sides = bench.alternate(_weather_sides(bench, server, 50, "fifty"), repeats=bench.repeats)
    result = Result(name="fifty", title="50 cases, model of 200 ms", sides=sides)
    result.demand_ratio("agent-eval", ["adk eval"], 4, against="adk eval")
    result.demand_ratio(EIGHT, ["adk eval"], 2, against="adk eval")
    return result


def limited(bench: Bench) -> Result:
    """Two hundred cases and a model that answers 429 beyond some requests in flight: what finding the limit costs."""
    cases = 50 if bench.quick else 200
    shares: list[float] = []
    script = Path(__file__).with_name("limited_server.py")
    with workload.model_server(0.2, "--limit", str(bench.limit), script=script) as server:
        gates = _weather_sides(bench, server, cases, "limited", throttled=shares)
        auto = gates["agent-eval"]
        measured: list[float] = []

        def gate() -> Measurement:
            done = auto()
            measured.append(shares[-1])
            return done

        sides = bench.alternate({"agent-eval": gate, EIGHT: gates[EIGHT]}, repeats=min(3, bench.repeats))
    result = Result(
        name="limited", title=f"{cases} cases, model of 200 ms, {bench.limit} requests in flight", sides=sides
    )
    worst = max(measured)
    text = "agent-eval: at most 5% of the calls are refused with 429"
    result.targets.append(Target(text=text, reached=f"{worst:.1%}", met=worst <= 0.05))
    result.demand_ratio("agent-eval", [EIGHT], 0.9, against=EIGHT)
    return result


_SAMPLES, _DECIDED = 5, 3
"""Votes on each answer, and how many of them decide it when all agree."""


def judged_cases(bench: Bench) -> Result:
    """Fifty cases with three criteria, one of them judged with five votes: where waiting for the judge outweighs all.

    `adk eval` asks its judge for one vote after another, and for all five.
    """
    cases = 10 if bench.quick else 50
    criterion = {"threshold": 0.8, "judge_model_options": {"num_samples": _SAMPLES}}
    more = {"final_response_match_v2": criterion}
    ours = workload.weather_workspace(bench.directory / "judged-gate", cases=cases, requirements=ADK, more=more)
    theirs = workload.weather_workspace(bench.directory / "judged-peer", cases=cases, more=more)
    with workload.model_server(0.2, script=Path(__file__).with_name("judged_server.py")) as server:
        variables = bench.environments.environment(GOOGLE_GEMINI_BASE_URL=server.url)

        def gate(*options: str) -> Measurement:
            shutil.rmtree(ours / "out", ignore_errors=True)
            server.reset()
            command: list[str | Path] = [bench.environments.gate, "run", "weather.test.json", "--agent"]
            command += ["gemini_weather", "--cache-dir", bench.environments.agents, "--output-dir", "out", *options]
            done = measure(command, cwd=ours, environment=variables)
            check_gate(ours / "out", passed=cases, python=bench.environments.python_version)
            server.check(cases, judged=cases * _DECIDED)
            return done

        def peer() -> Measurement:
            shutil.rmtree(theirs / "gemini_weather" / ".adk", ignore_errors=True)
            server.reset()
            command: list[str | Path] = [bench.environments.peer, "eval", "gemini_weather", "weather.test.json"]
            done = measure([*command, "--config_file_path", "test_config.json"], cwd=theirs, environment=variables)
            check_peer(done, passed=cases)
            server.check(cases, judged=cases * _SAMPLES)
            return done

        sides = bench.alternate(
            {
                "agent-eval": gate,
                "adk eval": peer,
                EIGHT: lambda: gate("--concurrency", "8"),
            },
            repeats=min(3, bench.repeats),
        )
    result = Result(name="judged", title=f"{cases} cases, one of 3 criteria judged, models of 200 ms", sides=sides)
    result.demand_ratio("agent-eval", ["adk eval"], 8, against="adk eval")
    result.demand_ratio(EIGHT, ["adk eval"], 6, against="adk eval")
    calls = f"{cases * _DECIDED} of {cases * _SAMPLES}"
    result.targets.append(Target(text="agent-eval: at most 60% of adk eval's judge calls", reached=calls, met=True))
    return result


_COLD_BYTES = 4_000_000_000
"""More than the largest side of a cold job writes."""


def cold_job(bench: Bench) -> Result:
    """A job on a fresh machine: nothing installed or cached but the package index, up to the verdict on one case."""
    # In memory if there is room for it: what other programs write to the disk then costs no side anything.
    memory = Path("/dev/shm")
    in_memory = memory.is_dir() and shutil.disk_usage(memory).free > _COLD_BYTES
    place = tempfile.TemporaryDirectory(dir=memory if in_memory else bench.directory, ignore_cleanup_errors=True)
    Path(place.name).chmod(0o755)  # The agent has another user.
    checkout, home = Path(place.name) / "checkout", Path(place.name) / "home"

    def fresh(requirements: str | None = None) -> Path:
        shutil.rmtree(checkout, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        return workload.weather_workspace(checkout, cases=1, requirements=requirements)

    make = f"{uv()} venv -q -p {find_python()} env"
    index_files = bench.directory.parent / "index"
    with place, workload.model_server(0.2) as server, workload.near_index(index_files) as index:

        def variables() -> dict[str, str]:
            own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "UV_CACHE_DIR": str(home / "uv-cache")}
            own |= {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull}
            return bench.environments.environment(GOOGLE_GEMINI_BASE_URL=server.url) | own

        def shell(script: str, values: dict[str, str], cwd: Path) -> Measurement:
            server.reset()
            os.sync()  # What the side before wrote must not be paid by this one.
            done = measure(["sh", "-ec", script], cwd=cwd, environment=values)
            server.check(1)
            return done

        def gate() -> Measurement:
            cwd = fresh(ADK)
            install = f"{make} && {uv()} pip install -q -p env {bench.environments.wheel}"
            options = "--agent gemini_weather --cache-dir cache --output-dir out"
            run = f"env/bin/agent-eval run weather.test.json {options}"
            done = shell(f"{install} && {run}", variables(), cwd)
            check_gate(cwd / "out", passed=1)
            return done

        def peer(install: str) -> Measurement:
            cwd = fresh()
            run = "env/bin/adk eval gemini_weather weather.test.json --config_file_path test_config.json"
            done = shell(f"{install} && {run}", variables(), cwd)
            check_peer(done, passed=1)
            return done

        install = f"{make} && {uv()} pip install -q -p env '{PEER}'"
        sides: dict[str, Side] = {
            "agent-eval, uv": gate,
            "adk eval, uv": lambda: peer(install),
            "adk eval, uv --compile-bytecode": lambda: peer(f"{install} --compile-bytecode"),
            "adk eval, pip": lambda: peer(f"{find_python()} -m venv env && env/bin/pip install -q '{PEER}'"),
        }
        # The unmeasured round fills the index.
        measured = bench.alternate(sides, repeats=1 if bench.quick else bench.repeats)
    result = Result(name="cold", title="cold job: install everything, 1 case", sides=measured)
    uv_sides = ["adk eval, uv", "adk eval, uv --compile-bytecode"]
    result.demand_ratio("agent-eval, uv", uv_sides, 2, against="adk eval installed with uv")
    result.demand_ratio("agent-eval, uv", ["adk eval, pip"], 8, against="adk eval installed with pip")
    return result


def recorded(bench: Bench) -> Result:
    """Ten thousand recorded cases of two turns: what the gate itself costs, without agent and model."""
    files = 10 if bench.quick else 100
    cwd = workload.recorded_workspace(bench.directory / "recorded", files=files, cases_per_file=100)
    failed = files * 100 // workload.WRONG_EVERY
    variables = bench.environments.environment()

    def gate(agent: str, output: str) -> Measurement:
        shutil.rmtree(cwd / output, ignore_errors=True)
        command: list[str | Path] = [
            bench.environments.gate,
            "run",
            "evals",
            "--agent",
            f"recorded:{agent}",
            "--output-dir",
            output,
        ]
        done = measure(command, cwd=cwd, environment=variables, exit_codes=(1,))
        check_gate(cwd / output, passed=files * 100 - failed, failed=failed)
        return done

    gate("recording/actual.json", "first")
    sides: dict[str, Side] = {
        "agent-eval, an eval set": lambda: gate("recording/actual.json", "out"),
        "agent-eval, its own recordings": lambda: gate("first", "out"),
    }
    measured = bench.alternate(sides, repeats=min(3, bench.repeats), warm=False)
    result = Result(name="recorded", title=f"{files * 100:,} recorded cases", sides=measured)
    for side in measured:
        result.demand_seconds(side, 20)
        result.demand_memory(side, 400)
    shutil.rmtree(cwd, ignore_errors=True)
    return result


def help_text(bench: Bench) -> Result:
    """`--help`: what importing the command line costs."""
    variables = bench.environments.environment()
    sides = {
        "agent-eval": lambda: measure([bench.environments.gate, "--help"], cwd=bench.directory, environment=variables)
    }
    result = Result(name="help", title="--help", sides=bench.alternate(sides, repeats=max(5, bench.repeats)))
    result.demand_seconds("agent-eval", 0.35)
    return result


def validate(bench: Bench) -> Result:
    """A thousand files of ten cases, read and checked."""
    files = 100 if bench.quick else 1000
    cwd = workload.recorded_workspace(bench.directory / "validate", files=files, cases_per_file=10)
    variables = bench.environments.environment()

    def gate() -> Measurement:
        done = measure([bench.environments.gate, "validate", "evals"], cwd=cwd, environment=variables)
        if f"{files:,} files" not in done.output and f"{files} files" not in done.output:
            raise Void(f"{files} files expected, validate says {done.output[-500:]}")
        return done

    result = Result(
        name="validate",
        title=f"validate, {files:,} files of 10 cases",
        sides=bench.alternate({"agent-eval": gate}, repeats=bench.repeats),
    )
    result.demand_seconds("agent-eval", 4)
    shutil.rmtree(cwd, ignore_errors=True)
    return result


SCENARIOS: dict[str, Callable[[Bench], Result]] = {
    "one": one_case,
    "fifty": fifty_cases,
    "judged": judged_cases,
    "limited": limited,
    "cold": cold_job,
    "recorded": recorded,
    "help": help_text,
    "validate": validate,
}
NEED_PEER = frozenset({"one", "fifty", "judged"})
"""The others need no `adk eval`, or install it themselves."""
