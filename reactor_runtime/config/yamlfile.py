"""Reads the YAML of authors, with the place of each value.

Values are those of JSON, and numbers are written as in YAML 1.2. Duplicate keys are errors. PyYAML is imported in the
functions, so that importing this file is cheap.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from reactor_runtime.errors import Location, UsageError

if TYPE_CHECKING:
    import yaml

_ADVICE = (
    ("'\\t'", "indent with spaces; YAML allows no tabs"),
    ("mapping values are not allowed", "leave out the space after the second colon, or put quotes around the value"),
    ("could not find expected ':'", "each line is `key: value`, with a space after the colon"),
    ("recursive node", "an alias, written with *, can't be inside the value that it names"),
    ("undefined alias", "put quotes around a value that starts with *"),
    ("cannot start any token", "put quotes around the value"),
    ("is given twice", "keep one of the two"),
    ("could not determine a constructor", "leave out the tag; the values are those of JSON"),
    ("'<stream end>'", "a bracket is opened and not closed"),
    ("unexpected end of stream", "a quote is opened and not closed"),
    ("another document", "remove the line `---`; one file holds one document"),
)
_TAG = "tag:yaml.org,2002:"
# The core schema of YAML 1.2, https://yaml.org/spec/1.2.2/#103-core-schema; it includes the numbers of JSON.
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
# More words than in that schema: `yes` is true as in YAML 1.1. Keys are always text.
_BOOL = re.compile("yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF")
_TRUE = ("yes", "true", "on")
_NULL = re.compile("~|null|Null|NULL|")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class YamlFile:
    """Hold the values of a file, and the places of each top-level key and of its value."""

    path: Path
    values: Any
    root: Location
    keys: dict[str, Location]
    items: dict[str, Location]
    _node: yaml.Node | None = None
    _lines: Sequence[str] = ()

    def place(self, *steps: str | int) -> Location:
        """Return the place of an inner value, as `place(2, "data")`; of the last one on the way if there is none."""
        node = self._node
        if node is None:
            return self.root
        for step in steps:
            inner = _inner(node, step)
            if inner is None:
                break
            node = inner
        return _of_node(node, self.path, self._lines)

    def key_place(self, *steps: str | int) -> Location:
        """Return the place of the key of an inner value."""
        node = self._node
        for step in steps[:-1]:
            node = None if node is None else _inner(node, step)
        for key, _ in _pairs(node):
            if key.value == steps[-1]:
                return _of_node(key, self.path, self._lines)
        return self.place(*steps)

    def misread_numbers(self) -> Iterator[tuple[str, Location]]:
        """Yield the values that are written as a number in another notation, such as 1_000, and are text here."""
        for node in () if self._node is None else _walk(self._node):
            for value in _plain_values(node):
                if value.tag == f"{_TAG}str" and _is_number_elsewhere(value.value):
                    yield value.value, _of_node(value, self.path, self._lines)


def read(path: Path, kind: type[UsageError]) -> YamlFile:
    """Read `path` with safe YAML; an empty file has the value None. Raises `kind` with line and column."""
    import yaml

    text = _text(path, kind)
    lines = text.rstrip("\n").split("\n")
    try:
        node, values = _load(text)
        if node is None:
            return YamlFile(path, None, Location(str(path), 1), {}, {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = _problem(error)
        where = _point(path, lines, mark.line, mark.column) if mark else Location(str(path), 1)
        raise kind(f"{path.name} isn't valid YAML: {problem}", where=where, hint=_hint(problem)) from None
    except yaml.reader.ReaderError as error:
        where = _point(path, lines, *_line_and_column(text, error.position))
        raise kind(
            f"{path.name} isn't valid YAML: the character U+{error.character:04X} isn't allowed", where=where
        ) from None
    except RecursionError:
        raise kind(f"{path.name} isn't valid YAML: it is nested too deeply", where=Location(str(path), 1)) from None
    pairs = _pairs(node)
    return YamlFile(
        path,
        values,
        _of_node(node, path, lines),
        keys={key.value: _of_node(key, path, lines) for key, _ in pairs},
        items={key.value: _of_node(value, path, lines) for key, value in pairs},
        _node=node,
        _lines=lines,
    )


def parse_value(text: str) -> Any:
    """Read one YAML value, as in `--set key=value`. Raises ValueError with the problem."""
    import yaml

    try:
        return _load(text)[1]
    except yaml.MarkedYAMLError as error:
        raise ValueError(_problem(error)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error).splitlines()[0]) from None


def name_of(value: Any) -> str:
    """Return the name of a value's YAML type for messages."""
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return "empty" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _text(path: Path, kind: type[UsageError]) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise kind(f"{path.name} isn't UTF-8 text", where=Location(str(path), line), hint="save it as UTF-8") from None
    except OSError as error:
        raise kind(f"{path} can't be read: {error.strerror}") from None


def _load(text: str) -> tuple[yaml.Node | None, Any]:
    """Return the root and the values of a text; raise MarkedYAMLError for duplicate keys and impossible values.

    A value that contains itself is impossible too.
    """
    from yaml.constructor import ConstructorError

    loader = _loader()(text)
    root = loader.get_single_node()
    if root is None:
        return None, None
    for node in _walk(root):
        for earlier, key in _duplicates(node):
            problem = f'"{key.value}" is given twice; it is on line {earlier.start_mark.line + 1} already'
            raise ConstructorError(None, None, problem, key.start_mark)
    # PyYAML refuses a node inside itself only then.
    loader.deep_construct = True
    return root, loader.construct_document(root)


@functools.cache
def _loader() -> type[yaml.SafeLoader]:
    """Return the loader of YAML: the values of JSON, the numbers of YAML 1.2, and keys that are text as written."""
    import yaml
    from yaml.constructor import ConstructorError, SafeConstructor

    def scalar(convert: Callable[[str], object]) -> Callable[[yaml.SafeLoader, Any], object]:
        def construct(loader: yaml.SafeLoader, node: Any) -> object:
            text = loader.construct_scalar(node)
            try:
                return convert(text)
            except ValueError as error:
                raise ConstructorError(None, None, str(error), node.start_mark) from None

        return construct

    kinds = {
        "bool": scalar(_to_bool),
        "int": scalar(_to_int),
        "float": scalar(_to_float),
        "null": scalar(lambda _: None),
        "str": scalar(_whole),
        "seq": SafeConstructor.construct_yaml_seq,
        "map": SafeConstructor.construct_yaml_map,
    }

    class Loader(yaml.SafeLoader):
        yaml_constructors: ClassVar[dict[Any, Any]] = {
            None: SafeConstructor.construct_undefined,
            **{f"{_TAG}{kind}": construct for kind, construct in kinds.items()},
        }

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            # Only here are merge keys, `<<: *other`, resolved.
            self.flatten_mapping(node)
            return {self._key(key): self.construct_object(value, deep=deep) for key, value in node.value}

        def _key(self, node: yaml.Node) -> str:
            if isinstance(node, yaml.ScalarNode):
                return _whole(node.value)
            raise ConstructorError(None, None, "a key is one text, not a list or a mapping", node.start_mark)

    # Not those of SafeLoader: dates, sets and numbers to the base 60 have no place in JSON.
    Loader.yaml_implicit_resolvers = {}
    for kind, pattern, first in (
        ("int", _INT, "-+0123456789"),
        ("float", _FLOAT, "-+.0123456789"),
        ("bool", _BOOL, "yYnNtTfFoO"),
        ("null", _NULL, ["~", "n", "N", ""]),
        ("merge", re.compile("<<"), "<"),
    ):
        Loader.add_implicit_resolver(f"{_TAG}{kind}", re.compile(rf"(?:{pattern.pattern})\Z"), list(first))
    return Loader


def _to_bool(text: str) -> bool:
    if not _BOOL.fullmatch(text):
        raise ValueError(f"{text!r} is not a boolean")
    return text.lower() in _TRUE


def _to_int(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _to_float(text: str) -> float:
    # Python writes inf and nan without the dot.
    return float(text.replace(".", "") if text[-1:].isalpha() else text)


def _whole(text: str) -> str:
    """Join a surrogate pair, a character that JSON has escaped as two, as in "\\ud83d\\ude00"; PyYAML does not."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if _SURROGATE.search(text) else text


def _plain_values(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Yield the values directly in a list or a mapping that are written without quotes."""
    import yaml

    inner = [value for _, value in _pairs(node)] if isinstance(node, yaml.MappingNode) else node.value
    for value in inner if isinstance(inner, list) else ():
        if isinstance(value, yaml.ScalarNode) and value.style is None:
            yield value


def _is_number_elsewhere(text: str) -> bool:
    """Return whether Python or YAML 1.1 reads a text as a number."""
    for convert in (float, lambda each: int(each, 0)):
        try:
            convert(text)
        except ValueError:
            continue
        return True
    return False


def _walk(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield every node once, parents first; aliases refer to nodes already visited."""
    waiting, seen = [root], {id(root)}
    while waiting:
        node = waiting.pop()
        yield node
        inner = node.value if isinstance(node.value, list) else []
        children = [child for entry in inner for child in (entry if isinstance(entry, tuple) else (entry,))]
        fresh = [child for child in children if id(child) not in seen]
        seen.update(map(id, fresh))
        waiting += reversed(fresh)


def _duplicates(node: yaml.Node) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    import yaml

    first: dict[str, yaml.Node] = {}
    for key, _ in _pairs(node):
        # A mapping may have several merge keys.
        if isinstance(key, yaml.ScalarNode) and key.tag != f"{_TAG}merge":
            earlier = first.setdefault(key.value, key)
            if earlier is not key:
                yield earlier, key


def _pairs(node: yaml.Node | None) -> list[tuple[yaml.Node, yaml.Node]]:
    """Return the keys of a mapping with their values; none for another node."""
    import yaml

    return node.value if isinstance(node, yaml.MappingNode) else []


def _inner(node: yaml.Node, step: str | int) -> yaml.Node | None:
    import yaml

    if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
        items: list[yaml.Node] = node.value
        return items[step] if step < len(items) else None
    return next((value for key, value in _pairs(node) if key.value == step), None)


def _of_node(node: yaml.Node, path: Path, lines: Sequence[str]) -> Location:
    start, end = node.start_mark, node.end_mark
    where = _point(path, lines, start.line, start.column)
    if end.line != start.line:
        return where
    return Location(where.file, where.line, where.column, end.column + 1, where.text)


def _point(path: Path, lines: Sequence[str], line: int, column: int) -> Location:
    """Convert YAML's zero-based position to a Location; the end of the file is the end of its last line."""
    if line >= len(lines):
        line, column = len(lines) - 1, len(lines[-1])
    return Location(str(path), line + 1, column + 1, 0, lines[line])


def _line_and_column(text: str, position: int) -> tuple[int, int]:
    before = text[:position]
    return before.count("\n"), position - (before.rfind("\n") + 1)


def _problem(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or error.context or "it can't be parsed"
    return f"{error.context}, {problem}" if error.context and problem.startswith("but ") else problem


def _hint(problem: str) -> str:
    return next((advice for sign, advice in _ADVICE if sign in problem), "")
