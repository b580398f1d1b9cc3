"""Writes pages for browser tests: from a RunReport, or from data as `report/html` packs it."""

from __future__ import annotations

import base64
import functools
import gzip
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from report_pages import samples

from agent_eval.report.html import PageSource, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

_TEMPLATES = re.compile(r"(<template id=\"[a-z0-9]+\">[^<]*</template>\n)+")


class Visit(Protocol):
    """Opens a page in the browser (the fixture `visit`)."""

    def __call__(
        self,
        target: Path | str,
        fragment: str = "",
        *,
        ready: str = ...,
        also: Collection[str] = ...,
        script: str = ...,
        **options: Any,
    ) -> Page:
        """A page that is ready.

        Args:
            target: The file, or an address.
            fragment: With `#`.
            ready: A selector of what shows that the page has been drawn.
            also: Other addresses that may be requested.
            script: Runs before the page's own.
            options: Of Playwright's `new_context`, e.g. `viewport`, `color_scheme`.
        """


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
