"""The tutorial's loop saves images, and its two painters take the same arguments."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.cli.command import python
from tests.docs.snippets import ROOT, snippets

TUTORIAL = ROOT / "docs" / "tutorial.md"


def _blocks(title: str) -> list[str]:
    return [snippet.text for snippet in snippets(title=title) if snippet.page == TUTORIAL]


def test_the_loop_saves_images(tmp_path: Path) -> None:
    (tmp_path / "painter.py").write_text(_blocks("painter.py")[0])
    (tmp_path / "images.py").write_text(_blocks("images.py")[0])
    outcome = python("-W", "error", "images.py", cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    assert len({image.read_bytes() for image in tmp_path.glob("*.png")}) == 5


def test_the_painter_with_weights_replaces_the_stand_in() -> None:
    stand_in, weights = map(_signatures, _blocks("painter.py"))
    assert stand_in == weights


def _signatures(text: str) -> dict[str, str]:
    """Return the arguments of the class's public methods."""
    functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.unparse(node.args) for node in functions if not node.name.startswith("_")}
