"""A hook of mkdocs.yml, for what GitHub shows and the site does not: titles without quotes, links that leave docs/."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

_TITLE = re.compile(r"^( *```\w+ title=)(\S+)$", re.MULTILINE)
_UP = re.compile(r"\[([^]]+)\]\(((?:\.\./)+)[^)]*\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Return the page with quoted titles of code blocks, and with text in place of links to files outside of docs/."""
    depth = len(PurePosixPath(page.file.src_uri).parts) - 1

    def text_if_outside(link: re.Match[str]) -> str:
        return link[1] if link[2].count("../") > depth else link[0]

    return _UP.sub(text_if_outside, _TITLE.sub(r'\1"\2"', markdown))
