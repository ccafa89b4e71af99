"""Finds the location of a declaration in the author's files: class, member, method or parameter."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType

from reactor_runtime.errors import Location, is_ours

_LOCATION = "__reactor_location__"
_OURS = __name__.partition(".")[0]
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@contextmanager
def declared_at(owner: type | FunctionType, member: str = "", *, returning: bool = False) -> Iterator[None]:
    """Attach the location of a declaration to a TypeError or ValueError raised inside.

    A location attached further inside is kept. `member` is a field or method of a class, or a parameter of a function;
    without it the location is the owner's. `returning` selects the `return` of that method.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        # Located now, because a module whose import has failed can't be found later.
        if _LOCATION not in vars(error):
            of_return = return_location(owner, member) if returning and isinstance(owner, type) else None
            vars(error)[_LOCATION] = of_return or location_of(owner, member)
        raise


def attach_location(error: BaseException, location: Location) -> None:
    """Attach a location to an error; one that is attached already is kept."""
    vars(error).setdefault(_LOCATION, location)


def attached_location(error: BaseException) -> Location | None:
    """Return the location attached to an error; None if there is none or no source."""
    location: Location | None = vars(error).get(_LOCATION)
    return location


def location_of(owner: object, member: str = "") -> Location | None:
    """Find a class or function, or a member of it; None for anything else. Members are searched along the MRO."""
    if isinstance(owner, FunctionType):
        return _node_location(owner.__code__.co_filename, _parameter(_function(owner), member))
    if not isinstance(owner, type):
        return None
    authors = [cls for cls in owner.__mro__ if cls.__module__.partition(".")[0] != _OURS]
    for cls in authors if member else ():
        file, definition = _class(cls)
        declaration = _member(definition, member)
        if declaration is not None:
            return _node_location(file, declaration)
    return _node_location(*_class(owner))


def return_location(owner: type, method: str) -> Location | None:
    """Find the first `return` of a value in a method, or else the method."""
    function = inspect.getattr_static(owner, method, None)
    definition = _function(function) if isinstance(function, FunctionType) else None
    found = [node for node in ast.walk(definition) if isinstance(node, ast.Return) and node.value] if definition else []
    if not found:
        return location_of(owner, method)
    assert isinstance(function, FunctionType), "a definition was found"
    return _node_location(function.__code__.co_filename, min(found, key=lambda node: node.lineno))


def definition_of(owner: type | FunctionType) -> _Definition | None:
    """Return the syntax tree of a class or function; None if there is no source."""
    return _function(owner) if isinstance(owner, FunctionType) else _class(owner)[1]


def line_of(frame: FrameType) -> Location:
    """Return the line that a frame executes."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).rstrip("\n")
    written = text.rstrip()
    return Location(file, line, len(text) - len(text.lstrip()) + 1, len(written) + 1, text)


def author_line(frame: FrameType | None) -> Location | None:
    """Return the author's line in a stack frame or its nearest caller, None if there is none."""
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else line_of(frame)


def _function(function: FunctionType) -> _Definition | None:
    code = function.__code__
    for _, node in _definitions(_parsed(code.co_filename)):
        first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
        if first == code.co_firstlineno and node.name == code.co_name:
            return node
    return None


def _class(cls: type) -> tuple[str, _Definition | None]:
    """Find the last definition of this name, which is the effective one."""
    try:
        file = inspect.getsourcefile(cls)
    # The class is built in or was created without a file.
    except (TypeError, OSError):
        return "", None
    if file is None:
        return "", None
    found = [node for name, node in _definitions(_parsed(file)) if name == cls.__qualname__]
    return file, found[-1] if found else None


def _definitions(inside: ast.AST, prefix: str = "") -> Iterator[tuple[str, _Definition]]:
    """Yield the classes and functions below a node with their qualified names."""
    for node in ast.iter_child_nodes(inside):
        if isinstance(node, _Definition):
            name = prefix + node.name
            yield name, node
            yield from _definitions(node, f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>.")
        else:
            yield from _definitions(node, prefix)


def _member(definition: _Definition | None, member: str) -> ast.stmt | None:
    declarations = [node for node in definition.body if member in _declares(node)] if definition else []
    return declarations[0] if declarations else None


def _declares(node: ast.stmt) -> list[str]:
    if isinstance(node, _Definition):
        return [node.name]
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _parameter(definition: _Definition | None, name: str) -> ast.stmt | ast.arg | None:
    if definition is None or isinstance(definition, ast.ClassDef):
        return None
    written = definition.args
    optional = [argument for argument in (written.vararg, written.kwarg) if argument is not None]
    parameters = [*written.posonlyargs, *written.args, *written.kwonlyargs, *optional]
    return next((parameter for parameter in parameters if parameter.arg == name), definition)


def _parsed(file: str) -> ast.AST:
    linecache.checkcache(file)
    try:
        return ast.parse("".join(linecache.getlines(file)))
    # The file has changed since the import.
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _node_location(file: str, node: ast.stmt | ast.arg | None) -> Location | None:
    """Return the location of a node, or of its first line."""
    if node is None:
        return None
    text = linecache.getline(file, node.lineno).rstrip("\n")
    written = text.encode()
    one_line = node.end_lineno == node.lineno and node.end_col_offset is not None
    end = len(written[: node.end_col_offset].decode(errors="replace")) if one_line else len(text.rstrip())
    return Location(file, node.lineno, len(written[: node.col_offset].decode(errors="replace")) + 1, end + 1, text)
