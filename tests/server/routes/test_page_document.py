"""The HTML of the page: the texts of the manifest in it, and nothing that a text could inject."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from reactor_runtime import manifest
from reactor_runtime.manifest.page_settings import PageSettings, Thumbnail
from reactor_runtime.server.routes.page_document import PageDocument, SavedPage
from reactor_runtime.server.routes.pages import PAGE

HTML = (PAGE / "index.html").read_text(encoding="utf-8")
URL = "https://example.org/models/"


def render(settings: PageSettings, snapshot: str | None = "snapshot/main_video.jpg") -> str:
    return PageDocument(HTML, settings).render("my-model", URL, snapshot)


def test_without_settings_only_the_head_and_the_name_change() -> None:
    page = render(PageSettings())
    assert "<title>my-model</title>" in page
    assert '<meta property="og:title" content="my-model">' in page
    assert f'<meta property="og:image" content="{URL}snapshot/main_video.jpg">' in page
    assert '<h1 id="model">my-model</h1>' in page
    assert page.partition("</head>")[2] == HTML.partition("</head>")[2].replace(">Reactor<", ">my-model<")


def test_without_a_frame_or_thumbnail_there_is_no_image() -> None:
    assert "og:image" not in render(PageSettings(), snapshot=None)


def test_every_setting_is_in_the_page() -> None:
    settings = PageSettings(
        title="Aurora",
        description="Paints *light*.\n\nTry [the paper](https://example.org/a).",
        accent="#ff8800",
        logo=Path("art/mark.SVG"),
        thumbnail=Path("art/wide.png"),
        links={"Code": "https://example.org/code"},
        presets={"Night": {"prompt": "a harbour"}},
        thumbnails=(Thumbnail({"prompt": "a harbour"}, Path("art/thumbnails/1-night.jpg")),),
    )
    page = render(settings)
    assert '<html data-accent="#ff8800" ' in page
    assert '<img class="logo" src="static/author/logo.svg" alt="">' in page
    assert '<h1 id="model" data-title="Aurora">Aurora</h1>' in page
    assert "<p>Paints <em>light</em>.</p>" in page
    assert '<a href="https://example.org/a" target="_blank" rel="noopener">the paper</a>' in page
    assert '<li><a href="https://example.org/code" target="_blank" rel="noopener">Code</a></li>' in page
    assert 'data-presets="{&quot;Night&quot;: {&quot;prompt&quot;: &quot;a harbour&quot;}}"' in page
    assert '<meta property="og:description" content="Paints light. Try the paper.">' in page
    assert f'<meta property="og:image" content="{URL}static/author/thumbnail.png">' in page
    shown = '[{"values": {"prompt": "a harbour"}, "image": "static/author/thumbnails/1-night.jpg"}]'
    assert f'data-thumbnails="{escape(shown)}"' in page
    assert PageDocument(HTML, settings).images == {
        "author/thumbnails/1-night.jpg": Path("art/thumbnails/1-night.jpg"),
        "author/logo.svg": Path("art/mark.SVG"),
        "author/thumbnail.png": Path("art/wide.png"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "[x](javascript:alert(1))",
        "![x](https://example.org/x.png)",
        "<b onclick=alert(1)>x</b>",
    ],
)
def test_no_text_becomes_markup(text: str) -> None:
    page, plain = (
        render(
            PageSettings(
                title=each,
                description=each,
                links={each: "https://example.org"},
                presets={each: {"a": each}},
            )
        )
        for each in (text, "x")
    )
    for tag in ("<script", "<img", "<b ", "href="):
        assert page.count(tag) == plain.count(tag) + (tag == "href=" and text.startswith("![")), tag
    assert 'href="javascript' not in page


def test_line_breaks_of_the_description_separate_words() -> None:
    page = render(PageSettings(description="first line  \nsecond\\\nthird\nfourth"))
    assert 'content="first line second third fourth"' in page


def test_a_long_description_is_cut_between_words() -> None:
    page = render(PageSettings(description="word " * 100))
    assert f'content="{"word " * 39}word…"' in page


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text("")
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\npresets: {Fast: {steps: 1}}\n")
    return tmp_path


def test_the_page_of_a_saved_manifest_is_made_anew_when_a_setting_changes(project: Path) -> None:
    page = SavedPage(HTML, manifest.load(project))
    first = page.read()
    file = project / "reactor.yaml"
    # The settings are the same.
    file.write_text(f"# a comment\n{file.read_text()}name: another\n")
    assert page.read() is first
    # 1 == True
    file.write_text("model: pipeline:MyModel\npresets: {Fast: {steps: true}}\n")
    assert "{&quot;steps&quot;: true}" in page.read().render("my-model", URL, None)
    assert page.read() is page.read() is page.document


def test_a_manifest_that_can_t_be_read_leaves_the_last_page(project: Path) -> None:
    page = SavedPage(HTML, manifest.load(project))
    (project / "reactor.yaml").write_text("model: pipeline:MyModel\ntitle: Aurora\n")
    last = page.read()
    (project / "reactor.yaml").write_text("model: [")
    assert page.read() is last
    assert "Aurora" in last.render("my-model", URL, None)
