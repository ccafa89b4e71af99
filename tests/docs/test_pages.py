"""Links of the pages resolve, every public name and option is documented, and named files exist."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import typer
import yaml
from PIL import Image

import reactor_runtime
from reactor_cli.app import COMMANDS
from reactor_cli.scaffold import templates
from reactor_runtime import client
from reactor_runtime.wire.protocol import CloseCode
from tests.cli.command import declared
from tests.docs.snippets import PAGES, ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
DOCS = ROOT / "docs"
GALLERY = (DOCS / "templates.md").read_text(encoding="utf-8")
EXAMPLES = sorted(file.parent for file in (ROOT / "examples").rglob("reactor.yaml"))


@functools.cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _resolves(page: Path, target: str) -> bool:
    file, _, anchor = target.partition("#")
    path = page.parent / file if file else page
    return path.is_file() and (not anchor or anchor in _anchors(path))


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_the_links_of_a_page_resolve(page: Path) -> None:
    inside = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in inside if not _resolves(page, target)] == []


def test_the_index_links_to_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    others = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    assert [page for page in sorted(others) if f"({page})" not in index] == []


def test_the_site_has_every_page() -> None:
    listed = _leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def _leaves(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    assert isinstance(parts, Iterable)
    return [leaf for part in parts for leaf in _leaves(part)]


def test_each_public_name_has_a_row_in_the_table() -> None:
    table = (DOCS / "names.md").read_text(encoding="utf-8")
    assert [name for name in reactor_runtime.__all__ if f"\n| `{name}` |" not in table] == []


def test_each_name_of_the_python_client_is_in_its_table() -> None:
    table = (DOCS / "client-python.md").read_text(encoding="utf-8").split("\n## Every name\n")[1]
    assert [name for name in client.__all__ if f"`{name}`" not in table] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_a_command_are_documented(command: str) -> None:
    options = [
        option
        for parameter in declared()[command].params
        # A hidden option only names what replaces it.
        if not (isinstance(parameter, typer.core.TyperOption) and parameter.hidden)
        for option in parameter.opts
        if option.startswith("-")
    ]
    page, heading = ("run.md", "# ") if command == "run" else ("cli.md", "\n## ")
    text = (DOCS / page).read_text(encoding="utf-8")
    section = text.split(f"{heading}`reactor {command}`\n")[1].split("\n## ")[0]
    assert [each for each in options if not re.search(rf"^\| .*`{each}\b", section, re.MULTILINE)] == []


@pytest.mark.parametrize("name", [template.name for template in templates()])
def test_a_template_has_a_row_with_a_clip(name: str) -> None:
    assert re.search(rf"^\| !\[.+\]\(images/[\w-]+\.webp\) \| \*\*`{name}`\*\* ", GALLERY, re.MULTILINE)


@pytest.mark.parametrize("project", EXAMPLES, ids=lambda project: project.name)
def test_an_example_has_a_row(project: Path) -> None:
    is_chapter = project.parent.name == "tutorial"
    page = f"tutorial/{project.name[0]}-" if is_chapter else f"../examples/{project.name}/README"
    assert re.search(rf"^\| .*\]\({page}[\w-]*\.md\)\*\* ", GALLERY, re.MULTILINE)


def test_the_clips_of_the_gallery_move_and_are_small() -> None:
    clips = [DOCS / path for path in re.findall(r"images/[\w-]+\.webp", GALLERY)]
    for clip in clips:
        with Image.open(clip) as image:
            image.seek(20)
    assert sum(clip.stat().st_size for clip in clips) < 2_000_000


@pytest.mark.parametrize("name", [template.name for template in templates()])
def test_the_length_of_a_template_is_about_what_its_row_says(name: str) -> None:
    (said,) = re.findall(
        rf"^\| .* \*\*`{name}`\*\* .* \| (?:\d+, with the modules beside it )?(\d+) \| .+ \|$", GALLERY, re.MULTILINE
    )
    lines = sum(len(file.read_text().splitlines()) for file in (ROOT / "templates" / name).glob("*.py"))
    assert int(said) == pytest.approx(lines, rel=0.1)


@pytest.mark.parametrize("code", CloseCode)
def test_a_close_code_is_documented(code: CloseCode) -> None:
    assert re.search(rf"\b{code.value}\b", (DOCS / "wire.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["architecture.md", "images/frame.svg", "images/event.svg"])
def test_the_files_named_by_the_architecture_page_exist(page: str) -> None:
    named = re.findall(r"\b(?:\w+/)+\w+\.(?:py|js)\b", (DOCS / page).read_text(encoding="utf-8"))
    assert [file for file in named if not any((ROOT / at / file).is_file() for at in ("", "reactor_runtime"))] == []


def test_the_folders_named_by_the_architecture_page_exist() -> None:
    drawing = (DOCS / "architecture.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    parents: list[str] = []
    for indent, name in re.findall(r"^( *)([\w/]+)/(?: |$)", drawing, re.MULTILINE):
        parents[len(indent) // 2 :] = [name]
        assert ROOT.joinpath(*parents).is_dir(), "/".join(parents)
