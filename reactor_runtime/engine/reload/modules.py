"""Records the sources of a project's modules, finds those that have changed on disk, and executes modules again.

A module that is executed again is a new module object. The old code keeps its own globals, so an execution that fails
changes nothing.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import sys
import threading
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from reactor_runtime.errors import is_in_project, is_ours

# Finds the modules that are imported in the usual ways, a hundred times as fast as parsing.
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """Hold the bytes that a module was executed from, and its file; no file for a folder without `__init__.py`."""

    file: str
    data: bytes


class ProjectModules:
    """Remember the sources of a project's modules; belongs to the thread that imports them.

    `record` reads the sources of all modules that are imported from then on. Bytecode files are not used, because two
    saves within a second can have the same time and size.
    """

    def __init__(self, project: Path) -> None:
        self.sources: dict[str, Source] = {}
        # The modules that could not be found, as in `try: import fast`.
        self.missing: set[str] = set()
        # The imports of the modules that had to be parsed.
        self._imports: dict[str, tuple[Source, frozenset[str]]] = {}
        self._project = project.resolve()

    def record(self) -> None:
        """Record the modules of the project that are imported from now on, until `close`."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def close(self) -> None:
        """Record no more modules; may be called twice."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def add_imported(self, name: str) -> None:
        """Add a module that was imported before `record`, and the project's modules that it imports, as on disk."""
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if name in self.sources or not any(map(self._has, [file] if file else getattr(module, "__path__", ()))):
            return
        if (data := _read(file or "")) is None:
            return
        self.sources[name] = Source(file or "", data)
        for imported in _IMPORT.findall(data):
            for each in _with_parents(imported.decode()):
                self.add_imported(each)

    def _has(self, file: str) -> bool:
        return not is_ours(file) and is_in_project(file, self._project)

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Find a module of the project, as a finder of `sys.meta_path`."""
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            self.missing.add(name)
            return None
        file = self._file_of(spec)
        if file is None:
            return None
        if file:
            spec.loader = _RecordingLoader(name, file, self.sources)
        else:
            self.sources[name] = Source("", b"")
        return spec

    def changed(self) -> frozenset[str]:
        """Return the modules whose files have other content than was executed, or are gone, and new modules.

        A new module is one that takes the place of another, or that could not be imported before.
        """
        importlib.invalidate_caches()
        other = {name for name, source in self.sources.items() if _read(source.file) != source.data}
        moved = {name for name, source in self.sources.items() if self._find(name) not in (None, source.file)}
        return frozenset(other | moved | {name for name in self.missing - self.sources.keys() if self._find(name)})

    def _find(self, name: str) -> str | None:
        """Return the file that an import of a module of the project would execute now, as `_file_of` does."""
        parent = name.rpartition(".")[0]
        path = getattr(sys.modules.get(parent), "__path__", None)
        if parent and path is None:
            return None
        spec = PathFinder.find_spec(name, path)
        return None if spec is None else self._file_of(spec)

    def _file_of(self, spec: ModuleSpec) -> str | None:
        """Return the file of a module, "" for a folder without `__init__.py`, or None if it is not of the project."""
        if spec.loader is None:
            folders = spec.submodule_search_locations or ()
            return "" if any(self._has(folder) for folder in folders) else None
        if not isinstance(spec.loader, SourceFileLoader) or spec.origin is None or not self._has(spec.origin):
            return None
        return spec.origin

    def importing(self, names: Iterable[str], entry: str) -> frozenset[str]:
        """Return these modules and those that import them, directly or not.

        Return all modules if some are imported by other means than statements, such as `importlib`: if one of those
        found, other than `entry`, is imported by no statement, or `entry` is not among them.
        """
        found: set[str] = set()
        explained = set(_with_parents(entry))
        more = set(names)
        while more and not found >= self.sources.keys():
            found |= more
            importers = set()
            for each, source in self.sources.items():
                imported = more & self._imports_of(each, source, more)
                explained |= imported - {each}
                # Python imports the packages around a module before it.
                if imported or not more.isdisjoint(_with_parents(each)):
                    importers.add(each)
            more = importers - found
        complete = found <= explained and (entry in found or entry not in self.sources)
        return frozenset(found if complete else found | self.sources.keys())

    def _imports_of(self, name: str, source: Source, wanted: Collection[str]) -> frozenset[str]:
        """Return the modules that statements of a module import; none if its text names no `wanted` module."""
        parsed, imports = self._imports.get(name, (None, frozenset()))
        if parsed is source:
            return imports
        # Parsing all modules of a large project takes seconds.
        if not any(each.rpartition(".")[2].encode() in source.data for each in wanted):
            return frozenset()
        imports = frozenset(_imports(name, source))
        self._imports[name] = source, imports
        return imports


class Execution:
    """Remove modules, so that the next import executes them again; `undo` puts the old ones back."""

    def __init__(self, modules: ProjectModules, names: Collection[str]) -> None:
        self.old: dict[str, ModuleType] = {name: sys.modules[name] for name in names if name in sys.modules}
        self.old_sources = dict(modules.sources)
        self._old_missing = set(modules.missing)
        self._modules = modules
        self._attributes = _attributes_of_packages(self.old)
        # A module that can be found now, but is not imported any more, would otherwise count as new each time.
        modules.missing.difference_update(names)
        for name in self.old:
            del sys.modules[name]
            modules.sources.pop(name, None)
        importlib.invalidate_caches()
        # A cached `Optional[Kind]` refers to its class, and so keeps the old module.
        for clear in getattr(typing, "_cleanups", ()):
            clear()

    @contextlib.contextmanager
    def importing(self) -> Iterator[None]:
        """Hide the old modules from the imports of this thread, while other threads still run the old code."""
        with contextlib.ExitStack() as stack:
            for package, values in self._attributes.items():
                stack.enter_context(_hidden(package, values))
            yield

    @property
    def new(self) -> Mapping[str, ModuleType]:
        """Return the modules that have been executed since."""
        return {name: sys.modules[name] for name in self.old if name in self._modules.sources and name in sys.modules}

    def undo(self) -> None:
        """Put the old modules back; those that were imported since, but not before, are removed."""
        new = self._modules.sources.keys() - self.old_sources.keys()
        for package, values in _attributes_of_packages(new).items():
            for attribute in values:
                delattr(package, attribute)
        for name in new:
            sys.modules.pop(name, None)
        self._modules.sources.clear()
        self._modules.sources.update(self.old_sources)
        self._modules.missing.update(self._old_missing)
        sys.modules.update(self.old)
        for package, values in self._attributes.items():
            vars(package).update(values)


class _RecordingLoader(SourceFileLoader):
    """Execute a module from its source, and record that."""

    def __init__(self, name: str, path: str, sources: dict[str, Source]) -> None:
        super().__init__(name, path)
        self._sources = sources

    def get_code(self, fullname: str) -> CodeType | None:
        data = self.get_data(self.path)
        self._sources[fullname] = Source(self.path, data)
        code: CodeType = self.source_to_code(data, self.path)
        return code


def package_of(name: str, source: Source) -> str:
    """Return the package that relative imports of a module start from."""
    return name if Path(source.file).name == "__init__.py" else name.rpartition(".")[0]


def _imports(name: str, source: Source) -> Iterator[str]:
    """Yield the modules that statements import, in functions too; some of the names may not be modules."""
    package = package_of(name, source)
    for node in ast.walk(ast.parse(source.data)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node, package)
            yield from _with_parents(base)
            yield from (f"{base}.{alias.name}" for alias in node.names)


def imported_from(node: ast.ImportFrom, package: str) -> str:
    """Return the absolute name of the module in `from … import`."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def _read(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else b""
    # It was deleted, or an editor is about to replace it.
    except OSError:
        return None


def _attributes_of_packages(modules: Collection[str]) -> dict[ModuleType, dict[str, object]]:
    """Return the attributes that refer to these modules, of packages around them that are not among these."""
    found: dict[ModuleType, dict[str, object]] = {}
    for name in modules:
        package, _, attribute = name.rpartition(".")
        if package in sys.modules and package not in modules and attribute in vars(sys.modules[package]):
            found.setdefault(sys.modules[package], {})[attribute] = vars(sys.modules[package])[attribute]
    return found


@contextlib.contextmanager
def _hidden(package: ModuleType, values: Mapping[str, object]) -> Iterator[None]:
    """Remove attributes of a package for this thread: `from package import module` takes them without an import."""
    members, thread = vars(package), threading.get_ident()
    of_package = members.get("__getattr__")

    def find(name: str) -> object:
        if name in values and threading.get_ident() != thread:
            return values[name]
        if of_package is None:
            raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
        return of_package(name)

    members["__getattr__"] = find
    for name in values:
        del members[name]
    try:
        yield
    finally:
        if of_package is None:
            del members["__getattr__"]
        else:
            members["__getattr__"] = of_package
