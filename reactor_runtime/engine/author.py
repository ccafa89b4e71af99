"""Bringing the author's class to life: import, check, make, load, with errors that point at the author's own line."""

from __future__ import annotations

import difflib
import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.model import Model
from reactor_runtime.errors import ClassError, LoadError, Location, ModelFailed, ReactorError, author_trail

OURS = Path(__file__).parent.parent


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
            where=_top_of(module),
        )
    if not isinstance(found, type) or not issubclass(found, Model):
        what = "a class" if isinstance(found, type) else type(found).__name__
        raise ClassError(
            f"{module_name}:{class_name} is {what}, not a model",
            hint="derive it from ReactorPipeline" if not candidates else _choices(class_name, candidates, module_name),
            where=_top_of(module),
        )
    return found


def compile_contract(model: type) -> Contract:
    """Check everything that can be known of the class without making one."""
    return Contract.of(model)


def make_model(model: type[Model], project: Path) -> Model:
    """Call the class without arguments; what its __init__ raises becomes a LoadError."""
    try:
        return model()
    except (Exception, SystemExit) as error:
        raise _author_error(LoadError, f"making {model.__name__} failed", error, project) from error


def call_load(model: Model, config: dict[str, Any], project: Path) -> None:
    """Call `load(config)`; what it raises becomes a LoadError that points at the author's line."""
    try:
        model.load(config)
    except (Exception, SystemExit) as error:
        raise _author_error(LoadError, "load() failed", error, project) from error


def session_failure(error: BaseException, project: Path) -> ModelFailed:
    """Turn what ended a session into an error that points at the author's line."""
    failure = _author_error(ModelFailed, "the model failed", error, project)
    assert isinstance(failure, ModelFailed), "made as one"
    return failure


def from_author(error: BaseException) -> BaseException:
    """Cut the frames of ours off the head of a traceback, so that a log begins with the author's code."""
    head = error.__traceback__
    while head is not None and Path(head.tb_frame.f_code.co_filename).is_relative_to(OURS):
        head = head.tb_next
    return error if head is None else error.with_traceback(head)


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
        raise _author_error(
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
    except (Exception, SystemExit) as error:
        raise _author_error(ClassError, f"importing {name} failed", error, project) from error


def _author_error(
    kind: type[ReactorError], what: str, error: BaseException, project: Path, *, hint: str = ""
) -> ReactorError:
    error = from_author(error)
    trail = author_trail(error.__traceback__, project)
    text = str(error)
    return kind(
        f"{what}: {type(error).__name__}{': ' + text if text else ''}",
        hint=hint,
        where=trail[-1] if trail else None,
        details="".join(traceback.format_exception(error)),
        trail=trail,
    )


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


def _top_of(module: ModuleType) -> Location | None:
    return Location(module.__file__, 1) if module.__file__ else None
