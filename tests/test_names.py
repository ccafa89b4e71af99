"""Class names follow docs/glossary.md, and each of them exists once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
# The words that the glossary's words replaced.
REPLACED = (
    "Audience|Crowd|Door|Figures|Film|Gallery|Greeter|Guest|Halls?|House|Intake|Life|Lobby|Moment|Nudge|Onlooker|Picture|"
    "Probe|Pulse|Seam|Strangers|Tally|Tape|Usher|Visitor|Way|Whoever"
)
# Documented names of two public modules: `reactor_runtime.client`, and `reactor_runtime.testing` or `.interface`.
PUBLIC_TWICE = frozenset({"Frame", "Message", "ModelContract", "StepsResult"})


@cache
def classes() -> dict[str, set[str]]:
    """Map the name of each class to the files that define it; private names and classes in functions are left out."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted([*ROOT.glob("reactor_runtime/**/*.py"), *ROOT.glob("reactor_cli/**/*.py")]):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(str(path.relative_to(ROOT)))
    return dict(found)


def test_no_class_name_contains_a_word_that_the_glossary_replaced() -> None:
    wrong = {name: files for name, files in classes().items() if re.search(rf"({REPLACED})(?![a-z])", name)}
    assert not wrong


def test_a_class_name_exists_once() -> None:
    twice = {name: files for name, files in classes().items() if len(files) > 1}
    assert twice.keys() <= PUBLIC_TWICE, twice


def test_the_glossary_names_classes_and_files_that_exist() -> None:
    for names in re.findall(r"^\|.*\| ((?:`[^`]+`(?:, )?)+) \|$", GLOSSARY, re.MULTILINE):
        for part in re.findall(r"`([^`]+)`", names):
            assert part in classes() or (ROOT / "reactor_runtime" / part).is_file(), part


def test_the_glossary_defines_each_word_once() -> None:
    words = [word.strip() for row in re.findall(r"^\| ([^|]+) \|", GLOSSARY, re.MULTILINE) for word in row.split(",")]
    words = [word for word in words if word not in {"word", "meaning"}]
    assert len(words) == len(set(words)) > 40
