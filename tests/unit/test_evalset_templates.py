"""Templates of the pull request are rendered in our process: they must end, and stay small."""

from __future__ import annotations

import sys
import time

import pytest

from agent_eval.evalset.templates import MAX_TEXT, TemplateError, check, render

LOOP, END = "{% for i in range(9999) %}", "{% endfor %}"


@pytest.mark.parametrize(
    "template",
    [
        "{{ 9 ** 9 }}",
        "{{ 'a' * 1000 }}",
        "{{ '%99999d' % 1 }}",
        "{{ x ~ x }}",
        "{{ x + x }}",
        "{{ x.center(9999) }}",
        "{{ x['replace']('a', x) }}",
        "{{ x | replace('a', x) }}",
        "{{ x | join(x) }}",
        "{{ x | indent(99) }}",
        "{{ range(10001) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for i in x recursive %}{{ loop(x) }}{% endfor %}",
        "a" * 200_001 + "{{ x }}",
    ],
)
def test_render__rejects_growing_templates(template: str) -> None:
    for use in (check, lambda text: render(text, {"x": "a"})):
        with pytest.raises(TemplateError):
            use(template)


@pytest.mark.parametrize(
    "template",
    [
        f"{LOOP * 3}{END * 3}",
        f"{LOOP}{{% if (range(9999) | list) == x %}}{{% endif %}}{LOOP}.{END * 2}",
        f"{LOOP}{{{{ x }}}}{END}",
    ],
)
def test_render__stops_endless_templates(template: str) -> None:
    before, begun = sys.gettrace(), time.monotonic()
    with pytest.raises(TemplateError, match=r"steps|characters"):
        render(template, {"x": "a" * (MAX_TEXT // 1000)})

    assert time.monotonic() - begun < 10
    assert sys.gettrace() is before


def test_render__syntax_of_instructions() -> None:
    template = (
        "{% set greeting = 'Hi' %}{{ greeting }} {{ name | upper | default('x') }}"
        "{% for one in rules %}\n- {{ loop.index }} {{ one }}{% endfor %}"
        "{{ ', ' if rules else '' }}{{ rules | join(', ') }}"
        "{% if rules | length > 1 and name != 'b' %} many{% endif %}{{ 1 - 1 }}{{ range(2) | list }}"
    )
    assert render(template, {"name": "ada", "rules": ["a", "b"]}) == "Hi ADA\n- 1 a\n- 2 b, a, b many0[0, 1]"


def test_render__long_conversation() -> None:
    history = "user: something\n" * 50_000

    assert render("{{ history }}!", {"history": history}) == history + "!"
