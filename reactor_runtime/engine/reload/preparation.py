"""Compares the code that `load()` runs in two versions of the sources; a difference means to load the model again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from reactor_runtime.engine.reload.modules import Source, imported_from, package_of

# Methods that run when an object is made.
_CONSTRUCTION = ("__init__", "__new__", "__post_init__", "__init_subclass__")

_Changing = (
    ast.FunctionDef
    | ast.AsyncFunctionDef
    | ast.ClassDef
    | ast.Assign
    | ast.AnnAssign
    | ast.AugAssign
    | ast.Delete
    | ast.Expr
)
_Blocks = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.Match


class Preparations:
    """Compare versions of the sources; keep the parsed modules of the newest, since most of them do not change."""

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, Source], _Module] = {}

    def change(self, old: Mapping[str, Source], new: Mapping[str, Source], module: str, model: str) -> str:
        """Return one line about a change in the code that `load()` of a class runs; "" if there is none.

        Compares `load` and `__init__` of the class and of its bases in the project, and the functions, classes and
        constants of the project that they use by name, without comments and line numbers. In doubt the code counts: a
        statement at the top of a module may change each name that is in it.
        """
        before, after = (_Preparation(each, self._parsed, module, model).parts for each in (old, new))
        self._parsed = {each: self._parsed[each] for each in new.items() if each in self._parsed}
        changed = [label for label in {**before, **after} if before.get(label) != after.get(label)]
        if not changed:
            return ""
        own = [label for label in changed if label in (f"{model}.load()", f"{model}.__init__()")]
        return f"{own[0]} has changed" if own else f"{changed[0]}, which {model}.load() uses, has changed"


@dataclass(slots=True)
class _Module:
    """Hold the code that defines or changes each name, the modules of `import *`, and the targets of imported names.

    A target is the parts of a dotted path.
    """

    definitions: dict[str, list[ast.AST]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    imports: dict[str, list[str]] = field(default_factory=dict)


class _Preparation:
    """Collect the parts of `load()`: their code by label."""

    def __init__(
        self, sources: Mapping[str, Source], parsed: dict[tuple[str, Source], _Module], module: str, model: str
    ) -> None:
        self.parts: dict[str, str] = {}
        self._sources = sources
        self._parsed = parsed
        self._added: set[ast.AST] = set()
        self._members_added: set[tuple[ast.AST, str]] = set()
        self._add_class(module, model, ["load", *_CONSTRUCTION])

    def _module(self, name: str) -> _Module:
        source = self._sources[name]
        if (name, source) not in self._parsed:
            self._parsed[name, source] = _read_module(name, source)
        return self._parsed[name, source]

    def _add_class(self, module: str, name: str, members: list[str]) -> None:
        """Add members of a class and of its bases, and the members that those use."""
        for cls in self._module(module).definitions.get(name, ()):
            if not isinstance(cls, ast.ClassDef):
                continue
            nodes = {member: node for node in _statements(cls.body) for member in _names_of(node)}
            # The list grows in the loop.
            for member in members:
                if member in nodes and self._add_part(f"{name}.{member}", nodes[member]):
                    self._add_used(module, nodes[member])
                    members += _members_used(nodes[member], nodes)
            for base in cls.bases:
                found = self._resolve(module, base)
                if found is not None:
                    self._add_class(*found, members)

    def _add_part(self, name: str, node: ast.AST) -> bool:
        """Add the code of a definition; return False if it was added before."""
        if node in self._added:
            return False
        self._added.add(node)
        label = f"{name}()" if isinstance(node, ast.FunctionDef) else name
        # Other modules, and other branches of an `if`, may define the same name.
        self.parts[label] = self.parts.get(label, "") + ast.dump(node)
        return True

    def _add_used(self, module: str, node: ast.AST) -> None:
        """Add the definitions that the code of `node` uses by name."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name | ast.Attribute) and (found := self._resolve(module, each)) is not None:
                self._add_definition(*found)
            if isinstance(each, ast.Attribute) and (found := self._resolve(module, each.value)) is not None:
                self._add_member(*found, each.attr)

    def _add_definition(self, module: str, name: str) -> None:
        for node in self._module(module).definitions.get(name, ()):
            if isinstance(node, ast.ClassDef):
                if node not in self._added:
                    self._added.add(node)
                    fields = [each for each in node.body if isinstance(each, ast.Assign | ast.AnnAssign)]
                    self.parts[name] = self.parts.get(name, "") + "".join(map(ast.dump, [*node.bases, *fields]))
                    self._add_class(module, name, [*_CONSTRUCTION])
            elif self._add_part(name, node):
                self._add_used(module, node)

    def _add_member(self, module: str, name: str, member: str) -> None:
        """Add a member of a class that code uses by its name, such as `Net.make()`."""
        for node in self._module(module).definitions.get(name, ()):
            if isinstance(node, ast.ClassDef) and (node, member) not in self._members_added:
                self._members_added.add((node, member))
                self._add_class(module, name, [member])

    def _resolve(self, module: str, node: ast.expr) -> tuple[str, str] | None:
        """Return the module of the project, and the name there, that a name or `package.module.name` stands for."""
        names = _names_in_chain(node)
        followed = set()
        # Modules may import a name from each other.
        while names and (module, names[0]) not in followed:
            known = self._module(module)
            if names[0] in known.definitions:
                return (module, names[0]) if len(names) == 1 else None
            if names[0] not in known.imports:
                star = next((each for each in known.stars if self._defines(each, names[0])), None)
                if star is None:
                    return None
                followed.add((module, names[0]))
                module = star
                continue
            followed.add((module, names[0]))
            path = [*known.imports[names[0]], *names[1:]]
            end = next((end for end in range(len(path), 0, -1) if ".".join(path[:end]) in self._sources), len(path))
            module, names = ".".join(path[:end]), path[end:]
        return None

    def _defines(self, module: str, name: str) -> bool:
        if module not in self._sources:
            return False
        known = self._module(module)
        return name in known.definitions or name in known.imports or bool(known.stars)


def _read_module(name: str, source: Source) -> _Module:
    module, tree = _Module(), ast.parse(source.data)
    package = package_of(name, source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = imported_from(node, package)
            module.imports.update({alias.asname or alias.name: [*base.split("."), alias.name] for alias in node.names})
            module.stars += [base for alias in node.names if alias.name == "*"]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                # Without `as`, the name of the outermost package is bound.
                path = alias.name.split(".")
                module.imports.update({alias.asname: path} if alias.asname else {path[0]: path[:1]})
    for code, names in _changes(tree.body, ()):
        for changed in names:
            module.definitions.setdefault(changed, []).append(code)
    return module


def _changes(nodes: Iterable[ast.AST], headers: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, list[str]]]:
    """Yield the code at the top of a module with the names that it defines or may change.

    The `headers` of the blocks around a statement, such as the test of an `if`, decide about it too.
    """
    for node in nodes:
        if isinstance(node, _Blocks):
            children = list(ast.iter_child_nodes(node))
            own = tuple(each for each in children if isinstance(each, ast.expr | ast.withitem))
            yield from _changes(children, (*headers, *own))
        elif isinstance(node, ast.ExceptHandler | ast.match_case):
            yield from _changes(ast.iter_child_nodes(node), headers)
        elif isinstance(node, ast.stmt):
            names = _names_of(node) or _names_in(node) if isinstance(node, _Changing) else []
            yield from ((code, names) for code in (node, *headers))


def _names_in(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _names_in_chain(node: ast.expr) -> list[str]:
    """Return ["a", "b", "c"] for `a.b.c`; an empty list for an expression that is no such chain."""
    match node:
        case ast.Name():
            return [node.id]
        case ast.Attribute():
            before = _names_in_chain(node.value)
            return [*before, node.attr] if before else []
    return []


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Yield statements and those in their blocks, as of `if` and `try`, but not those in functions and classes."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            yield from _statements(ast.iter_child_nodes(node))


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    return [name for target in targets for name in _names_in(target)]


def _members_used(node: ast.AST, nodes: Mapping[str, ast.stmt]) -> Iterator[str]:
    """Yield the members that code uses of its object, except methods that it does not call, such as callbacks."""
    called = [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
    for each in ast.walk(node):
        if not isinstance(each, ast.Attribute) or not isinstance(each.value, ast.Name):
            continue
        used = each in called or not isinstance(nodes.get(each.attr), ast.FunctionDef)
        if used and each.value.id in ("self", "cls"):
            yield each.attr
