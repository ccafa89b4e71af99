from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime.authoring.styles.styles import STYLES
from reactor_runtime.errors import ConfigError, Location, ManifestError, UsageError
from reactor_runtime.manifest import KEYS, Manifest, kebab_case, load, unread_config
from reactor_runtime.manifest.page_settings import PageSettings


def project(tmp_path: Path, text: str) -> Path:
    (tmp_path / "reactor.yaml").write_text(text, encoding="utf-8")
    return tmp_path


def failure(tmp_path: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load(project(tmp_path, text))
    return caught.value


def place(error: UsageError) -> tuple[int, int]:
    assert isinstance(error.where, Location)
    assert error.where.file.endswith("reactor.yaml")
    return error.where.line, error.where.column


def test_a_whole_manifest(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("")
    manifest = load(project(tmp_path, "model: nets.pipeline:MyModel\nname: my-model\nconfig: config.yml\n"))
    assert manifest == Manifest(
        project=tmp_path,
        model="nets.pipeline:MyModel",
        module="nets.pipeline",
        class_name="MyModel",
        name="my-model",
        config_path=tmp_path / "config.yml",
    )


def test_only_the_model_is_required(tmp_path: Path) -> None:
    manifest = load(project(tmp_path, "model: pipeline:LoopModel\n"))
    assert (manifest.name, manifest.config_path) == ("loop-model", None)


def test_a_page_is_a_directory_with_an_index(tmp_path: Path) -> None:
    (tmp_path / "my_page").mkdir()
    error = failure(tmp_path, "model: pipeline:M\npage: my_page/\n")
    assert (error.message, place(error)) == ("the page my_page/ has no index.html", (2, 7))
    assert failure(tmp_path, "model: pipeline:M\npage: gone\n").message == "the page gone doesn't exist"
    (tmp_path / "my_page" / "index.html").write_text("<!doctype html>")
    assert load(project(tmp_path, "model: pipeline:M\npage: my_page/\n")).page == tmp_path / "my_page"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a project whose links and paths lead out of it, to an image and a page beside it."""
    beside, inside = tmp_path / "beside", tmp_path / "project"
    beside.mkdir()
    inside.mkdir()
    for name in ("mark.png", "index.html", "mark.txt"):
        (beside / name).write_text("secret")
    (inside / "mark.png").symlink_to(beside / "mark.png")
    (inside / "folder").symlink_to(beside)
    (inside / "config.yml").write_text("password: 1")
    (inside / "text.png").symlink_to("config.yml")
    (inside / "real.png").write_text("an image")
    (inside / "link.jpg").symlink_to("real.png")
    return inside


@pytest.mark.parametrize("key", ["logo", "thumbnail", "page"])
@pytest.mark.parametrize("folder", ["", "folder/", "../beside/", "{absolute}/"])
def test_files_outside_of_the_project_are_not_for_the_page(outside: Path, key: str, folder: str) -> None:
    name = (folder or "folder") if key == "page" else f"{folder}mark.png"
    written = name.format(absolute=outside.parent / "beside")
    error = failure(outside, f"model: pipeline:M\n{key}: {written}\n")
    assert error.message == f'"{key}" names {written}, which is not in the project'
    assert place(error)[0] == 2


def test_an_image_may_be_a_link_to_an_image_of_the_project_only(outside: Path) -> None:
    error = failure(outside, "model: pipeline:M\nlogo: text.png\n")
    assert error.message == '"logo" is a link to a file that is no image'
    settings = load(project(outside, "model: pipeline:M\nlogo: link.jpg\n")).page_settings
    assert settings.logo == outside / "real.png"


@pytest.mark.parametrize("page", [".", "./", "..", "my_page/.."])
def test_a_page_that_contains_the_project_is_refused(tmp_path: Path, page: str) -> None:
    (tmp_path / "my_page").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    error = failure(tmp_path, f"model: pipeline:M\npage: {page}\n")
    assert error.message.startswith(f"the page {page} contains reactor.yaml")
    assert "a directory of their own" in error.hint


def test_a_page_with_a_directory_that_another_route_hides_is_refused(tmp_path: Path) -> None:
    (tmp_path / "my_page" / "static").mkdir(parents=True)
    (tmp_path / "my_page" / "index.html").write_text("<!doctype html>")
    error = failure(tmp_path, "model: pipeline:M\npage: my_page\n")
    assert (error.message, place(error)) == (
        "the page my_page contains the directory static, but /static/ has the files of Reactor",
        (2, 7),
    )


def test_the_project_is_absolute_whatever_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project(tmp_path, "model: pipeline:M\n"))
    assert load(Path(".")).project == tmp_path


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("MyModel", "my-model"),
        ("HTTPModel", "http-model"),
        ("V2VModel", "v2v-model"),
        ("Model3D", "model3d"),
        ("my_model", "my-model"),
        ("_Private", "private"),
        ("X", "x"),
        ("_", "_"),
    ],
)
def test_the_default_name_is_the_class_in_kebab_case(class_name: str, name: str) -> None:
    assert kebab_case(class_name) == name


@pytest.mark.parametrize(("key", "nearest"), [("modle", "model"), ("confg", "config"), ("Name", "name")])
def test_the_error_for_an_unknown_key_names_the_nearest(tmp_path: Path, key: str, nearest: str) -> None:
    error = failure(tmp_path, f"# a comment\nmodel: pipeline:M\n{key}: x\n" if nearest != "model" else f"{key}: a:B\n")
    assert error.message == f'unknown key "{key}"'
    assert error.hint == f'did you mean "{nearest}"?'
    assert error.where is not None
    assert error.where.end_column == 1 + len(key)


def test_the_error_for_an_unknown_key_without_a_similar_one_lists_all(tmp_path: Path) -> None:
    error = failure(tmp_path, "model: pipeline:M\nzzz: 1\n")
    assert place(error) == (2, 1)
    assert error.hint == f"the keys are {', '.join(KEYS)}"


@pytest.mark.parametrize(
    "text",
    [
        "api_version: 3\nentrypoint: nets/pipeline.py:MyModel\n",
        "reactor: 3\nservice:\n  pipeline: nets.pipeline:MyModel\n",
    ],
    ids=["entrypoint", "nested"],
)
def test_a_manifest_of_another_version_is_answered_with_the_line_to_write(tmp_path: Path, text: str) -> None:
    error = failure(tmp_path, text)
    assert error.message.startswith("unknown key")
    assert error.hint == f"write `model: nets.pipeline:MyModel`; all keys are {', '.join(KEYS)}"


def test_a_version_is_to_be_left_out(tmp_path: Path) -> None:
    error = failure(tmp_path, "model: pipeline:MyModel\napi_version: 3\n")
    assert (error.message, error.hint) == (
        'unknown key "api_version"',
        f"the keys are {', '.join(KEYS)}; leave this line out",
    )


def test_a_name_in_the_file_goes_before_the_one_of_the_class(tmp_path: Path) -> None:
    named = load(project(tmp_path, "model: pipeline:MyModel\nname: my-model\n"))
    bare = load(project(tmp_path, "model: pipeline:MyModel\n"))
    assert [named.name_with("painter"), bare.name_with("painter"), bare.name_with(None)] == [
        "my-model",
        "painter",
        "my-model",
    ]


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "name: x\n"])
def test_the_error_for_a_missing_model_has_the_fix(tmp_path: Path, text: str) -> None:
    error = failure(tmp_path, text)
    assert error.message == 'reactor.yaml lacks the key "model"'
    assert "`model: pipeline:MyModel`" in error.hint
    assert place(error) == (1, 0)


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("pipeline.MyModel", "did you mean `model: pipeline:MyModel`?"),
        ("pipeline.py:MyModel", "did you mean `model: pipeline:MyModel`?"),
        ("src/pipeline.py:MyModel", "did you mean `model: src.pipeline:MyModel`?"),
        ("a:b:C", "did you mean `model: a.b:C`?"),
        ("MyModel", "write `model: pipeline:MyModel` for the class MyModel in pipeline.py"),
        (":MyModel", "write `model: pipeline:MyModel`"),
        ("pipeline/MyModel", "write `model: pipeline:MyModel`"),
    ],
)
def test_the_error_for_a_model_of_another_form_has_the_form(tmp_path: Path, model: str, hint: str) -> None:
    error = failure(tmp_path, f"name: x\nmodel: {model}\n")
    assert error.message == f'"{model}" isn\'t of the form module:Class'
    assert hint in error.hint
    assert place(error) == (2, 8)
    assert error.where is not None
    assert error.where.text == f"model: {model}"


@pytest.mark.parametrize(
    ("model", "part"), [("my-pipeline:M", "my-pipeline"), ("pipeline:My-Model", "My-Model"), ("class:M", "class")]
)
def test_what_python_cannot_name_is_named(tmp_path: Path, model: str, part: str) -> None:
    assert f'"{part}" in "{model}" isn\'t a Python name' in failure(tmp_path, f"model: {model}\n").message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("name: 3", '"name" is a number, not text'),
        ("name:", '"name" is empty, not text'),
        ("name: ''", '"name" is empty, not text'),
        ('name: "a\\nb"', '"name" must be one line of text'),
        ("config: [a]", '"config" is a list, not text'),
        ("config: true", '"config" is a boolean, not text'),
    ],
)
def test_values_that_are_not_text_are_refused(tmp_path: Path, line: str, problem: str) -> None:
    error = failure(tmp_path, f"model: a:B\n{line}\n")
    assert error.message == problem
    assert place(error)[0] == 2


@pytest.mark.parametrize(("text", "what"), [("- model: a:B\n", "a list"), ("pipeline\n", "text"), ("3\n", "a number")])
def test_a_manifest_that_is_no_mapping(tmp_path: Path, text: str, what: str) -> None:
    error = failure(tmp_path, text)
    assert error.message == f"reactor.yaml is {what}, not a mapping"
    assert place(error) == (1, 1)


def test_bad_yaml_points_at_the_author_s_line(tmp_path: Path) -> None:
    error = failure(tmp_path, "name: x\nmodel: pipeline: MyModel\n")
    assert isinstance(error, ManifestError)
    assert place(error) == (2, 16)
    assert "leave out the space" in error.hint


def test_a_missing_config_file_points_at_the_line_that_names_it(tmp_path: Path) -> None:
    error = failure(tmp_path, "model: a:B\nconfig: conf.yml\n")
    assert isinstance(error, ConfigError)
    assert error.message == "the config file conf.yml doesn't exist"
    assert place(error) == (2, 9)


def test_a_directory_is_no_config_file(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert failure(tmp_path, "model: a:B\nconfig: conf\n").message == "the config file conf is not a file"


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"there is no reactor\.yaml in") as caught:
        load(tmp_path)
    assert caught.value.hint == "`reactor init NAME` makes a new project"


def test_no_manifest_beside_a_model(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"# \xff\nclass Frame(Output): ...")
    # As Emacs marks a file with unsaved changes.
    (tmp_path / ".#b.py").symlink_to("user@host.1")
    (tmp_path / "b.py").write_text("import reactor_runtime as r\n\nclass Waves(r.ReactorPipeline):\n    pass\n")
    with pytest.raises(ManifestError) as caught:
        load(tmp_path)
    assert caught.value.hint == "write it with the line `model: b:Waves`"


@pytest.mark.parametrize("base", sorted({style.base.__name__ for style in STYLES}))
def test_a_model_of_each_style_is_found_beside_no_manifest(tmp_path: Path, base: str) -> None:
    (tmp_path / "b.py").write_text(f"class Waves({base}):\n    pass\n")
    with pytest.raises(ManifestError) as caught:
        load(tmp_path)
    assert caught.value.hint == "write it with the line `model: b:Waves`"


@pytest.mark.parametrize(
    ("present", "asked", "hint"),
    [
        ("reactor.yml", ".", "rename reactor.yml to reactor.yaml"),
        ("mine/reactor.yaml", ".", "there is one in mine/"),
        ("mine/reactor.yaml", "mine/tests", "there is one in"),
        ("mine/reactor.yaml", "mien", "did you mean"),
        ("reactor.yaml", "reactor.yaml", "name the directory that holds reactor.yaml"),
    ],
)
def test_a_manifest_near_by_is_pointed_out(tmp_path: Path, present: str, asked: str, hint: str) -> None:
    file = tmp_path / present
    (file.parent / "tests").mkdir(parents=True)
    file.write_text("model: a:B\n")
    with pytest.raises(ManifestError) as caught:
        load(tmp_path / asked)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("manifest_text", "code", "said"),
    [
        pytest.param("model: pipeline:M\n", "", True, id="nobody names it"),
        pytest.param("model: pipeline:M\nconfig: config.yml\n", "", False, id="the manifest names it"),
        pytest.param("model: pipeline:M\n", '@model("m", config="config.yml")', False, id="the code names it"),
    ],
)
def test_an_unread_config_file_is_mentioned(tmp_path: Path, manifest_text: str, code: str, said: bool) -> None:
    files = {"reactor.yaml": manifest_text, "config.yml": "a: 1\n", "pipeline.py": code}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    unread = unread_config(load(tmp_path))
    assert unread.startswith("config.yml is not read") is said


PAGE = """\
model: pipeline:M
title: My model
description: |
  Paints *light*.
accent: "#ff8800"
logo: logo.svg
thumbnail: wide.png
links: {Paper: https://example.org/paper}
presets:
  Night: {prompt: a harbour at night, strength: 0.5}
"""


def test_the_settings_of_the_page(tmp_path: Path) -> None:
    for name in ("logo.svg", "wide.png"):
        (tmp_path / name).touch()
    assert load(project(tmp_path, PAGE)).page_settings == PageSettings(
        title="My model",
        description="Paints *light*.\n",
        accent="#ff8800",
        logo=tmp_path / "logo.svg",
        thumbnail=tmp_path / "wide.png",
        links={"Paper": "https://example.org/paper"},
        presets={"Night": {"prompt": "a harbour at night", "strength": 0.5}},
    )


def test_without_settings_the_page_has_none(tmp_path: Path) -> None:
    assert load(project(tmp_path, "model: pipeline:M\n")).page_settings == PageSettings()


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("accent: #ff8800", '"accent" is empty, not a colour', 'write `accent: "#ff8800"`, with the quotes'),
        ("accent: orange", '"accent" is "orange", not a colour', 'write `accent: "#ff8800"`, with the quotes'),
        ("title: 3", '"title" is a number, not text', "write `title: My model`"),
        ("description:", '"description" is empty, not text', "write `description: |` and the text below it, indented"),
        ("logo: mark.png", '"logo" names mark.png, which is not a file', "name an image in the directory of"),
        ("thumbnail: mark.svg", '"thumbnail" names mark.svg, which has no suffix of an image', ".png, .jpg"),
        ("links: https://example.org", '"links" is text, not a mapping of names', "write `links: {Paper: "),
        (
            "links: {Paper: 'javascript:x'}",
            'the link "Paper" is "javascript:x", not an address',
            "write `Paper: https://example.org/paper`",
        ),
        ("presets: [a]", '"presets" is a list, not a mapping of names', "write `presets: {Night: {"),
        ("presets: {Night: dark}", 'the preset "Night" is not a mapping of fields to values', "with field names"),
        ("presets: {Night: {day: .nan}}", 'the preset "Night" can\'t be sent as JSON', "with field names"),
    ],
)
def test_a_wrong_setting_of_the_page_names_its_line(tmp_path: Path, line: str, message: str, hint: str) -> None:
    error = failure(tmp_path, f"model: pipeline:M\n{line}\n")
    assert error.message.startswith(message)
    assert hint in error.hint
    assert place(error)[0] == 2


def test_the_message_with_the_reward_is_read(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nenvironment: {message: score, reward: points}\n")
    assert load(tmp_path).as_environment == {"message": "score", "reward": "points"}


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("score", "no mapping of names"),
        ("{message: score, reward: 1}", "no mapping of names"),
        ("{reward: points}", "lacks the message"),
        ("{message: score, prize: points}", 'unknown key "prize"'),
    ],
)
def test_a_wrong_environment_is_refused_with_its_line(tmp_path: Path, written: str, message: str) -> None:
    (tmp_path / "reactor.yaml").write_text(f"model: pipeline:MyModel\nenvironment: {written}\n")
    with pytest.raises(ManifestError, match=message) as refused:
        load(tmp_path)
    assert refused.value.where is not None
    assert refused.value.where.line == 2
