"""A hook of mkdocs.yml, for what the site shows and GitHub does not, and the other way round."""

from __future__ import annotations

import itertools
import re
from html import escape, unescape
from pathlib import Path, PurePosixPath
from typing import Any

_TITLE = re.compile(r"^( *```\w+ title=)(\S+)$", re.MULTILINE)
_UP = re.compile(r"\[([^]]+)\]\(((?:\.\./)+)[^)]*\)")
_SAMPLE = re.compile(r'<div class="language-python highlight">(.*?<code>)(.*?)(</code>)', re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
# What most samples begin with: imports, and an output of one video track.
_IMPORTS = re.compile(r"(?:(?:from|import) [^(\n]*(?:\([^)]*\))?\n|\n)+")
_OUTPUT = re.compile(r"class MyOutput\(Output\):\n    main_video: Video\n+")
_FEW_LINES = 2
# A line of a page in place of which its declarations in TypeScript are shown.
_DECLARED = re.compile(r"^<!-- declarations of (\S+) -->$", re.MULTILINE)
_EXPORT = re.compile(r"^export (?:type|interface|function|class) (\w+)", re.MULTILINE)
_ROOT = Path(__file__).resolve().parents[1]


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Return the page with quoted titles of code blocks, and with text in place of links to files outside of docs/."""
    depth = len(PurePosixPath(page.file.src_uri).parts) - 1

    def text_if_outside(link: re.Match[str]) -> str:
        return link[1] if link[2].count("../") > depth else link[0]

    if page.file.src_uri == "README.md":
        # The navigation of the site has all pages.
        markdown = markdown.partition("\n## ")[0]
    inside = _UP.sub(text_if_outside, _TITLE.sub(r'\1"\2"', markdown))
    return _DECLARED.sub(lambda file: declarations((_ROOT / file[1]).read_text(encoding="utf-8")), inside)


def declarations(text: str) -> str:
    """Return a section for each name that a file of TypeScript exports: its heading and its code with the comments."""
    sections: dict[str, list[str]] = {}
    # Blank lines within a class are followed by indented lines.
    for part in re.split(r"\n\n(?=\S)", text):
        if found := _EXPORT.search(part):
            sections.setdefault(found[1], []).append(part.strip())
    codes = {name: "\n\n".join(parts) for name, parts in sorted(sections.items(), key=lambda item: item[0].lower())}
    return "\n\n".join(f"### {name}\n\n```ts\n{code}\n```" for name, code in codes.items())


def on_page_content(html: str, **_: object) -> str:
    """Return the page with all samples of Python but the first folded at their beginning; they are copied whole."""
    samples = itertools.count()
    folded = _SAMPLE.sub(lambda sample: _folded(sample) if next(samples) else sample[0], html)
    # An empty cell is no header.
    return folded.replace("<th></th>", "<td></td>")


def on_post_page(output: str, **_: object) -> str:
    """Return the page with a name for the dialog of the search."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def _folded(sample: re.Match[str]) -> str:
    before, code, after = sample.groups()
    text = unescape(_TAG.sub("", code))
    begin = 0
    while found := _IMPORTS.match(text, begin) or _OUTPUT.match(text, begin):
        begin = found.end()
    lines = text.count("\n", 0, begin)
    if lines <= _FEW_LINES or begin == len(text):
        return sample[0]
    kept = code.splitlines(keepends=True)
    hidden, shown = "".join(kept[:lines]), "".join(kept[lines:])
    fold = f'<label class="fold"><input type="checkbox" aria-label="Show the imports"><span>{hidden}</span></label>'
    whole = escape(text).replace("\n", "&#10;")
    return f'<div class="language-python highlight" data-copy="{whole}">{before}{fold}{shown}{after}'
