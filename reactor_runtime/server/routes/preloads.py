"""The links that make a browser load the modules and styles of the page at once, not one import after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath

# What shows frames, then what is around them and may wait.
FIRST, LATER = ("main.js",), ("panels.js", "toolbar/toolbar.js")
_IMPORT = re.compile(r'^(?:import|export) (?:\{[^}]*\} from |\* from )?"(\.[^"]+)"', re.MULTILINE)
_STYLE = re.compile(r'"([\w/-]+\.css)"')


def preload_links(folder: Path) -> str:
    """Return the links to the files of the page in `folder` that every session uses."""
    first = list(dict.fromkeys(name for entry in FIRST for name in _loaded_by(folder, entry)))
    later = list(dict.fromkeys(name for entry in LATER for name in _loaded_by(folder, entry) if name not in first))
    return "".join([*map(_link, first), *(_link(name, ' fetchpriority="low"') for name in later)])


def _loaded_by(folder: Path, entry: str) -> Iterator[str]:
    """Yield the names of a module, of those that it imports, and of their styles."""
    waiting, known = [entry], {entry}
    while waiting:
        name = waiting.pop(0)
        yield name
        text = (folder / name).read_text(encoding="utf-8")
        for imported in [*_IMPORT.findall(text), *_STYLE.findall(text)]:
            found = normpath(str(PurePosixPath(name).parent / imported))
            if found in known:
                continue
            known.add(found)
            if found.endswith(".css"):
                yield found
            else:
                waiting.append(found)


def _link(name: str, more: str = "") -> str:
    kind = 'rel="preload" as="style"' if name.endswith(".css") else 'rel="modulepreload"'
    return f'  <link {kind} href="static/{name}"{more}>\n'
