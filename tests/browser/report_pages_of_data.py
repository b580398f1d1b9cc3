"""Writes pages for browser tests: from a RunReport, or from data as `report/html` packs it."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from report_pages import samples
from upload_server import Reply, UploadServer, upload_server

from agent_eval_results.report.html import PageSource, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

CASE_VIEW = f"#case={quote('tests/home_automation/basics.evalset.json:thermostat_in_bedroom', safe='')}"
"""The fragment of a case of the sample that failed."""
_TEMPLATES = re.compile(r"(<template id=\"[a-z0-9]+\">[^<]*</template>\n)+")


Visit: TypeAlias = "Callable[..., Page]"
"""Opens a page in the browser: the fixture `visit`."""


def page_of_report(path: Path, source: PageSource) -> Path:
    """Writes the page of a report."""
    write_page(path, source)
    return path


def page_of_data(path: Path, index: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]] = ()) -> Path:
    """Writes a page that holds this data: the page of an empty report with other templates."""
    write_page(path, samples()["invalid"])
    packed = {"index": index, **{f"b{number}": block for number, block in enumerate(blocks)}}
    templates = "".join(f'<template id="{name}">{_packed(data)}</template>\n' for name, data in packed.items())
    html = path.read_text("utf-8")
    assert _TEMPLATES.search(html), "the page has no data"
    path.write_text(_TEMPLATES.sub(lambda _: templates, html), "utf-8")
    return path


def data_of_page(path: Path, name: str = "index") -> Any:
    """The data of a page: its index, or the block `b0`, `b1`, ..."""
    match = re.search(rf'<template id="{name}">([^<]*)</template>', path.read_text("utf-8"))
    assert match, f"the page has no {name}"
    return json.loads(gzip.decompress(base64.b64decode(match[1])))


@functools.cache
def _real_index() -> str:
    with TemporaryDirectory() as folder:
        return json.dumps(data_of_page(page_of_report(Path(folder) / "report.html", samples()["failed"])))


def real_index() -> dict[str, Any]:
    """A copy of the index of a report with six cases, three of which fail."""
    return dict(json.loads(_real_index()))


def _packed(data: Any) -> str:
    return base64.b64encode(gzip.compress(json.dumps(data, ensure_ascii=False).encode("utf-8"))).decode("ascii")


@contextmanager
def served_page(path: Path) -> Iterator[UploadServer]:
    """Serves the page of failed cases: without charset in the header, behind a redirect, in sandboxed frames."""
    html = page_of_report(path / "report.html", samples()["failed"]).read_bytes()
    frame = (
        f'<!doctype html><link rel="icon" href="data:,"><iframe sandbox="allow-scripts" src="/report.html{CASE_VIEW}">'
    )
    without = '</iframe><iframe sandbox src="/report.html"></iframe>'
    answers = {
        "/artifact": Reply(302, b"", {"Location": "/report.html"}),
        "/report.html": Reply(200, html, {"Content-Type": "text/html"}),
        "/frame": Reply(200, frame.encode(), {"Content-Type": "text/html"}),
        "/frames": Reply(200, (frame + without).encode(), {"Content-Type": "text/html"}),
        "/favicon.ico": Reply(204, b""),
    }
    with upload_server(lambda request: answers[request.path]) as server:
        yield server
