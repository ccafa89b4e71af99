"""What `npm pack` makes of `clients/js`: the server's own client, and programs that use it by its name."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import reactor
from tests.clients.node import PACKAGE, ROOT, node, pack, packing, run
from tests.docs.snippets import Snippet, one, snippets
from tests.server.running import RunningServer, scaffolded, serving

CLIENT = ROOT / "reactor_runtime" / "page" / "client"
LOADED_BY_ADDRESS = {"publish/encoder_worker.js", "sound/audio_worklet.js"}
COMPILED = (
    "--noEmit",
    "--strict",
    "--skipDefaultLibCheck",
    "--target",
    "es2022",
    "--lib",
    "es2022,dom,dom.asynciterable",
    "--module",
    "nodenext",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = scaffolded(tmp_path_factory.mktemp("served"), name="my-model")
    with serving(project, "--set", "width=96", "--set", "height=64") as server:
        yield server


def read(folder: Path, pattern: str) -> dict[str, str]:
    """Return the files of a folder and its folders by their paths."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob(pattern)
        if path.is_file()
    }


def test_the_package_has_the_client_of_the_server_and_packing_leaves_no_files(installed: Path) -> None:
    packed = read(installed / "client", "*.*s")
    source = read(CLIENT, "*.*s")
    assert {name for name, text in packed.items() if text != source[name]} == LOADED_BY_ADDRESS
    assert packed.keys() == source.keys()
    others = {path.name for path in installed.iterdir()}
    assert others == {"client", "inline", "LICENSE", "README.md", "package.json", "react.js", "react.d.ts"}
    with packing():
        assert not (PACKAGE / "client").exists()
        assert not (PACKAGE / "inline").exists()


def test_the_command_of_the_docs_installs_it_from_a_clone_where_there_is_no_release(tmp_path: Path) -> None:
    (command,) = [snippet.text for snippet in snippets("sh") if snippet.page.name == "client-js.md"]
    with packing():
        run("sh", "-c", command.replace("../reactor", str(ROOT)), cwd=tmp_path, npm_config_offline="true")
    assert (
        read(tmp_path / "node_modules" / "@reactor-live" / "client" / "client", "*.js").keys()
        == read(CLIENT, "*.js").keys()
    )


def test_the_client_with_everything_inside_names_no_file_by_its_address(installed: Path) -> None:
    modules = read(installed / "inline", "*")
    assert modules.keys() == read(installed / "client", "*.js").keys() | {"react.js"}
    for name, text in modules.items():
        assert "import.meta" not in text
        node("--check", str(installed / "inline" / name))


def test_what_is_loaded_by_its_address_needs_no_other_file(installed: Path) -> None:
    texts = read(installed / "client", "*.js")
    named = re.findall(r'new URL\("[./]+(.+?)", import\.meta\.url\)', "".join(texts.values()))
    assert {Path(name).name for name in named} == {Path(name).name for name in LOADED_BY_ADDRESS}
    for name in LOADED_BY_ADDRESS:
        assert "import" not in texts[name]
        node("--check", str(installed / "client" / name))


def test_its_version_is_that_of_the_server() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert json.loads((PACKAGE / "package.json").read_text())["version"] == project["version"]


def test_the_program_of_the_docs_runs(installed: Path, served: RunningServer) -> None:
    directory = installed.parents[2]
    program = one("client-js.md", "program.mjs").text
    (directory / "program.mjs").write_text(at(served, program))
    said = node("program.mjs", cwd=directory)
    assert re.search(r"^controls: set_brightness, .*\nframe \d+ shows it, \d+ ms later\n", said)
    assert "invalid_event [ { path: 'set_brightness.brightness'" in said
    assert (directory / "frame.jpg").read_bytes()[:2] == b"\xff\xd8"


def test_the_typed_program_of_the_docs_is_compiled_and_runs(installed: Path, served: RunningServer) -> None:
    directory = installed.parents[2]
    project = str(served.output.parent)
    made = reactor("schema", project, "--format", "typescript", "--out", "my-model.ts", cwd=directory)
    assert made.code == 0, made.err
    (directory / "typed.mts").write_text(at(served, one("cli.md", "typed.mts").text))
    emitted = [option for option in COMPILED if option != "--noEmit"]
    run(str(PACKAGE / "node_modules" / ".bin" / "tsc"), *emitted, "typed.mts", cwd=directory)
    assert node("typed.mjs", cwd=directory) == "event 2, brightness 0.5\n"


def at(server: RunningServer, text: str) -> str:
    assert "http://127.0.0.1:8080" in text
    return text.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{server.port}")


@pytest.mark.parametrize("snippet", snippets("js"), ids=str)
def test_javascript_of_the_docs_can_be_read(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "snippet.mjs").write_text(snippet.text)
    node("--check", str(tmp_path / "snippet.mjs"))


def test_the_types_fit_together(installed: Path) -> None:
    directory = installed.parents[2]
    link_types(directory)
    (directory / "program.mts").write_text(Path(__file__).with_name("program.mts").read_text())
    run(str(PACKAGE / "node_modules" / ".bin" / "tsc"), *COMPILED, "--types", "react", "program.mts", cwd=directory)


@pytest.mark.parametrize("types", [("--types", "node"), ("--typeRoots", "none")], ids=["of-node", "of-no-platform"])
def test_the_types_need_no_browser(installed: Path, types: tuple[str, str]) -> None:
    directory = installed.parents[2]
    link_types(directory)
    (directory / "program_node.mts").write_text(Path(__file__).with_name("program_node.mts").read_text())
    options = ["es2022" if option.startswith("es2022,dom") else option for option in COMPILED]
    run(str(PACKAGE / "node_modules" / ".bin" / "tsc"), *options, *types, "program_node.mts", cwd=directory)


def link_types(directory: Path) -> None:
    for name in ("@types", "csstype", "react", "undici-types"):
        link = directory / "node_modules" / name
        if not link.exists():
            link.symlink_to(PACKAGE / "node_modules" / name)
