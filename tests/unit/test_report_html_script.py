"""The report's script as one piece: its files share one scope."""

import re
from collections import Counter
from importlib import resources

from agent_eval.report.html._assets import SCRIPTS, script

_DECLARATION = re.compile(r"^(?:(?:async )?function|class|const|let) (\w+)", re.MULTILINE)


def test_script__each_name_is_declared_once() -> None:
    """A later function of the same name would replace the earlier one silently; tsc does not mind."""
    folder = resources.files("agent_eval.report.html")
    names = Counter(name for file in SCRIPTS for name in _DECLARATION.findall(folder.joinpath(file).read_text("utf-8")))
    assert len(names) > 100
    assert [name for name, count in names.items() if count > 1] == []


def test_script__loses_only_what_documents_types() -> None:
    folder = resources.files("agent_eval.report.html")
    files = "".join(folder.joinpath(name).read_text("utf-8") for name in SCRIPTS)
    assert _DECLARATION.findall(script()) == _DECLARATION.findall(files)
    code = [
        line.split("/**", 1)[0].rstrip() for line in files.splitlines() if not line.strip().startswith(("/**", "*"))
    ]
    left = "".join(re.sub(r"/[*][*].*?[*]/ ?", "", script()).split())
    assert all("".join(line.split()) in left for line in code)
    assert "/**" not in script()
    assert "// Creates every node of the page." in script()
