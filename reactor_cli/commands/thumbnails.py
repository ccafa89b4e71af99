"""`reactor thumbnails`: an image for each preset and each example, which the page shows on its button."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    Directory,
    Overrides,
    PathOption,
    Verbose,
    project_config,
    read_project,
    typer_parser,
)
from reactor_cli.errors import render as render_error
from reactor_cli.interrupts import INTERRUPTED, interrupts
from reactor_cli.offline import offline
from reactor_cli.run_progress import RunProgress
from reactor_runtime.errors import ReactorError, UsageError
from reactor_runtime.options.option import duration

if TYPE_CHECKING:
    from reactor_runtime.config import GivenConfig
    from reactor_runtime.manifest import Manifest

DEFAULT_S = 2.0

EPILOG = """
\b
Examples:
  reactor thumbnails                          images after 2 s of a session
  reactor thumbnails my-model --seconds 10    of a model that takes longer

\b
Exit codes: 0 done; 1 the model failed; 2 an error in the command, the
manifest, the config or the class; 4 load() failed; 130 interrupted, and
nothing is changed.
"""


def thumbnails(
    context: typer.Context,
    directory: Directory = None,
    path: PathOption = None,
    overrides: Overrides = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            parser=typer_parser(duration),
            metavar="TIME",
            help="The time of a session at which its image is taken.",
            show_default="2 s",
        ),
    ] = DEFAULT_S,
    verbose: Verbose = False,
) -> int:
    """Make an image for each preset and each example of the prompt.

    Loads the model once, runs a short session for each of them without a server, and writes its last frame as a small
    JPEG to the folder thumbnails in the project. The page shows the images on the buttons. Run it again after a change
    of presets, examples or model.
    """
    context.ensure_object(console.Settings).verbose = verbose
    checked = read_project(directory, path)
    config = project_config(checked, overrides)
    with offline(checked):
        written = _render(checked, config, seconds, verbose=verbose)
    for image, name in written:
        console.out(f"{console.paint(console.printable(str(image)), 'bold')}  {console.printable(name)}")
    return 0 if written else INTERRUPTED


def _render(checked: Manifest, config: GivenConfig, seconds: float, *, verbose: bool) -> list[tuple[Path, str]]:
    """Make and write all images; return their paths and what they are of, nothing after Ctrl-C."""
    from reactor_runtime import schema
    from reactor_runtime.manifest.page_settings import THUMBNAILS, THUMBNAILS_INDEX, thumbnails_json
    from reactor_runtime.rendering.renderer import Renderer
    from reactor_runtime.rendering.thumbnails import render_thumbnail, subjects

    presets = checked.page_settings.presets
    contract = schema.contract_of(checked.project, checked.module, checked.class_name, presets, config)
    wanted = subjects(contract, presets)
    if not wanted:
        raise UsageError(
            "the project has no presets, and no examples of a prompt",
            hint="add `presets:` to reactor.yaml, or examples=[…] to the field of the prompt",
        )
    images: dict[str, bytes] = {}
    with (
        RunProgress("rendering", len(wanted), "images") as progress,
        Renderer.load(contract, config, checked.project) as renderer,
        interrupts(progress.close) as stop,
    ):
        progress.begin_work()

        def warn(warning: ReactorError) -> None:
            console.err(render_error(warning, verbose=verbose, label="warning"))

        for number, subject in enumerate(wanted, 1):
            image = render_thumbnail(renderer, contract, subject, seconds, on_warning=warn, is_stopped=stop.is_set)
            if image is None:
                return []
            images[subject.file_name(number)] = image
            progress.update(number)
    folder = checked.project / THUMBNAILS
    folder.mkdir(exist_ok=True)
    for name, image in images.items():
        (folder / name).write_bytes(image)
    named = zip((subject.values for subject in wanted), images, strict=True)
    (folder / THUMBNAILS_INDEX).write_text(thumbnails_json(list(named)), encoding="utf-8")
    return [(Path(THUMBNAILS, name), subject.name) for name, subject in zip(images, wanted, strict=True)]
