"""Jinja templates that users write into eval files and configs, in a sandbox.

They are text of the pull request, and are rendered in the process that holds our keys. So they are given plain texts
and small objects of our own, never a pydantic model: such an object has methods that read files. The sandbox bounds
what a template can reach. How much it may do is bounded here: what makes texts or numbers grow is refused when the
template is compiled, steps are counted while it is rendered, and the text has a limit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

MAX_STEPS = 200_000
"""Lines of Python that rendering may take, loops included; a long conversation takes a few thousand."""
MAX_TEXT = 2_000_000
"""Characters of the result."""
_LONGEST = 200_000
"""Characters of a template."""
_LARGEST = 10_000
"""Numbers in a template, which may be widths or counts."""
_OPERATORS = {"Pow": "**", "Mul": "*", "Mod": "%", "Concat": "~", "Add": "+"}
_TAGS = {"Macro": "macro", "CallBlock": "call"}
_GROWING = frozenset(
    {"center", "expandtabs", "format", "format_map", "indent", "join", "ljust", "replace", "rjust", "translate"}
    | {"wordwrap", "zfill", "batch", "slice", "xmlattr", "urlize"}
)
"""Filters and methods of texts whose result may be much longer than what they are given. The filter `join` is fine
with a text that stands in the template."""


class TemplateFault(ValueError):
    """A template that can't be compiled or rendered; the message says why, in one line without a full stop."""


def render(template: str, variables: Mapping[str, Any]) -> str:
    """Renders a template. A variable that isn't there is empty, and values are not rendered again.

    Args:
        template: What the user wrote.
        variables: Texts, numbers, and objects whose every method may be called.

    Raises:
        TemplateFault: It is wrong, or does what it must not.
    """
    if "{" not in template:
        return template  # Most texts of personas: to compile them would take a millisecond each.
    from jinja2 import TemplateError

    compiled = _compiled(template)
    try:
        with _counted_steps():
            return _bounded(compiled.generate(variables))
    except TemplateFault:
        raise
    except TemplateError as error:
        raise TemplateFault(_told(error)) from error
    except Exception as error:  # Whatever an expression can raise, e.g. by dividing by zero.
        raise TemplateFault(f"{type(error).__name__}: {error}") from error


def check(template: str) -> frozenset[str]:
    """Checks what can be known without rendering.

    Returns:
        The variables that the template reads and doesn't set itself.

    Raises:
        TemplateFault: It is no valid template.
    """
    if "{" not in template:
        return frozenset()
    from jinja2 import meta

    _compiled(template)
    return frozenset(meta.find_undeclared_variables(_environment().parse(template)))


def _compiled(template: str) -> Any:
    from jinja2 import TemplateSyntaxError

    if len(template) > _LONGEST:
        raise TemplateFault(f"it has more than {_LONGEST:,} characters")
    environment = _environment()
    try:
        _refuse_growth(environment.parse(template))
        return environment.from_string(template)
    except TemplateSyntaxError as error:
        raise TemplateFault(f"{_told(error)} (line {error.lineno} of the template)") from error
    except RecursionError as error:
        raise TemplateFault("it is nested too deeply") from error


def _told(error: Exception) -> str:
    return (str(getattr(error, "message", None) or error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _environment() -> SandboxedEnvironment:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()
    environment.globals = {"range": environment.globals["range"]}
    return environment


def _refuse_growth(tree: nodes.Template) -> None:
    """Refuses what could make a text or a number grow beyond any limit in a single step."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__
        if kind in _OPERATORS:
            raise _refused(f"the operator `{_OPERATORS[kind]}`", node)
        if kind in _TAGS:
            raise _refused(f"`{_TAGS[kind]}`", node)
        if isinstance(node, nodes.For) and node.recursive:
            raise _refused("a recursive loop", node)
        if isinstance(node, nodes.Const) and isinstance(node.value, int | float) and abs(node.value) > _LARGEST:
            raise _refused(f"a number above {_LARGEST:,}", node)
        if isinstance(node, nodes.Filter) and node.name in _GROWING and not _is_plain_join(node):
            raise _refused(f"the filter `{node.name}`", node)
        if isinstance(node, nodes.Getattr) and node.attr in _GROWING:
            raise _refused(f"`{node.attr}`", node)
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value in _GROWING:
            raise _refused(f"`{node.arg.value}`", node)


def _is_plain_join(node: nodes.Filter) -> bool:
    from jinja2 import nodes

    given = [*node.args, *(keyword.value for keyword in node.kwargs)]
    return node.name == "join" and all(isinstance(one, nodes.Const) for one in given)


def _refused(what: str, node: nodes.Node) -> TemplateFault:
    return TemplateFault(f"it uses {what}, which these templates can't (line {node.lineno} of the template)")


def _bounded(pieces: Iterator[str]) -> str:
    found, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_TEXT:
            raise TemplateFault(f"its text has more than {MAX_TEXT:,} characters")
        found.append(piece)
    return "".join(found)


@contextmanager
def _counted_steps() -> Iterator[None]:
    """Ends what takes more than MAX_STEPS lines of Python, in whatever thread: a signal or a clock could not."""
    left = MAX_STEPS

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise TemplateFault(f"it takes more than {MAX_STEPS:,} steps")
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)
