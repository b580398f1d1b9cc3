"""Jinja templates that users write into eval files and configs, in a sandbox.

They are text of the pull request, and are rendered in the process that holds our keys. So they are given plain texts
and small objects of our own, never a pydantic model: such an object has methods that read files. The sandbox bounds
what a template can reach, not how long it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2.sandbox import SandboxedEnvironment


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
        return str(compiled.render(variables))
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

    try:
        return _environment().from_string(template)
    except TemplateSyntaxError as error:
        raise TemplateFault(f"{_told(error)} (line {error.lineno} of the template)") from error
    except RecursionError as error:
        raise TemplateFault("it is nested too deeply") from error


def _told(error: Exception) -> str:
    return (str(getattr(error, "message", None) or error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _environment() -> SandboxedEnvironment:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    return ImmutableSandboxedEnvironment()
