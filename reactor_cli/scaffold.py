"""New projects from templates: the list of templates, the check for existing files, and the writing.

A template is a directory of files with a `template.yaml` that describes it; `_shared` has the files common to all.
Only PROJECT_NAME is replaced, so that a template runs in place.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.tree import Tree

PLACEHOLDER = "PROJECT_NAME"
DEFAULT = "pipeline"
SHARED = "_shared"
REQUIREMENTS = PurePosixPath("requirements.txt")
MAX_CHARACTERS = 64
_YAML_WORDS = ("null", "true", "false", "yes", "no", "on", "off")
_SPELT = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ı": "i"})


@dataclass(frozen=True, slots=True)
class TemplateFile:
    """A file of a project, with a phrase on its purpose and the stored files that it consists of."""

    sources: tuple[Path, ...]
    path: PurePosixPath
    phrase: str

    def content(self, name: str) -> bytes:
        """Return the stored files joined by empty lines, with the project's name in place of PROJECT_NAME."""
        joined = b"\n".join(source.read_bytes() for source in self.sources)
        return joined.replace(PLACEHOLDER.encode(), name.encode())


@dataclass(frozen=True, slots=True)
class Template:
    """A template, with its files in the order of reading. `needs_more`: it requires packages of its own."""

    name: str
    description: str
    files: tuple[TemplateFile, ...]
    needs_more: bool = False


def templates() -> list[Template]:
    """Return the templates of Reactor: the default one, then the others by name."""
    found = [_read(path.parent) for path in _directory().glob("[!_]*/template.yaml")]
    return sorted(found, key=lambda template: (template.name != DEFAULT, template.name))


def find(name: str) -> Template:
    """Return the template `name`. Raises UsageError with the most similar name."""
    known = {template.name: template for template in templates()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"the templates are {', '.join(known)}"
    raise UsageError(f'there is no template "{name}"', hint=hint)


def name_of(directory: Path) -> str:
    """Return the name of a project in a directory: that of the directory, with dashes in place of dots."""
    return Path(os.path.abspath(directory)).name.replace(".", "-")


def check_name(name: str) -> None:
    """Raise UsageError with a reason and a better name if `name` is not valid for a model."""
    reason = _objection(name)
    if reason:
        raise UsageError(f'the name "{name}" {reason}', hint=f"a valid name: `reactor init {_better(name)}`")


def write(template: Template, target: Path, name: str, *, merge: bool = False, force: bool = False) -> None:
    """Write every file of `template` below `target`.

    `merge` accepts a directory with other files, `force` also replaces files of the same names. Raises UsageError that
    lists the obstacles, before anything is written, and OSError of the system.
    """
    obstacles = _obstacles(template, target, merge=merge, force=force)
    if obstacles:
        more = f"\n  and {len(obstacles) - 10} more" if len(obstacles) > 10 else ""
        raise UsageError(
            "nothing was written; these exist already:" + "".join(f"\n  {path}" for path in obstacles[:10]) + more,
            hint=_hint(merge=merge, force=force),
        )
    for file in template.files:
        path = target / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if force:
            path.unlink(missing_ok=True)
        with path.open("xb") as new:
            new.write(file.content(name))


def _hint(*, merge: bool, force: bool) -> str:
    """Return the ways around the obstacles; with `merge` the directory is given, and another name does not help."""
    ways = ["choose another name"] if not merge else ["move it away"] if force else []
    return ", or ".join(ways if force else [*ways, "replace files of the same name with --force"])


def tree(template: Template, title: str) -> Tree:
    """Return the files of a template as a tree under `title`, with a phrase beside each."""
    from rich.text import Text
    from rich.tree import Tree

    folders = {PurePosixPath(): Tree(title)}
    width = max(4 * len(file.path.parts) + len(file.path.name) for file in template.files)
    for file in template.files:
        for folder in reversed(file.path.parents):
            if folder not in folders:
                folders[folder] = folders[folder.parent].add(f"{folder.name}/")
        name = f"{file.path.name:{width - 4 * len(file.path.parts)}}"
        folders[file.path.parent].add(Text.assemble(name, "  ", (file.phrase, "dim")))
    return folders[PurePosixPath()]


def table(found: Sequence[Template]) -> Table:
    """Return the names and descriptions of templates as a table."""
    from rich.table import Table

    rows = Table.grid("", "", padding=(0, 2))
    rows.columns[0].style = "bold"
    for template in found:
        rows.add_row(template.name, template.description)
    return rows


def _directory() -> Path:
    """Return the directory of the templates: inside the installed package, beside it in a source tree."""
    package = Path(__file__).resolve().parent
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


def _read(directory: Path) -> Template:
    shared = directory.with_name(SHARED)
    described = _read_description(directory)
    own, common = described.get("files", {}), _read_description(shared)["files"]
    files = []
    for written in dict.fromkeys([*own, *common]):
        path = PurePosixPath(written)
        stored = path.with_name(path.name.removeprefix("."))
        sources = tuple(place / stored for place in (shared, directory) if (place / stored).is_file())
        if sources:
            files.append(TemplateFile(sources, path, own.get(written) or common[written]))
    needs_more = (directory / REQUIREMENTS).is_file()
    return Template(directory.name, described["description"], tuple(files), needs_more)


def _read_description(directory: Path) -> dict[str, Any]:
    import yaml

    described: dict[str, Any] = yaml.safe_load((directory / "template.yaml").read_text(encoding="utf-8"))
    return described


def _objection(name: str) -> str:
    """Return the fault of a name, or "". Names are ASCII, because they appear in URLs and logs."""
    if not name or name in (".", ".."):
        return "is empty"
    if "/" in name or os.sep in name:
        return "is a path; a name has no slash"
    if len(name) > MAX_CHARACTERS:
        return f"has more than {MAX_CHARACTERS} characters"
    if not re.match(r"[A-Za-z]", name):
        return "must start with a letter from a to z"
    wrong = re.search(r"[^A-Za-z0-9_-]", name)
    if wrong:
        character = "a space" if wrong[0] == " " else wrong[0]
        return f"contains {character}; letters from a to z, digits, - and _ may be used"
    if name.lower() in _YAML_WORDS:
        return "has another meaning in YAML"
    return "ends with a dash" if name.endswith("-") else ""


def _better(name: str) -> str:
    last = unicodedata.normalize("NFKD", name.rstrip("/").rpartition("/")[2].lower().translate(_SPELT))
    plain = "".join(character for character in last if not unicodedata.combining(character))
    words = re.sub(r"[^a-z0-9_]+", "-", plain).strip("-_")
    if words in _YAML_WORDS:
        return f"{words}-model"
    better = words if words[:1].isalpha() else f"model-{words}" if words else "my-model"
    return better[:MAX_CHARACTERS].rstrip("-")


def _obstacles(template: Template, target: Path, *, merge: bool, force: bool) -> list[Path]:
    """Return the paths that prevent the writing; `force` replaces no directory by a file, no file by a directory."""
    if os.path.lexists(target) and not target.is_dir():
        return [target]
    if target.is_dir() and not merge and not force:
        return sorted(target.iterdir())
    obstacles: dict[Path, None] = {}
    for file in template.files:
        place = target / file.path
        above = [target / parent for parent in file.path.parents[:-1]]
        obstacles |= dict.fromkeys(path for path in above if os.path.lexists(path) and not path.is_dir())
        if place.is_dir() if force else os.path.lexists(place):
            obstacles[place] = None
    return list(obstacles)
