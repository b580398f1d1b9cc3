"""Compiled templates in `__pycache__`: to compile them takes a fifth of the CPU of a small run."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from importlib.util import cache_from_source
from pathlib import Path

import jinja2
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from agent_eval_scoring.core.files import replacing

_OPTIONS = ("autoescape", "trim_blocks", "lstrip_blocks", "keep_trailing_newline", "undefined", "optimized")


def beside_modules() -> BytecodeCache:
    """A cache beside the bytecode of this package, written under the same conditions.

    Jinja uses what the same Python and the same form of its bytecode have made of the same source. A template must not
    call a filter with constants alone, which would be called when it is compiled.
    """
    return _Cache()


class _Cache(BytecodeCache):
    def get_bucket(self, environment: Environment, name: str, filename: str | None, source: str) -> Bucket:
        # Jinja's own key has neither its version nor what decides which code is made: whether values are escaped, which
        # filters get the context.
        told = sorted(name for name, each in environment.filters.items() if hasattr(each, "jinja_pass_arg"))
        made_by = [jinja2.__version__, *(str(getattr(environment, option)) for option in _OPTIONS), *told]
        made = hashlib.sha256(" ".join(made_by).encode()).hexdigest()[:8]
        return super().get_bucket(environment, f"{name}.{made}", filename, source)

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        return name

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(Exception):  # It is missing or damaged.
            bucket.bytecode_from_string(_place(bucket).read_bytes())

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError), replacing(_place(bucket)) as file:
                file.write(bucket.bytecode_to_string())


def _place(bucket: Bucket) -> Path:
    return Path(cache_from_source(str(Path(__file__).with_name(f"{bucket.key}.py"))))
