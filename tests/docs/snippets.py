"""The fenced blocks of the README and the docs, with page, line and info string."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
TUTORIAL = ROOT / "docs" / "tutorial"
LANGUAGES = {"python", "json", "yaml", "sh", "console", "text", "html", "js", "jsx", "ts", "ini"}

_FENCE = re.compile(r"^```(\w*)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block; `title` is its file name, or the sender of a message."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def snippets(*languages: str, title: str | None = None) -> list[Snippet]:
    """Return the blocks in these languages, by default all, and with this title, by default any."""
    found = [snippet for page in PAGES for snippet in _read(page)]
    return [
        snippet
        for snippet in found
        if (not languages or snippet.language in languages) and title in (None, snippet.title)
    ]


def one(page: str, title: str) -> Snippet:
    """Return the only block of a page with this title."""
    (found,) = [snippet for snippet in snippets(title=title) if snippet.page.name == page]
    return found


@contextmanager
def imported(text: str, directory: Path) -> Iterator[ModuleType]:
    """Import `text` as a module of its own, in which classes find their module.

    Skip the test if `text` imports torch and torch is not installed.
    """
    if "import torch" in text:
        pytest.importorskip("torch")
    name = f"snippet_{next(_numbers)}"
    path = directory / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]


@functools.cache
def _read(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    return [
        Snippet(page, text.count("\n", 0, match.start()) + 1, match[1], match[2] or "", match[3])
        for match in _FENCE.finditer(text)
    ]
