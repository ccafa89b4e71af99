"""Serves a model from a Python program, instead of `reactor run`.

Importing this file imports neither the server nor the command line.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactor_runtime.authoring.importing import is_importing
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError, UsageError

if TYPE_CHECKING:
    from reactor_runtime.manifest import Manifest

NO_FILE_HINT = "save the class in a file, such as my_model.py, and write `from my_model import MyModel`"


def serve(model: type[Model], **options: Any) -> None:
    """Serve a model until a signal, as `reactor run` does; use on the main thread.

    The options of `reactor run` are keywords: `port=9000`, `open=True`, `allow_host=["example.org"]`,
    `set={"train.lr": 0.001}`. The project is the directory of the file with the class; its `reactor.yaml` is optional.
    Prints errors as `reactor run` does, and raises SystemExit with its exit code. Raises ClassError for a class that
    the model's process could not import, and UsageError where an event loop runs. Returns at once while a server
    imports the model's file: the call in a script needs no `if __name__ == "__main__":`.
    """
    if is_importing():
        return
    manifest = manifest_of(model)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise UsageError(
            "serve() blocks, and an event loop runs in this thread, as in a notebook",
            hint="run a script of its own: `python my_model.py`",
        )
    from reactor_cli import app

    code = app.main(["run", *arguments_of(options)], manifest=manifest)
    if code:
        raise SystemExit(code)


def manifest_of(model: type[Model]) -> Manifest:
    """Return the manifest for a class; raise ClassError if no other process can import the class."""
    from reactor_runtime import manifest

    if not isinstance(model, type) or not issubclass(model, Model):
        raise ClassError(f"{model!r} is not a class of a model", hint="serve(MyModel), the class and not an object")
    name = model.__name__
    if model.__qualname__ != name:
        raise ClassError(
            f"{model.__qualname__} is not at the top level of a file, where the model's process could import it",
            hint=f"move `class {name}` out of the function or class",
        )
    module, file = _module_of(model)
    depth = module.count(".") + (file.name == "__init__.py")
    return manifest.of_class(file.parents[depth], module, name)


def _module_of(model: type[Model]) -> tuple[str, Path]:
    """Return the name under which the module of a class can be imported, and its file."""
    module = sys.modules.get(model.__module__)
    written = None if module is None else module.__dict__.get("__file__")
    if module is None or written is None or not Path(written).is_file():
        raise ClassError(
            f"{model.__name__} is not in a file: the model's process can't import a class of a notebook or a prompt",
            hint=NO_FILE_HINT,
        )
    file = Path(written).resolve()
    if module.__name__ != "__main__":
        return module.__name__, file
    # A script has no spec, unless it was started with `python -m`.
    name = file.stem if module.__spec__ is None else module.__spec__.name
    if name == "__main__" or (module.__spec__ is None and "." in name):
        raise ClassError(f"{file.name} can't be imported under its name", hint="rename it, as in my_model.py")
    return name, file


def arguments_of(options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `reactor run` for options given by keyword."""
    arguments = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if name == "set" and isinstance(value, Mapping):
            # As JSON, which is YAML.
            value = [f"{key}={json.dumps(each, ensure_ascii=False)}" for key, each in value.items()]
        if value is True:
            arguments.append(option)
        elif value is not False and value is not None:
            arguments += [f"{option}={each}" for each in (value if isinstance(value, list | tuple) else [value])]
    return arguments
