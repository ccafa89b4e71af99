"""The HTML of the page: `index.html` with the texts of `reactor.yaml`, and the tags that sites show for a link."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from reactor_runtime import manifest as manifest_file
from reactor_runtime.errors import ReactorError
from reactor_runtime.manifest import Manifest
from reactor_runtime.manifest.page_settings import THUMBNAILS, PageSettings, Thumbnail
from reactor_runtime.server.security.middleware import IMAGE_FOLDER

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MOST_CHARACTERS = 200
HEADING = '<h1 id="model">Reactor</h1>'


class PageDocument:
    """Make the HTML of a page whose settings are fixed; `html` is that of `index.html`."""

    def __init__(self, html: str, settings: PageSettings) -> None:
        self._settings = settings
        self._description = ""
        self._summary = ""
        if settings.description:
            markdown = _markdown()
            self._description = markdown.render(settings.description)
            self._summary = _plain_text(markdown, settings.description)
        self._html = self._with_body(html)

    @property
    def images(self) -> dict[str, Path]:
        """Return the author's images by their names below the route of files."""
        named = {"logo": self._settings.logo, "thumbnail": self._settings.thumbnail}
        thumbnails = {_thumbnail_name(each): each.path for each in self._settings.thumbnails}
        return {_file_name(name, path): path for name, path in named.items() if path is not None} | thumbnails

    def render(self, name: str, base_url: str, snapshot: str | None) -> str:
        """Return the HTML; `name` is the model's, `snapshot` the path of an image for a page without a thumbnail."""
        title = self._settings.title or name
        thumbnail = self._settings.thumbnail
        image = snapshot if thumbnail is None else f"static/{_file_name('thumbnail', thumbnail)}"
        tags = {
            "og:type": "website",
            "og:title": title,
            "og:description": self._summary,
            "og:url": base_url,
            "og:image": f"{base_url}{image}" if image else "",
            "twitter:card": "summary_large_image" if image else "",
        }
        lines = [f'  <meta property="{key}" content="{escape(text)}">\n' for key, text in tags.items() if text]
        if self._summary:
            lines.append(f'  <meta name="description" content="{escape(self._summary)}">\n')
        page = self._html.replace("<title>Reactor</title>", f"<title>{escape(title)}</title>", 1)
        page = page.replace(HEADING, HEADING.replace("Reactor", escape(name)), 1)
        return page.replace("</head>", f"{''.join(lines)}</head>", 1)

    def _with_body(self, html: str) -> str:
        """Return the HTML with the settings that no request changes."""
        settings = self._settings
        if settings.accent:
            html = html.replace("<html ", f'<html data-accent="{settings.accent}" ', 1)
        if settings.title:
            title = escape(settings.title)
            html = html.replace(HEADING, f'<h1 id="model" data-title="{title}">{title}</h1>', 1)
        if settings.logo is not None:
            logo = f'<img class="logo" src="static/{escape(_file_name("logo", settings.logo))}" alt="">'
            html = html.replace('<h1 id="model"', f'{logo}\n    <h1 id="model"', 1)
        if settings.presets:
            presets = escape(json.dumps(settings.presets))
            html = html.replace('<fieldset id="controls"', f'<fieldset id="controls" data-presets="{presets}"', 1)
        if settings.thumbnails:
            shown = [
                {"values": each.values, "image": f"static/{_thumbnail_name(each)}"} for each in settings.thumbnails
            ]
            thumbnails = escape(json.dumps(shown))
            html = html.replace('<fieldset id="controls"', f'<fieldset id="controls" data-thumbnails="{thumbnails}"', 1)
        side = '<div class="side" id="side">'
        return html.replace(side, f"{side}{self._about()}", 1)

    def _about(self) -> str:
        links = "".join(
            f'<li><a href="{escape(address)}" target="_blank" rel="noopener">{escape(name)}</a></li>'
            for name, address in self._settings.links.items()
        )
        parts = self._description + (f"<ul>{links}</ul>" if links else "")
        # The styles of the panel, loaded later, show it.
        return (
            f'\n<section class="about" id="about" aria-label="About the model" hidden>{parts}</section>'
            if parts
            else ""
        )


class SavedPage:
    """Read the settings of the page from the saved manifest; `document` is the same until a setting changes."""

    def __init__(self, html: str, manifest: Manifest) -> None:
        self.document = PageDocument(html, manifest.page_settings)
        self._html = html
        self._project = manifest.project
        # Compared as text: in presets 1 and True are not the same.
        self._settings = repr(manifest.page_settings)

    def read(self) -> PageDocument:
        """Return the document of the manifest as it is saved now, or the last one if it can't be read."""
        try:
            settings = manifest_file.load(self._project).page_settings
        # The reload reports an error in it; a class that is given to serve() needs no manifest.
        except ReactorError:
            return self.document
        if repr(settings) != self._settings:
            self.document = PageDocument(self._html, settings)
            self._settings = repr(settings)
        return self.document


def _markdown() -> MarkdownIt:
    # Imported here because few projects have a description.
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore

    def in_new_tabs(state: StateCore) -> None:
        for token in state.tokens:
            for child in token.children or ():
                if child.type == "link_open":
                    child.attrs.update(target="_blank", rel="noopener")

    # HTML in the text is escaped, and addresses such as javascript: are no links.
    markdown = MarkdownIt("commonmark", {"html": False}).disable("image")
    markdown.core.ruler.push("in_new_tabs", in_new_tabs)
    return markdown


def _plain_text(markdown: MarkdownIt, description: str) -> str:
    """Return the beginning of the description, without its marks."""
    kept = ("text", "code_inline", "softbreak", "hardbreak")
    texts = [
        "".join(child.content or " " for child in token.children if child.type in kept)
        for token in markdown.parse(description)
        if token.children
    ]
    text = " ".join(" ".join(texts).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS].rsplit(' ', 1)[0]}…"


def _thumbnail_name(thumbnail: Thumbnail) -> str:
    return f"{IMAGE_FOLDER}/{THUMBNAILS}/{thumbnail.path.name}"


def _file_name(name: str, path: Path) -> str:
    return f"{IMAGE_FOLDER}/{name}{path.suffix.lower()}"
