"""Checks in the source of a model class that it has the method that makes its frames, before anything is loaded.

A class that may be right is accepted, such as one without source: `load()` can assign the method, and a method can
return the generator of another one.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import itertools
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import NoReturn

from reactor_runtime.authoring.code.source import definition_of, location_of, return_location
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.authoring.tracks.discovery import is_ours
from reactor_runtime.authoring.tracks.tracks import Output
from reactor_runtime.errors import ClassError

_ARRAYS = ("numpy", "torch")


def defines(model: type, method: str) -> bool:
    """Return whether an author's class has `method`, or code that names it and may assign it."""
    return any(method in vars(owner) or _names(owner, method, (ast.Store,)) for owner in _authors(model))


def raise_missing(model: type, method: str, hint: str) -> NoReturn:
    """Raise ClassError for a class without `method`; it names the method that is probably meant, else `hint`."""
    meant = _nearest(model, method)
    raise ClassError(
        f"{model.__name__} has no {method}()",
        hint=f"did you mean {method}() by {meant}()?" if meant else hint,
        where=location_of(model, meant),
    )


def find_misspelt(model: type, method: str) -> str:
    """Return a method with almost the name of `method` that no code of the model uses; "" if there is none."""
    names = [name for name in _methods(model) if not any(_names(owner, name) for owner in _authors(model))]
    return next(iter(difflib.get_close_matches(method, names, n=1)), "")


def check_yields(model: type, method: str) -> None:
    """Raise ClassError for a method that is no generator and returns none."""
    function = inspect.getattr_static(model, method, None)
    if not isinstance(function, FunctionType) or _yields(function):
        return
    # The call of an async function without `yield` returns a coroutine, whatever that returns.
    if not inspect.iscoroutinefunction(function) and not _returns_frames(function):
        return
    raise ClassError(
        f"{model.__name__}.{method}() never yields",
        hint=f"{method}() is a generator: `yield` one output a step in a loop, and do not `return` it",
        where=return_location(model, method),
    )


def _nearest(model: type, method: str) -> str:
    """Return the method that is probably meant: one of almost the same name, else the only one that yields."""
    unused = find_misspelt(model, method)
    yielding = [name for name, function in _methods(model).items() if _yields(function)]
    return unused or (yielding[0] if len(yielding) == 1 else "")


def _methods(model: type) -> dict[str, FunctionType]:
    """Return the methods of the author's classes that the runtime does not call."""
    called = {"load", "process_input", "process_output", *handlers_of(model)}
    return {
        name: value
        for owner in _authors(model)
        for name, value in vars(owner).items()
        if isinstance(value, FunctionType) and not name.startswith("_") and name not in called
    }


def _authors(model: type) -> list[type]:
    return [owner for owner in model.__mro__ if owner is not object and not is_ours(owner)]


def _names(owner: type, name: str, contexts: tuple[type[ast.expr_context], ...] = (ast.expr_context,)) -> bool:
    """Return whether the code of a class contains `name` as an attribute or as a string; True without source."""
    definition = definition_of(owner)
    return definition is None or any(
        (isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, contexts))
        or (isinstance(node, ast.Constant) and node.value == name)
        for node in ast.walk(definition)
    )


def _yields(function: FunctionType) -> bool:
    plain = inspect.unwrap(function)
    return inspect.isgeneratorfunction(plain) or inspect.isasyncgenfunction(plain)


def _returns_frames(function: FunctionType) -> bool:
    """Return whether a function returns only outputs and arrays, or nothing."""
    definition = definition_of(function)
    if definition is None or isinstance(definition.body[-1], ast.Raise):
        return False
    inside = list(_own_nodes(definition))
    assigned: dict[str, list[ast.expr]] = {}
    for node in inside:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(node.value)
    returned = [node.value for node in inside if isinstance(node, ast.Return) and node.value is not None]
    values = [assigned.get(each.id, [each]) if isinstance(each, ast.Name) else [each] for each in returned]
    return all(_makes_frames(value, function) for value in itertools.chain(*values))


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of the functions in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _own_nodes(child)


def _makes_frames(value: ast.expr, function: FunctionType) -> bool:
    """Return whether an expression is known to be an output or an array: a call of its class, or of NumPy or torch."""
    if not isinstance(value, ast.Call):
        return isinstance(value, ast.Constant | ast.Tuple | ast.List | ast.Dict)
    called = value.func
    while isinstance(called, ast.Attribute | ast.Call):
        # `np.stack(…).astype(…)` begins with np.
        called = called.value if isinstance(called, ast.Attribute) else called.func
    made_by = function.__globals__.get(called.id) if isinstance(called, ast.Name) else None
    if isinstance(made_by, ModuleType):
        return made_by.__name__ in _ARRAYS
    return isinstance(made_by, type) and issubclass(made_by, Output)
