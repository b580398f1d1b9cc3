"""Uploads eval files for `agent-eval export cozeloop`."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path

from agent_eval.commands import CliIO
from agent_eval.commands.problems_text import log_problems
from agent_eval.core.text import harmless, plural
from agent_eval.evalset.loading import load_suite
from agent_eval_workbench.exports import cozeloop_items, cozeloop_schema
from agent_eval_workbench.uploads import (
    Uploaded,
    UploadError,
    cozeloop_client,
    cozeloop_target,
    create_eval_set,
    upload_items,
)


def upload_eval_files(arguments: argparse.Namespace, io: CliIO) -> int:
    """Uploads the cases of the named files and returns the exit code.

    Raises:
        InvalidTarget: A flag or a variable is missing or invalid.
    """
    target = cozeloop_target(
        io.environ, arguments.workspace_id, arguments.evalset_id, create=arguments.create is not None
    )
    suite = load_suite(Path.cwd(), arguments.paths)
    log_problems(suite.problems, io)
    if suite.errors:
        return 2
    items = cozeloop_items(suite.files, trajectory=arguments.trajectory)
    scenarios = sum(selected.case.conversation is None for file in suite.files for selected in file.cases)
    if scenarios:
        io.log(f"agent-eval: {plural(scenarios, 'scenario')} left out: only conversations with fixed turns have items")
    if not items:
        io.log("agent-eval: the eval files have no turns to upload.")
        return 2
    eval_set_id, uploaded, failure = target.eval_set_id, Uploaded(), None
    with contextlib.closing(cozeloop_client(target)) as client:
        try:
            if arguments.create is not None:
                schema = cozeloop_schema(trajectory=arguments.trajectory)
                eval_set_id = create_eval_set(client, target, arguments.create, schema)
                io.print_result(f"Created the evaluation set {eval_set_id} ({harmless(arguments.create)})")
            upload_items(client, target, eval_set_id, items, uploaded)
        except UploadError as error:
            failure = str(error)
    for line in (*uploaded.errors, *([failure] if failure is not None else [])):
        io.log(f"agent-eval: {line}")
    existing = f", {uploaded.existing:,} with the same key were there already and are unchanged"
    counts = f"{plural(uploaded.new, 'item')} of {len(items):,} added{existing if uploaded.existing else ''}"
    if failure is not None or uploaded.errors:
        io.log(f"agent-eval: not everything was accepted: {counts}")
        return 1
    io.print_result(f"{counts} (evaluation set {eval_set_id})")
    return 0
