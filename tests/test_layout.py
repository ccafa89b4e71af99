"""The arrows of docs/architecture.md, read from the imports: packages import to the right only, never in a circle."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Every package may import these: rooms and single modules.
SHARED = frozenset({"errors", "logs", "config", "clock", "kinds", "network", "oom_kills", "version"})
# The first gives the names of the second.
PUBLIC_API = ("reactor_runtime", "reactor_runtime.interface")
# The import paths of 3.x for names of the second.
PUBLIC_PATHS = ("reactor_runtime.interface.",)
ARROWS = {
    "cli": {
        "server",
        "cluster",
        "testing",
        "client",
        "schema",
        "manifest",
        "recording",
        "rendering",
        "clips",
        "options",
    },
    "cluster": {"server", "wire", "media", "manifest", "options"},
    "server": {"ipc", "wire", "media", "manifest"},
    "engine": {"ipc", "authoring", "media", "recording", "distributed"},
    "testing": {"engine", "authoring", "ipc", "media", "manifest", "recording"},
    "rendering": {"testing", "engine", "authoring", "ipc", "media", "clips"},
    "schema": {"authoring", "wire", "manifest"},
    "distributed": {"ipc", "authoring", "media"},
    "manifest": {"authoring"},
    "client": {"wire", "media"},
    "clips": {"media"},
    "frames": {"media"},
    "authoring": set[str](),
    "media": set[str](),
    "wire": set[str](),
    "ipc": set[str](),
    "recording": set[str](),
    "options": {"server", "manifest", "recording"},
    "serving": {"cli", "server", "manifest", "authoring", "options"},
    "notebook": {"serving", "cli", "manifest", "authoring", "options"},
    "model_api": {"public_api"},
    "log": set[str](),
    "paths": set[str](),
    "public_api": {"authoring", "testing", "serving", "schema", "paths", "distributed"},
}
ROOMS = {
    "server": {
        "encoding": set[str](),
        "telemetry": {"encoding"},
        "net": {"telemetry"},
        "options": {"net"},
        "security": {"net", "telemetry"},
        "delivery": {"encoding", "telemetry"},
        "workers": {"options"},
        "sessions": {"options", "delivery", "workers", "encoding", "telemetry", "housekeeping"},
        "routes": {"sessions", "delivery", "workers", "security", "net", "telemetry"},
        "app": {"options", "security", "net", "telemetry"},
        "backend": {"options", "routes", "sessions", "workers", "encoding", "housekeeping"},
        "housekeeping": set[str](),
        "preload": set[str](),
        "run": {
            "app",
            "backend",
            "options",
            "routes",
            "sessions",
            "delivery",
            "workers",
            "security",
            "net",
            "telemetry",
            "encoding",
            "housekeeping",
            "preload",
        },
    },
    "authoring": {
        "code": set[str](),
        "values": {"code"},
        "events": {"code", "values"},
        "tracks": {"code", "values", "events"},
        "styles": {"code", "values", "events", "tracks"},
    },
    "engine": {
        "output": {"session", "session_log", "first_step", "served"},
        "inputs": set[str](),
        "drivers": {"batch", "dispatch", "hooks", "inputs", "liveness", "output", "served", "session", "session_state"},
    },
}
# The modules of the server that may import these libraries.
LIBRARY_MODULES = {
    "uvicorn": {"server/net/http_server.py"},
    "httptools": {"server/net/http_reader.py"},
    "websockets": {
        "server/net/message_reader.py",
        "server/net/sliced_reader.py",
        "server/net/socket_protocol.py",
    },
}
PURE = ("authoring", "media", "wire")
WAITING = {"asyncio", "threading", "socket", "subprocess", "time", "selectors", "concurrent"}
EXCUSED = {
    # These contain coroutines that authors await on the model's loop.
    ("authoring/styles/async_model.py", "asyncio"),
    ("authoring/styles/reactor_model.py", "asyncio"),
    ("authoring/tracks/input_buffer.py", "asyncio"),
    # Items are pushed from another thread.
    ("authoring/tracks/input_buffer.py", "threading"),
}


def files() -> list[Path]:
    return sorted([*ROOT.glob("reactor_runtime/**/*.py"), *ROOT.glob("reactor_cli/**/*.py")])


def package_of(module: str) -> str | None:
    """Name the package, or the single file, that a module of ours belongs to."""
    top, *rest = module.split(".")
    if top == "reactor_cli":
        return "cli"
    if top != "reactor_runtime":
        return None
    return "public_api" if module in PUBLIC_API or module.startswith(PUBLIC_PATHS) else rest[0]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def imports(path: Path) -> list[tuple[str, int]]:
    """List every module a file imports, inside functions and for type checkers too, with its line."""
    return list(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports here are absolute"
            assert node.module is not None, "an absolute import names a module"
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [name for name in submodules if _is_module(name)]
            yield from ((name, node.lineno) for name in found or [node.module])


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def graph() -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for path in files():
        source = package_of(module_of(path))
        assert source is not None, "only files of ours are listed"
        targets = {target for name, _ in imports(path) if (target := package_of(name)) is not None}
        arrows.setdefault(source, set()).update(targets - {source})
    return arrows


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for path in files():
        source = package_of(module_of(path))
        assert source is not None
        allowed = SHARED | ARROWS.get(source, set()) | {source, None}
        found = [(package_of(name), line) for name, line in imports(path)]
        wrong += [f"{path}:{line}: {source} may not import {target}" for target, line in found if target not in allowed]
    assert wrong == []


@pytest.mark.parametrize("package", ROOMS)
def test_the_folders_of_a_package_import_as_drawn(package: str) -> None:
    prefix = f"reactor_runtime.{package}."
    for path in sorted((ROOT / "reactor_runtime" / package).rglob("*.py")):
        source = module_of(path).removeprefix(prefix).partition(".")[0]
        if source not in ROOMS[package]:
            continue
        for name, line in imports(path):
            target = name.removeprefix(prefix).partition(".")[0] if name.startswith(prefix) else source
            assert target in ROOMS[package][source] | {source}, f"{path}:{line}: {source} may not import {target}"


@pytest.mark.parametrize("library", LIBRARY_MODULES)
def test_few_modules_of_the_server_use_a_library_of_protocols(library: str) -> None:
    server = ROOT / "reactor_runtime" / "server"
    found = {
        str(path.relative_to(server.parent))
        for path in server.rglob("*.py")
        if library in {name.partition(".")[0] for name, _ in imports(path)}
    }
    assert found == LIBRARY_MODULES[library]


@pytest.mark.parametrize("path", sorted(LIBRARY_MODULES["uvicorn"]))
def test_nothing_private_of_uvicorn_is_used(path: str) -> None:
    tree = parse(ROOT / "reactor_runtime" / path)
    private = {each.attr for each in ast.walk(tree) if isinstance(each, ast.Attribute) and each.attr.startswith("_")}
    ours = {"_acceptor", "_application", "_stopped"}
    assert private - {"__init__"} <= ours


def test_there_is_no_circle_among_packages() -> None:
    arrows = graph()
    while leaves := {name for name in arrows if not arrows[name] & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in leaves}
    assert not arrows


def test_there_is_no_circle_among_files() -> None:
    inside = [path for path in files() if module_of(path) not in PUBLIC_API]
    arrows = {module_of(path): {name for name, _ in imports(path) if package_of(name)} for path in inside}
    while leaves := {name for name in arrows if not (arrows[name] - {name}) & arrows.keys()}:
        arrows = {name: targets for name, targets in arrows.items() if name not in leaves}
    assert not arrows


def test_the_shared_modules_import_nothing_but_each_other() -> None:
    for name in SHARED:
        targets = graph()[name]
        assert targets <= SHARED, f"{name} imports {targets - SHARED}"


@pytest.mark.parametrize("package", PURE)
def test_pure_packages_have_no_clock_and_no_loop(package: str) -> None:
    for path in sorted((ROOT / "reactor_runtime" / package).rglob("*.py")):
        for name, line in imports(path):
            top = name.partition(".")[0]
            excused = (str(path.relative_to(ROOT / "reactor_runtime")), top) in EXCUSED
            assert top not in WAITING or excused, f"{path}:{line} imports {top}"


def test_the_client_is_there_without_the_server_and_the_authoring_side() -> None:
    program = "import sys, reactor_runtime.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    ours = {name.split(".")[1] for name in loaded if name.startswith("reactor_runtime.")}
    assert ours <= {"client", "errors", "media", "version", "wire"}
    assert not {"starlette", "uvicorn", "pydantic", "prometheus_client"} & set(loaded)


def test_the_client_s_modules_need_nothing_of_the_page() -> None:
    client = ROOT / "reactor_runtime" / "page" / "client"
    for module in client.rglob("*.js"):
        text = module.read_text()
        sources = re.findall(r'from "(.*)"', text)
        assert all((module.parent / source).resolve().is_relative_to(client) for source in sources), module
        assert not re.search(r"\bdocument\.(?!createElement)\w", text), module
