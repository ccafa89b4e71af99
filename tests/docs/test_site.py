"""What the hook of mkdocs.yml makes of samples; `make docs` builds the whole site."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import pytest

from tests.docs.snippets import ROOT

FIRST = '<div class="language-python highlight"><pre><code>import a\nimport b\n\n\nx = 1\n</code></pre></div>'
SAMPLE = """import a
from b import (
    c,
)


class MyOutput(Output):
    main_video: Video


class MyModel:
    name = "<&>"
"""


DECLARATIONS = ("reactor_runtime/page/client/reactor.d.ts", "clients/js/react.d.ts")


@pytest.fixture(scope="module")
def site_hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_hook", ROOT / ".ci" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def on_page_content(site_hook: ModuleType) -> Callable[[str], str]:
    hook: Callable[[str], str] = site_hook.on_page_content
    return hook


class Reader(HTMLParser):
    """Collect what is copied, and the texts inside and outside of folds."""

    def __init__(self) -> None:
        super().__init__()
        self.copied, self.folded, self.shown = "", "", ""
        self._in_fold = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.copied += dict(attrs).get("data-copy") or ""
        self._in_fold = self._in_fold or tag == "label"

    def handle_endtag(self, tag: str) -> None:
        self._in_fold = self._in_fold and tag != "label"

    def handle_data(self, data: str) -> None:
        if self._in_fold:
            self.folded += data
        else:
            self.shown += data


def sample(text: str) -> str:
    code = text.replace("&", "&amp;").replace("<", "&lt;").replace("import", '<span class="kn">import</span>')
    return f'<div class="language-python highlight"><pre><span></span><code>{code}</code></pre></div>'


def test_imports_and_the_usual_output_are_folded_and_everything_is_copied(
    on_page_content: Callable[[str], str],
) -> None:
    reader = Reader()
    reader.feed(on_page_content(FIRST + sample(SAMPLE)).removeprefix(FIRST))
    assert reader.shown == 'class MyModel:\n    name = "<&>"\n'
    assert reader.folded + reader.shown == reader.copied == SAMPLE


@pytest.mark.parametrize("text", ["import a\nx = 1\n", "import a\nimport b\n\nimport c\n", "x = 1\n\n\nimport a\n"])
def test_a_short_beginning_or_nothing_but_one_is_shown(on_page_content: Callable[[str], str], text: str) -> None:
    html = FIRST + sample(text)
    assert on_page_content(html) == html


@pytest.mark.parametrize("file", DECLARATIONS)
def test_every_export_of_the_javascript_client_has_a_comment_on_its_page(site_hook: ModuleType, file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    page = site_hook.declarations(text)
    exported = {line.split()[2].split("<")[0].split("(")[0] for line in text.splitlines() if line.startswith("export ")}
    assert set(re.findall(r"^### (\w+)\n\n```ts\n/\*\*", page, re.MULTILINE)) == exported
    assert f"<!-- declarations of {file} -->" in (ROOT / "docs" / "reference-js.md").read_text(encoding="utf-8")


def test_the_home_page_leaves_the_list_of_pages_to_the_navigation(site_hook: ModuleType) -> None:
    home = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    shown = site_hook.on_page_markdown(home, page=SimpleNamespace(file=SimpleNamespace(src_uri="README.md")))
    assert "## " not in shown
    assert shown.count("- **[") == 3
