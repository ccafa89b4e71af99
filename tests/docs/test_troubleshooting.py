"""The messages on the page about troubleshooting are those of the product."""

from __future__ import annotations

import ast
import re

from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
CODES = {"invalid_event", "not_controller"}


def _quoted() -> list[str]:
    """Return the messages in the first column of the tables."""
    cells = re.findall(r"^\| (.+?) \| ", PAGE, re.MULTILINE)
    return [text for cell in cells for text in re.findall(r"`([^`]+)`", cell) if " " in text or text in CODES]


def _texts() -> str:
    """Return the texts of the code, with … in place of values."""
    texts: list[str] = []
    for package in ("reactor_runtime", "reactor_cli"):
        for file in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    texts.append(
                        "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    for file in (ROOT / "reactor_runtime").rglob("*.js"):
        texts.append(re.sub(r"\$\{[^}]+\}", "…", file.read_text(encoding="utf-8")))
    return "\n".join(texts)


def test_the_messages_are_those_of_the_product() -> None:
    texts = _texts()
    # The name of the manifest is a value in some of the texts.
    wrong = [text for text in _quoted() if text not in texts and text.replace("reactor.yaml", "…") not in texts]
    assert len(_quoted()) > 20
    assert wrong == []
