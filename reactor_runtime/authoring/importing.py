"""Imports the author's module, finds the class, and turns failures into errors that point at the author's line."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from reactor_runtime.authoring.code.source import attached_location, location_of
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.styles import NO_MODEL_HINT
from reactor_runtime.authoring.tracks.discovery import is_ours_module
from reactor_runtime.errors import ClassError, Location, author_error, author_trail

_IMPORTED = "__reactor_imported__"


def import_class(project: Path, module_name: str, class_name: str) -> type:
    """Import the module from `project` and return the class; raise ClassError with the reason if it can't be served."""
    # At each reload, modules may add the folders again that they added before.
    sys.path[:] = dict.fromkeys([str(project), *sys.path])
    module = _import_module(project, module_name)
    found = vars(module).get(class_name)
    candidates = _model_names(module)
    if not candidates and (error := _wrong_module_error(project, module)):
        raise error
    if found is None:
        raise ClassError(
            f"{module_name} has no class {class_name}",
            hint=_suggestion(class_name, candidates, module_name),
        )
    ours = isinstance(found, type) and is_ours_module(found.__module__)
    if not isinstance(found, type) or not issubclass(found, Model) or ours:
        what = "Reactor's own class" if ours else "a class" if isinstance(found, type) else type(found).__name__
        raise ClassError(
            f"{module_name}:{class_name} is {what}, not a model",
            hint=_derive(found) if not candidates else _suggestion(class_name, candidates, module_name),
            where=location_of(found) if isinstance(found, type) and not ours else None,
        )
    setattr(found, _IMPORTED, True)
    return found


def imported_class() -> type[Model] | None:
    """Return the class that `import_class` returned in this process, the newest after a reload; None if it has not."""
    found: type[Model] | None = None
    classes: list[type[Model]] = [Model]
    while classes:
        cls = classes.pop(0)
        found = cls if _IMPORTED in vars(cls) else found
        # In the order of their definition.
        classes += cls.__subclasses__()
    return found


def is_importing() -> bool:
    """Return whether `import_class` calls this code: it is in the author's module, or in one that it imports."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code is import_class.__code__:
            return True
        frame = frame.f_back
    return False


def _derive(found: object) -> str:
    """Return a hint for deriving a model, from the named class if it is one of Reactor's."""
    if isinstance(found, type) and issubclass(found, Model):
        return f"derive yours from it: class MyModel({found.__name__})"
    return NO_MODEL_HINT


def _file_of(module: ModuleType) -> Path | None:
    spec = module.__spec__
    return Path(spec.origin).resolve() if spec is not None and spec.has_location and spec.origin else None


def _wrong_module_error(project: Path, module: ModuleType) -> ClassError | None:
    """Return an error if another module has the name that reactor.yaml gives: Python's own or an installed one."""
    name, file = module.__name__, _file_of(module)
    if file is not None and project.resolve() in file.parents:
        return None
    own = project.joinpath(*name.split(".")).with_suffix(".py")
    return ClassError(
        f"reactor.yaml names module {name!r}, which is not the project's but {file or 'built into Python'}",
        hint=f"rename {own.name}: the name is taken"
        if own.is_file()
        else _suggestion(name, _modules(project), "the folder"),
    )


def _modules(project: Path) -> list[str]:
    return sorted(path.stem for path in project.glob("*.py"))


def _import_module(project: Path, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ClassError(
                f"reactor.yaml names module {name!r}, which is neither in {project} nor installed",
                hint=_suggestion(name, _modules(project), "the folder"),
            ) from error
        raise author_error(ClassError, f"importing {name} failed", error, project) from error
    except SyntaxError as error:
        file = error.filename or str(project.joinpath(*name.split(".")).with_suffix(".py"))
        where = Location(file, error.lineno or 1, error.offset or 0, 0, (error.text or "").rstrip("\n"))
        raise ClassError(f"{type(error).__name__}: {error.msg}", where=where, details=traceback.format_exc()) from error
    except ImportError as error:
        raise author_error(
            ClassError, f"importing {name} failed", error, project, hint=_import_hint(str(error))
        ) from error
    # The author's code, or a native library, may raise anything.
    except BaseException as error:
        raise _declaration_error(error, project) or author_error(
            ClassError, f"importing {name} failed", error, project
        ) from error


def _declaration_error(error: BaseException, project: Path) -> ClassError | None:
    """Return an error for a wrong declaration: a TypeError or ValueError that our own code raised."""
    last, _ = list(traceback.walk_tb(error.__traceback__))[-1]
    if not isinstance(error, TypeError | ValueError) or not is_ours_module(last.f_globals.get("__name__", "")):
        return None
    trail = author_trail(traceback.extract_tb(error.__traceback__), project)
    details = "".join(traceback.format_exception(error))
    return ClassError(str(error), where=attached_location(error) or (trail[-1] if trail else None), details=details)


def _import_hint(message: str) -> str:
    if "partially initialized" in message:
        return "two modules import each other; move what both need into a third"
    if "relative import" in message:
        return "write it without the dot: the project's folder is where modules are looked for"
    return ""


def _model_names(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Model) and not value.__module__.startswith("reactor_runtime.")
    )


def _suggestion(wanted: str, names: list[str], place: str) -> str:
    if not names:
        return f"there is no model in {place}"
    near = difflib.get_close_matches(wanted, names, n=1)
    return f"did you mean {near[0]}?" if near else f"{place} has: {', '.join(names)}"
