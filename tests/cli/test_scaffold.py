from __future__ import annotations

import re
import tomllib
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_cli import console
from reactor_cli.scaffold import (
    DEFAULT,
    PLACEHOLDER,
    SHARED,
    Template,
    TemplateFile,
    check_name,
    find,
    templates,
    tree,
    write,
)
from reactor_runtime import manifest
from reactor_runtime.errors import UsageError
from tests.forks import ROOT

TEMPLATES = ROOT / "templates"


def stored(directory: Path) -> set[Path]:
    files = {path for path in directory.rglob("*") if path.is_file() and path.name != "template.yaml"}
    return {path for path in files if "cache" not in str(path.parent.relative_to(directory))}


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_a_template_describes_itself_and_all_its_files(template: Template) -> None:
    assert template.description
    assert len(template.description) <= 80
    used = {source for file in template.files for source in file.sources}
    assert used == stored(TEMPLATES / template.name) | stored(TEMPLATES / SHARED)
    assert all(file.phrase for file in template.files)


def test_projects_require_the_version_that_made_them() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nreactor-live>={version}\n" in (TEMPLATES / SHARED / "requirements.txt").read_text()


def test_the_default_template_comes_first() -> None:
    assert templates()[0].name == find(DEFAULT).name == DEFAULT


def test_a_file_in_both_places_is_the_shared_text_and_then_the_template_s() -> None:
    (notes,) = [file for file in find(DEFAULT).files if file.path.name == "AGENTS.md"]
    shared, own = (place / "AGENTS.md" for place in (TEMPLATES / SHARED, TEMPLATES / DEFAULT))
    assert notes.content("PROJECT_NAME").decode() == f"{shared.read_text()}\n{own.read_text()}"


@pytest.mark.parametrize(
    ("name", "hint"), [("pipelin", 'did you mean "pipeline"?'), ("zzz", "the templates are pipeline")]
)
def test_an_unknown_template_is_an_error_with_the_most_similar(name: str, hint: str) -> None:
    with pytest.raises(UsageError, match="there is no template") as caught:
        find(name)
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["my-model", "a", "Model_2", "x" * 64])
def test_valid_names_are_written_unchanged(tmp_path: Path, name: str) -> None:
    check_name(name)
    write(find("pipeline"), tmp_path / name, name)
    assert manifest.load(tmp_path / name).name == name


@pytest.mark.parametrize(
    ("name", "reason", "better"),
    [
        ("", "is empty", "my-model"),
        ("..", "is empty", "my-model"),
        ("3d", "must start with a letter", "model-3d"),
        ("-x", "must start with a letter", "x"),
        ("my model", "contains a space", "my-model"),
        ("a/b", "is a path", "b"),
        ("möbel", "contains ö", "mobel"),
        ("été", "must start with a letter", "ete"),
        ("ÉTÉ 2", "must start with a letter", "ete-2"),
        ("ﬁlm", "must start with a letter", "film"),
        ("Straße", "contains ß", "strasse"),
        ("日本", "must start with a letter", "my-model"),
        ("日本 2", "must start with a letter", "model-2"),
        ("x-", "ends with a dash", "x"),
        ("null", "has another meaning in YAML", "null-model"),
        ("Off", "has another meaning in YAML", "off-model"),
        ("~/on", "is a path", "on-model"),
        ("x" * 65, "more than 64 characters", "x" * 64),
    ],
)
def test_an_invalid_name_is_an_error_with_a_better_name(name: str, reason: str, better: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_name(name)
    assert reason in caught.value.message
    assert caught.value.hint == f"a valid name: `reactor init {better}`"


@given(st.text(max_size=80))
def test_a_suggested_name_is_valid(name: str) -> None:
    try:
        check_name(name)
    except UsageError as error:
        better = error.hint.removeprefix("a valid name: `reactor init ").removesuffix("`")
        assert re.fullmatch(r"[a-z]([a-z0-9_-]{0,62}[a-z0-9_])?", better)
        check_name(better)


@pytest.fixture
def template(tmp_path: Path) -> Template:
    source = tmp_path / "stored"
    source.write_text(f"name: {PLACEHOLDER}\n")
    paths = ["model.py", "tests/test_model.py", "tests/deep/more.py", ".gitignore", "docs/page.md"]
    return Template("t", "d", tuple(TemplateFile((source,), PurePosixPath(path), f"for {path}") for path in paths))


def test_the_project_name_is_filled_in(template: Template, tmp_path: Path) -> None:
    write(template, tmp_path / "new", "my-model")
    assert (tmp_path / "new" / "tests" / "deep" / "more.py").read_text() == "name: my-model\n"


def test_a_binary_file_is_written_unchanged(tmp_path: Path) -> None:
    weights = tmp_path / "stored"
    weights.write_bytes(bytes(range(256)) + b"\r\n")
    file = TemplateFile((weights,), PurePosixPath("w.safetensors"), "weights")
    write(Template("t", "d", (file,)), tmp_path / "new", "n")
    assert (tmp_path / "new" / "w.safetensors").read_bytes() == weights.read_bytes()


def test_the_tree_shows_every_file_with_its_phrase(template: Template, capsys: pytest.CaptureFixture[str]) -> None:
    console.out(tree(template, "new/"))
    assert capsys.readouterr().out.splitlines() == [
        "new/",
        "├── model.py           for model.py",
        "├── tests/",
        "│   ├── test_model.py  for tests/test_model.py",
        "│   └── deep/",
        "│       └── more.py    for tests/deep/more.py",
        "├── .gitignore         for .gitignore",
        "└── docs/",
        "    └── page.md        for docs/page.md",
    ]


def test_a_directory_that_is_not_empty_is_refused(template: Template, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt") as caught:
        write(template, tmp_path / "new", "new")
    assert "--force" in caught.value.hint
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["notes.txt"]


def test_merge_refuses_and_lists_existing_files_of_the_template(template: Template, tmp_path: Path) -> None:
    target = tmp_path / "new"
    (target / "tests").mkdir(parents=True)
    for name in ("notes.txt", "model.py", "tests/test_model.py"):
        (target / name).write_text("mine")
    with pytest.raises(UsageError) as caught:
        write(template, target, "new", merge=True)
    assert caught.value.message.splitlines()[1:] == [f"  {target}/model.py", f"  {target}/tests/test_model.py"]
    assert not (target / ".gitignore").exists()


def test_force_replaces_only_files_of_the_template(template: Template, tmp_path: Path) -> None:
    target = tmp_path / "new"
    target.mkdir()
    for name in ("notes.txt", "model.py"):
        (target / name).write_text("mine")
    write(template, target, "new", force=True)
    assert (target / "notes.txt").read_text() == "mine"
    assert (target / "model.py").read_text() == "name: new\n"


def test_force_replaces_a_link_and_not_its_target(template: Template, tmp_path: Path) -> None:
    target, elsewhere = tmp_path / "new", tmp_path / "elsewhere.py"
    target.mkdir()
    elsewhere.write_text("mine")
    (target / "model.py").symlink_to(elsewhere)
    write(template, target, "new", force=True)
    assert elsewhere.read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
def test_force_does_not_replace_files_by_directories_or_directories_by_files(
    template: Template, tmp_path: Path, force: bool
) -> None:
    target = tmp_path / "new"
    (target / "model.py").mkdir(parents=True)
    (target / "tests").write_text("mine")
    with pytest.raises(UsageError) as caught:
        write(template, target, "new", merge=True, force=force)
    assert f"  {target}/model.py" in caught.value.message
    assert f"  {target}/tests\n" in caught.value.message + "\n"


def test_a_file_with_the_project_s_name_is_refused(template: Template, tmp_path: Path) -> None:
    (tmp_path / "new").write_text("mine")
    with pytest.raises(UsageError, match="exist already"):
        write(template, tmp_path / "new", "new", force=True)


@pytest.mark.parametrize(
    ("merge", "force", "hint"),
    [
        (False, False, "choose another name, or replace files of the same name with --force"),
        (False, True, "choose another name"),
        (True, False, "replace files of the same name with --force"),
        (True, True, "move it away"),
    ],
    ids=["new", "new, by force", "here", "here, by force"],
)
def test_the_hint_names_the_ways_around_existing_files(
    template: Template, tmp_path: Path, merge: bool, force: bool, hint: str
) -> None:
    target = tmp_path / "new"
    (target / "model.py").mkdir(parents=True) if merge else target.write_text("mine")
    with pytest.raises(UsageError) as caught:
        write(template, target, "new", merge=merge, force=force)
    assert caught.value.hint == hint
