"""Renders Jinja templates of eval files and configs in a sandbox.

Templates are untrusted text of a pull request, and are rendered in the process that has the API keys. Their variables
are plain texts and small objects, never pydantic models, which have methods that read files. Jinja's sandbox limits
what a template can access. This module limits the resources that it uses: compiling rejects operations that can make
texts or numbers grow, rendering counts steps, and the length of the result is limited.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from agent_eval_scoring.core.errors import AgentEvalError

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

MAX_STEPS = 200_000
"""Limit on executed lines of Python. Rendering a long conversation executes a few thousand."""
MAX_TEXT = 2_000_000
"""Limit on the characters of the result."""
_MAX_TEMPLATE = 200_000
"""Limit on the characters of a template."""
_MAX_NUMBER = 10_000
"""Limit on numbers in a template, which may be widths or counts."""
_OPERATORS = {"Pow": "**", "Mul": "*", "Mod": "%", "Concat": "~", "Add": "+"}
_TAGS = {"Macro": "macro", "CallBlock": "call"}
_GROWING = frozenset(
    {"center", "expandtabs", "format", "format_map", "indent", "join", "ljust", "replace", "rjust", "translate"}
    | {"wordwrap", "zfill", "batch", "slice", "xmlattr", "urlize"}
)
"""Filters and methods of texts with results that may be much longer than their arguments. The filter `join` is allowed
with a constant separator."""


class TemplateError(AgentEvalError, ValueError):
    """A template can't be compiled or rendered. The message is one line without a full stop."""


def render(template: str, variables: Mapping[str, Any]) -> str:
    """Renders a template. Undefined variables are empty, and values are not rendered again.

    Args:
        template: The template.
        variables: Texts, numbers, and objects of which a template may call every method.

    Raises:
        TemplateError: The template is invalid, or exceeds a limit.
    """
    if "{" not in template:
        return template  # Most texts of personas. Compiling takes a millisecond each.
    import jinja2

    compiled = _compiled(template)
    try:
        with _counted_steps():
            return _bounded(compiled.generate(variables))
    except TemplateError:
        raise
    except jinja2.TemplateError as error:
        raise TemplateError(_message(error)) from error
    except Exception as error:  # Expressions can raise anything, e.g. by dividing by zero.
        raise TemplateError(f"{type(error).__name__}: {error}") from error


def check(template: str) -> frozenset[str]:
    """Checks a template without rendering it.

    Returns:
        The variables that the template reads and does not set itself.

    Raises:
        TemplateError: The template is invalid.
    """
    if "{" not in template:
        return frozenset()
    from jinja2 import meta

    _compiled(template)
    return frozenset(meta.find_undeclared_variables(_environment().parse(template)))


def _compiled(template: str) -> Any:
    from jinja2 import TemplateSyntaxError

    if len(template) > _MAX_TEMPLATE:
        raise TemplateError(f"it has more than {_MAX_TEMPLATE:,} characters")
    environment = _environment()
    try:
        _reject_growth(environment.parse(template))
        return environment.from_string(template)
    except TemplateSyntaxError as error:
        raise TemplateError(f"{_message(error)} (line {error.lineno} of the template)") from error
    except RecursionError as error:
        raise TemplateError("it is nested too deeply") from error


def _message(error: Exception) -> str:
    return (str(getattr(error, "message", None) or error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _environment() -> SandboxedEnvironment:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment()
    environment.globals = {"range": environment.globals["range"]}
    return environment


def _reject_growth(tree: nodes.Template) -> None:
    """Rejects operations that can make a text or a number grow without limit in a single step."""
    from jinja2 import nodes

    for node in tree.find_all(nodes.Node):
        kind = type(node).__name__
        if kind in _OPERATORS:
            raise _rejected(f"the operator `{_OPERATORS[kind]}`", node)
        if kind in _TAGS:
            raise _rejected(f"`{_TAGS[kind]}`", node)
        if isinstance(node, nodes.For) and node.recursive:
            raise _rejected("a recursive loop", node)
        if isinstance(node, nodes.Const) and isinstance(node.value, int | float) and abs(node.value) > _MAX_NUMBER:
            raise _rejected(f"a number above {_MAX_NUMBER:,}", node)
        if isinstance(node, nodes.Filter) and node.name in _GROWING and not _is_plain_join(node):
            raise _rejected(f"the filter `{node.name}`", node)
        if isinstance(node, nodes.Getattr) and node.attr in _GROWING:
            raise _rejected(f"`{node.attr}`", node)
        if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value in _GROWING:
            raise _rejected(f"`{node.arg.value}`", node)


def _is_plain_join(node: nodes.Filter) -> bool:
    from jinja2 import nodes

    arguments = [*node.args, *(keyword.value for keyword in node.kwargs)]
    return node.name == "join" and all(isinstance(argument, nodes.Const) for argument in arguments)


def _rejected(what: str, node: nodes.Node) -> TemplateError:
    return TemplateError(f"it uses {what}, which these templates must not use (line {node.lineno} of the template)")


def _bounded(pieces: Iterator[str]) -> str:
    result, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_TEXT:
            raise TemplateError(f"its text has more than {MAX_TEXT:,} characters")
        result.append(piece)
    return "".join(result)


@contextmanager
def _counted_steps() -> Iterator[None]:
    """Raises after MAX_STEPS lines of Python, in any thread. A signal only interrupts the main thread."""
    left = MAX_STEPS

    def step(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise TemplateError(f"it takes more than {MAX_STEPS:,} steps")
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        yield
    finally:
        sys.settrace(before)
