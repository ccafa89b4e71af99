"""Names the keys of the config file that a failing expression of the author's code reads, with their lines."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from reactor_runtime.config.yamlfile import YamlFile, read
from reactor_runtime.errors import UsageError, is_in_project

_MANIFEST = "reactor.yaml"
_UNKNOWN = object()


def config_hint(error: BaseException, project: Path) -> str:
    """Return `width is at config.yml:2` for each value in the expression that raised; "" if there is none.

    The expression is the one in the author's innermost frame. A value counts if the expression reads it from a
    variable, attribute or key of the same name. If one of these holds another value, as after `--set`, nothing is
    named, because that value may be the wrong one. Values are not shown, because some are secret.
    """
    failed = _innermost(error.__traceback__, project.resolve())
    file = _config_file(project) if failed else None
    if failed is None or file is None:
        return ""
    read_here = dict(_read_values(*failed))
    written = [(steps, value) for steps, value in _leaves(file.values) if steps[-1] in read_here]
    found = [steps for steps, value in written if _is_same(read_here[steps[-1]], value)]
    if {steps[-1] for steps, _ in written} - {steps[-1] for steps in found}:
        return ""
    return ", ".join(f"{'.'.join(steps)} is at {file.path.name}:{file.place(*steps).line}" for steps in found)


def _is_same(held: Any, value: Any) -> bool:
    return type(held) is type(value) and bool(held == value)


def _innermost(tb: TracebackType | None, root: Path) -> tuple[ast.AST, FrameType] | None:
    """Return the expression that raised in the author's innermost frame, and the frame."""
    found = None
    while tb is not None:
        if is_in_project(tb.tb_frame.f_code.co_filename, root):
            found = tb
        tb = tb.tb_next
    if found is None:
        return None
    code = found.tb_frame.f_code
    first, last, start, end = list(code.co_positions())[found.tb_lasti // 2]
    if first is None or last is None or start is None or end is None:
        return None
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return None
    # The start last: both may be on one line.
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(b"(" + b"".join(lines) + b")", mode="eval"), found.tb_frame
    # It is a statement, or the file has changed.
    except (SyntaxError, ValueError):
        return None


def _config_file(project: Path) -> YamlFile | None:
    try:
        values = read(project / _MANIFEST, UsageError).values
        # A project for 3.x names it below `runtime`.
        named = values["config"] if "config" in values else values["runtime"]["config"]
        return read(project / named, UsageError)
    # There is none, or it can't be read; the manifest has its own errors.
    except (UsageError, OSError, KeyError, TypeError):
        return None


def _leaves(values: Any, steps: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values that are not mappings, with their keys."""
    for key, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, dict):
            yield from _leaves(value, (*steps, str(key)))
        else:
            yield (*steps, str(key)), value


def _read_values(expression: ast.AST, frame: FrameType) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each variable, attribute and item in an expression."""
    for node in ast.walk(expression):
        match node:
            case (
                ast.Name(id=name)
                | ast.Attribute(attr=name)
                | ast.Subscript(slice=ast.Constant(value=str(name)))
                | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_])
            ):
                value = _value(node, frame)
                if value is not _UNKNOWN:
                    yield name, value


def _value(node: ast.AST, frame: FrameType) -> Any:
    """Evaluate names, attributes and items without running code of the author."""
    match node:
        case ast.Name(id=name):
            return frame.f_locals.get(name, frame.f_globals.get(name, _UNKNOWN))
        case ast.Attribute(value=inner, attr=name):
            return getattr(_value(inner, frame), "__dict__", {}).get(name, _UNKNOWN)
        case (
            ast.Subscript(value=inner, slice=ast.Constant(value=key))
            | ast.Call(func=ast.Attribute(value=inner, attr="get"), args=[ast.Constant(value=key), *_])
        ):
            mapping = _value(inner, frame)
            return dict.get(mapping, key, _UNKNOWN) if isinstance(mapping, dict) else _UNKNOWN
    return _UNKNOWN
