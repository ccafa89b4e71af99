"""A hook of mkdocs.yml: quote the titles of code blocks, which Markdown for the site requires and GitHub does not."""

from __future__ import annotations

import re

_TITLE = re.compile(r"^( *```\w+ title=)(\S+)$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page with `title="pipeline.py"` in place of `title=pipeline.py`."""
    return _TITLE.sub(r'\1"\2"', markdown)
