"""The keys of reactor.yaml about the page: title, description, colours, images, links, presets, a page of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reactor_runtime.config.yamlfile import YamlFile, name_of
from reactor_runtime.errors import ManifestError

# The folder of `reactor thumbnails` in a project, and its file that lists the images.
THUMBNAILS = "thumbnails"
THUMBNAILS_INDEX = "thumbnails.json"
PAGE_KEYS = ("title", "description", "accent", "logo", "links", "thumbnail", "presets")
_COLOR = re.compile("#[0-9a-fA-F]{6}")
_ADDRESS = re.compile(r"(https?://|mailto:)[^\s]+")
_IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".svg")
# Sites that show a preview of a link read these.
_PHOTOS = (".png", ".jpg", ".jpeg", ".webp")


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """Hold an image of what the model shows with some values: those of a preset, or an example of its main text."""

    values: Mapping[str, Any]
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings:
    """Hold what the page shows about the model: `description` is Markdown, `accent` a colour as "#rrggbb", or "".

    `presets` are named sets of values of state fields.
    """

    title: str = ""
    description: str = ""
    accent: str = ""
    logo: Path | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    thumbnail: Path | None = None
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    thumbnails: tuple[Thumbnail, ...] = ()


def text_of(file: YamlFile, key: str, example: str) -> str:
    """Return the text of a key, one line. Raises ManifestError that shows the example."""
    value = file.values[key]
    if isinstance(value, str) and value.strip() and value.isprintable():
        return value.strip()
    kind = "empty" if value == "" else name_of(value)
    problem = "must be one line of text" if isinstance(value, str) and value.strip() else f"is {kind}, not text"
    raise ManifestError(f'"{key}" {problem}', where=file.items[key], hint=f"write {example}")


def page_path(file: YamlFile) -> Path | None:
    """Return the directory of the author's own page."""
    if "page" not in file.keys:
        return None
    written = text_of(file, "page", "`page: my_page/`, or leave the key out")
    path = file.path.parent / Path(written).expanduser()
    if file.path.is_relative_to(path.resolve()):
        raise ManifestError(
            f"the page {written} contains {file.path.name}: it would publish the source and the config of the project",
            where=file.items["page"],
            hint="move index.html and its files to a directory of their own, such as my_page/",
        )
    if (path / "static").is_dir():
        raise ManifestError(
            f"the page {written} contains the directory static, but /static/ has the files of Reactor",
            where=file.items["page"],
            hint="rename it, for example to assets, and change the addresses in the page",
        )
    _refuse_outside(file, "page", written, path)
    if (path / "index.html").is_file():
        return path
    problem = "has no index.html" if path.is_dir() else "is not a directory" if path.exists() else "doesn't exist"
    raise ManifestError(
        f"the page {written} {problem}",
        where=file.items["page"],
        hint="the path is taken from the directory of reactor.yaml; leave the key out for the page of Reactor",
    )


def read_page_settings(file: YamlFile) -> PageSettings:
    """Return what the manifest says about the page. Raises ManifestError."""
    given = set(file.keys)
    settings: dict[str, Any] = {}
    if "title" in given:
        settings["title"] = text_of(file, "title", "`title: My model`")
    if "description" in given:
        settings["description"] = _long_text(file, "description")
    if "accent" in given:
        settings["accent"] = _color(file, "accent")
    if "logo" in given:
        settings["logo"] = _image(file, "logo", _IMAGES)
    if "links" in given:
        settings["links"] = _links(file)
    if "thumbnail" in given:
        settings["thumbnail"] = _image(file, "thumbnail", _PHOTOS)
    if "presets" in given:
        settings["presets"] = _presets(file)
    settings["thumbnails"] = _thumbnails(file)
    return PageSettings(**settings)


def thumbnails_json(images: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """Return the text of the index of a folder with thumbnails: values and the name of the image in the folder."""
    return json.dumps([{"values": values, "image": name} for values, name in images], indent=2) + "\n"


def _thumbnails(file: YamlFile) -> tuple[Thumbnail, ...]:
    folder = file.path.parent / THUMBNAILS
    index = folder / THUMBNAILS_INDEX
    if not index.is_file():
        return ()
    try:
        listed = [(dict(each["values"]), Path(each["image"])) for each in json.loads(index.read_text("utf-8"))]
    except (ValueError, TypeError, KeyError) as error:
        raise ManifestError(
            f"{THUMBNAILS}/{THUMBNAILS_INDEX} can't be read: {type(error).__name__}: {error}",
            hint="delete it, and run `reactor thumbnails`",
        ) from None
    # Clients get the files: only those that lie in the folder.
    found = [(values, (folder / name).resolve()) for values, name in listed if name.suffix == ".jpg"]
    folder = folder.resolve()
    return tuple(Thumbnail(values, path) for values, path in found if path.parent == folder and path.is_file())


def _long_text(file: YamlFile, key: str) -> str:
    value = file.values[key]
    if isinstance(value, str) and value.strip():
        return value
    raise ManifestError(
        f'"{key}" is {"empty" if value == "" else name_of(value)}, not text',
        where=file.items[key],
        hint=f"write `{key}: |` and the text below it, indented",
    )


def _color(file: YamlFile, key: str) -> str:
    value = file.values[key]
    if isinstance(value, str) and _COLOR.fullmatch(value):
        return value
    # Without quotes YAML takes # for the start of a comment, and the value is empty.
    shown = "empty" if value is None else json.dumps(str(value))
    raise ManifestError(
        f'"{key}" is {shown}, not a colour',
        where=file.items[key],
        hint=f'write `{key}: "#ff8800"`, with the quotes',
    )


def _image(file: YamlFile, key: str, suffixes: Sequence[str]) -> Path:
    written = text_of(file, key, f"`{key}: {key}.png`")
    path = file.path.parent / Path(written).expanduser()
    hint = f"name an image in the directory of {file.path.name}, with one of the suffixes {', '.join(suffixes)}"
    if path.suffix.lower() not in suffixes:
        raise ManifestError(
            f'"{key}" names {written}, which has no suffix of an image', where=file.items[key], hint=hint
        )
    if not path.is_file():
        raise ManifestError(f'"{key}" names {written}, which is not a file', where=file.items[key], hint=hint)
    _refuse_outside(file, key, written, path)
    # The name may be a link to any file of the project.
    if path.resolve().suffix.lower() not in suffixes:
        raise ManifestError(f'"{key}" is a link to a file that is no image', where=file.items[key], hint=hint)
    return path.resolve()


def _refuse_outside(file: YamlFile, key: str, written: str, path: Path) -> None:
    """Raise ManifestError for a path that leads out of the project, because clients get the files at this path."""
    if file.path.parent not in path.resolve().parents:
        raise ManifestError(
            f'"{key}" names {written}, which is not in the project',
            where=file.items[key],
            hint=f"copy it into the directory of {file.path.name}; a link that leads out of it is not followed",
        )


def _links(file: YamlFile) -> dict[str, str]:
    links = _mapping(file, "links", "`links: {Paper: https://example.org/paper}`")
    for name, address in links.items():
        if not isinstance(address, str) or not _ADDRESS.fullmatch(address):
            raise ManifestError(
                f'the link "{name}" is {json.dumps(str(address))}, not an address',
                where=file.items["links"],
                hint=f"write `{name}: https://example.org/paper`",
            )
    return links


def _presets(file: YamlFile) -> dict[str, dict[str, Any]]:
    example = "`presets: {Night: {prompt: a harbour at night, strength: 0.5}}`"
    presets = _mapping(file, "presets", example)
    for name, values in presets.items():
        problem = _unfit_preset(values)
        if problem:
            raise ManifestError(
                f'the preset "{name}" {problem}', where=file.items["presets"], hint=f"write {example}, with field names"
            )
    return presets


def _unfit_preset(values: object) -> str:
    if not isinstance(values, dict) or not values or not all(isinstance(name, str) for name in values):
        return "is not a mapping of fields to values"
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"can't be sent as JSON: {error}"
    return ""


def _mapping(file: YamlFile, key: str, example: str) -> dict[str, Any]:
    value = file.values[key]
    if isinstance(value, dict) and value and all(isinstance(name, str) and name.strip() for name in value):
        return value
    problem = "is empty" if not value else f"is {name_of(value)}, not a mapping of names"
    raise ManifestError(f'"{key}" {problem}', where=file.items[key], hint=f"write {example}")
