"""The source of a class of a notebook: a module of the statements that it needs, taken from the cells."""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from reactor_runtime.errors import ClassError


@dataclass(frozen=True, slots=True, eq=False)
class _Statement:
    """Hold a statement at the top level of a cell, with the names that it binds and uses; `cell` counts from 1.

    It `changes` the names whose values it both reads and binds, as `+=` does.
    """

    cell: int
    source: str
    binds: Set[str]
    uses: Set[str]
    changes: Set[str]
    always: bool


def module_of_cells(name: str, cells: Sequence[str], *, folder: str) -> str:
    """Return the source of a module with the class `name`: its newest definition, and what that uses, in order.

    The cells are Python, without magics. `folder` is where the modules of the notebook are imported from. Raises
    ClassError if no cell defines the class.
    """
    statements = [each for number, cell in enumerate(cells) for each in _statements(number, cell)]
    newest: dict[str, _Statement] = {}
    before: dict[_Statement, list[_Statement]] = {}
    for each in statements:
        before[each] = [newest[changed] for changed in sorted(each.changes) if changed in newest]
        newest |= dict.fromkeys(each.binds, each)
    if name not in newest:
        raise ClassError(
            f"no cell of this notebook defines {name}",
            hint=f"define `class {name}` in a cell, or import it from a file",
        )
    needed: list[_Statement] = [each for each in statements if each.always]
    todo = [newest[name]]
    while todo:
        statement = todo.pop()
        if statement not in needed:
            needed.append(statement)
            todo += [newest[each] for each in sorted(statement.uses) if each in newest]
            todo += before[statement]
    chosen = [each for each in statements if each in needed]
    futures = [each.source for each in chosen if each.source.startswith("from __future__")]
    body = [f"# In [{each.cell}]:\n{each.source}" for each in chosen if each.source not in futures]
    return "\n".join([*dict.fromkeys(futures), f"import sys\n\nsys.path.insert(1, {folder!r})\n", *body, ""])


def _statements(number: int, cell: str) -> Iterator[_Statement]:
    """Yield the statements of a cell; nothing for a cell that is not Python."""
    parsed = _parse(cell)
    if parsed is None:
        return
    tree, lines = parsed
    for node in tree.body:
        first = min((each.lineno for each in getattr(node, "decorator_list", [])), default=node.lineno)
        source = "\n".join(lines[first - 1 : node.end_lineno])
        table = symtable.symtable(source, "cell", "exec")
        bound = {each.get_name() for each in table.get_symbols() if each.is_assigned() or each.is_imported()}
        read = {each.get_name() for each in table.get_symbols() if each.is_referenced()}
        changes = bound if isinstance(node, ast.AugAssign) else bound & read
        yield _Statement(number, source, bound, frozenset(_used(table)), changes, _is_always_needed(node))


def _parse(cell: str) -> tuple[ast.Module, list[str]] | None:
    """Return the statements and the lines of a cell; None if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(cell), cell.splitlines()
    except (SyntaxError, ValueError):
        return None


def _is_always_needed(node: ast.stmt) -> bool:
    """Return whether a statement binds unknown names, as `import *` does, or changes the language."""
    if not isinstance(node, ast.ImportFrom):
        return False
    return node.module == "__future__" or any(each.name == "*" for each in node.names)


def _used(table: symtable.SymbolTable) -> Iterator[str]:
    """Yield the names that a statement reads from the module, in its functions and classes too."""
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (is_module or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _used(child)
