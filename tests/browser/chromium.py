"""The browser, and the rule for every page: no console error, no dialog, no request, no other page."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import golden_files
import pytest
from report_pages_of_data import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXECUTABLES = ("chromium", "chromium-browser", "google-chrome")
AXE = Path(__file__).resolve().parents[2] / "tools/page_checks/node_modules/axe-core/axe.min.js"


def executable() -> str:
    """The system's Chromium. Playwright would download one of its own."""
    path = next((path for name in EXECUTABLES if (path := shutil.which(name))), None)
    if path is not None:
        return path
    missing(f"there is no browser: none of {', '.join(EXECUTABLES)} is installed")


def missing(message: str) -> NoReturn:
    """Skips the test; in CI it fails."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, started once."""
    path = executable()
    from playwright.sync_api import sync_playwright

    # As root, Chromium's own sandbox can't start.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=path, args=options)
        yield instance
        instance.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens pages; at the end of the test, nothing may have happened that a report must not do."""
    contexts = []
    incidents: list[str] = []

    def opened(
        target: Path | str,
        fragment: str = "",
        *,
        ready: str = "body[data-view]",
        also: Collection[str] = (),
        script: str = "",
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
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        context.set_default_timeout(20_000)
        if script:
            context.add_init_script(script)
        contexts.append(context)
        page = context.new_page()
        address = target.as_uri() if isinstance(target, Path) else target
        watch(page, {address, *also}, incidents)
        page.goto(address + fragment)
        page.locator(ready).first.wait_for(state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not incidents, "\n".join(incidents)


@pytest.fixture(scope="module")
def functions(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Makes a blank page with the functions of some of the report's files, e.g. `functions("diff.js")`."""
    context = browser.new_context()

    def loaded(*names: str) -> Page:
        page = context.new_page()
        for name in names:
            page.add_script_tag(
                content=resources.files("agent_eval_results.report.html").joinpath(name).read_text("utf-8")
            )
        return page

    yield loaded
    context.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core: for `visit(..., script=axe)`."""
    if not AXE.exists():
        missing("axe-core is not installed: `make test-browser` installs it")
    return AXE.read_text("utf-8")


def watch(page: Page, addresses: Collection[str], incidents: list[str]) -> None:
    """Notes everything that a report must not do."""

    def dialog(dialog: Any) -> None:
        incidents.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def note(kind: str) -> Callable[[Any], None]:
        return lambda event: incidents.append(f"{kind}: {event}")

    def request(request: Any) -> None:
        if request.url.split("#")[0] not in addresses and not request.url.startswith("data:"):
            incidents.append(f"request: {request.method} {request.url}")

    page.on("console", lambda message: incidents.append(f"console: {message.text}") if message.type != "log" else None)
    page.on("pageerror", lambda error: incidents.append(f"error: {error.stack}"))
    page.on("dialog", dialog)
    page.on("popup", note("popup"))
    page.on("request", request)


def until(page: Page, expression: str) -> None:
    """Waits until an expression is true. Playwright's own wait evaluates text in the page, which the policy forbids."""
    deadline = time.monotonic() + 20
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, f"still not: {expression}"
        page.wait_for_timeout(20)


STILL = "performance.now = () => 0;"
"""For a page of `check_view`: comparisons of texts give up after a time, which depends on the machine."""

# The pictures of a page, which no screen reader gets: how many shapes of each class they have.
_SHAPES = """() => [...document.querySelectorAll('main svg')].flatMap((picture) => {
  const shapes = [...picture.querySelectorAll('[class]')].map((one) => `${one.localName} ${one.getAttribute('class')}`);
  const counts = [...new Set(shapes)].map((name) => `${name} x${shapes.filter((one) => one === name).length}`);
  return counts.length ? [`# picture: ${counts.join(', ')}\\n`] : [];
}).join('')"""


def check_view(page: Page, name: str, selector: str = "main") -> None:
    """Compares what a screen reader gets, and what its pictures consist of, with a golden file.

    A page draws itself in several frames: it has 20 s to get there.
    """
    file = f"golden_views/{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        page.wait_for_timeout(2_000)  # What is announced comes later.
    expected = (golden_files.DATA / file).read_text("utf-8") if (golden_files.DATA / file).exists() else ""
    deadline = time.monotonic() + 20
    while (seen := f"{page.locator(selector).aria_snapshot()}\n{page.evaluate(_SHAPES)}") != expected:
        if os.environ.get("UPDATE_GOLDEN") or time.monotonic() > deadline:
            break
        page.wait_for_timeout(100)
    golden_files.check(file, seen)
