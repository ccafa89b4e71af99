"""Bringing the author's class in: its module imported, the class found, errors that point at the author's own line."""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from reactor_runtime.authoring.discovery import is_ours_module
from reactor_runtime.authoring.model import Model
from reactor_runtime.authoring.source import locate, place_of
from reactor_runtime.errors import ClassError, Location, author_error, author_trail


def import_class(project: Path, module_name: str, class_name: str) -> type:
    """Import the author's module from `project` and find the class in it; ClassError says why it can't be served."""
    sys.path.insert(0, str(project))
    module = _import_module(project, module_name)
    found = vars(module).get(class_name)
    candidates = _model_names(module)
    if found is None:
        raise ClassError(
            f"{module_name} has no class {class_name}",
            hint=_choices(class_name, candidates, module_name),
        )
    if not isinstance(found, type) or not issubclass(found, Model):
        what = "a class" if isinstance(found, type) else type(found).__name__
        raise ClassError(
            f"{module_name}:{class_name} is {what}, not a model",
            hint="derive it from ReactorPipeline" if not candidates else _choices(class_name, candidates, module_name),
            where=locate(found) if isinstance(found, type) else None,
        )
    return found


def _import_module(project: Path, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            modules = sorted(path.stem for path in project.glob("*.py"))
            raise ClassError(
                f"reactor.yaml names module {name!r}, which is neither in {project} nor installed",
                hint=_choices(name, modules, "the folder"),
            ) from error
        missing = (error.name or "").partition(".")[0]
        raise author_error(
            ClassError,
            f"importing {name} failed",
            error,
            project,
            hint=f"is it in requirements.txt and installed? pip install {missing}",
        ) from error
    except SyntaxError as error:
        where = Location(
            error.filename or name, error.lineno or 1, error.offset or 0, 0, (error.text or "").rstrip("\n")
        )
        raise ClassError(f"{type(error).__name__}: {error.msg}", where=where, details=traceback.format_exc()) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the author's code, or a library's of another language, raises
        raise _declaration(error, project) or author_error(
            ClassError, f"importing {name} failed", error, project
        ) from error


def _declaration(error: BaseException, project: Path) -> ClassError | None:
    """Say what is wrong with a declaration, which is what a TypeError or ValueError raised by our own code means."""
    frames = list(traceback.walk_tb(error.__traceback__))
    if not isinstance(error, TypeError | ValueError) or not is_ours_module(frames[-1][0].f_globals.get("__name__", "")):
        return None
    trail = author_trail(error.__traceback__, project)
    details = "".join(traceback.format_exception(error))
    return ClassError(str(error), where=place_of(error) or (trail[-1] if trail else None), details=details)


def _model_names(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Model) and not value.__module__.startswith("reactor_runtime.")
    )


def _choices(wanted: str, names: list[str], place: str) -> str:
    if not names:
        return f"there is none in {place} that would do"
    near = difflib.get_close_matches(wanted, names, n=1)
    return f"did you mean {near[0]}?" if near else f"{place} has: {', '.join(names)}"
