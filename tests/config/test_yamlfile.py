from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.config.yamlfile import name_of, parse_value, read
from reactor_runtime.errors import ConfigError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "some.yml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "column", "problem", "hint"),
    [
        ("a: 1\n\tb: 2\n", 2, 1, "'\\t' that cannot start any token", "spaces"),
        ("a: b: c\n", 1, 5, "mapping values are not allowed here", "quotes"),
        ("a: [1, 2\n", 1, 9, "<stream end>", "bracket"),
        ("a: 'b\n", 1, 6, "unexpected end of stream", "quote"),
        ("a: 1\nb\n", 2, 2, "could not find expected ':'", "key: value"),
        ("a: *b\n", 1, 4, "undefined alias 'b'", "starts with *"),
        ("a: 1\n---\nb: 2\n", 2, 1, "another document", "---"),
        ("a: 1\nb:\n  c: 2\n  d: 3\n  c: 4\n", 5, 3, '"c" is given twice; it is on line 3 already', "keep one"),
        ("- {a: 1, a: 2}\n", 1, 10, '"a" is given twice', "keep one"),
        ("a: 1\n1: 2\n'1': 3\n", 3, 1, '"1" is given twice', "keep one"),
        ("? [a]\n: 1\n", 1, 3, "a key is one text", ""),
        ("a: 1\nb: !thing 2\n", 2, 4, "'!thing'", "leave out the tag"),
        ("a: 1\nb: !!set {c}\n", 2, 4, "2002:set'", "leave out the tag"),
        ("a: !!float abc\n", 1, 4, "could not convert", ""),
        ("a: !!bool maybe\n", 1, 4, "not a boolean", ""),
        (f"a: 1\nb: [2, {'9' * 5000}]\n", 2, 8, "4300 digits", ""),
        ("a: 1\nb: \x07\n", 2, 4, "U+0007", ""),
    ],
    ids=lambda value: value.strip().replace("\n", "/") if isinstance(value, str) else None,
)
def test_bad_yaml_names_line_column_and_remedy(
    tmp_path: Path, text: str, line: int, column: int, problem: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(written(tmp_path, text), ConfigError)
    where = caught.value.where
    assert where is not None
    assert (where.line, where.column) == (line, column)
    assert where.text == text.splitlines()[line - 1]
    assert problem in caught.value.message
    assert hint in caught.value.hint


def test_keys_and_values_have_places(tmp_path: Path) -> None:
    file = read(written(tmp_path, "one: 1\nlonger: two words\n"), ConfigError)
    key, item = file.keys["longer"], file.items["longer"]
    assert (key.line, key.column, key.end_column) == (2, 1, 7)
    assert (item.line, item.column, item.end_column, item.text) == (2, 9, 18, "longer: two words")


def test_the_same_key_in_different_mappings_is_fine(tmp_path: Path) -> None:
    text = "a: &shared {x: 1}\nb: {x: 2}\nc:\n  <<: *shared\n  x: 3\n"
    assert read(written(tmp_path, text), ConfigError).values["c"] == {"x": 3}


def test_deep_nesting_is_an_error_and_no_crash(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        read(written(tmp_path, "[" * 5000), ConfigError)


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: [1, *a]}\n", "a: &a\n  <<: {b: *a}\n"])
def test_a_value_that_contains_itself_is_an_error_with_its_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="recursive") as caught:
        read(written(tmp_path, text), ConfigError)
    assert caught.value.where is not None
    assert caught.value.where.line == 1
    assert "can't be inside the value" in (caught.value.hint or "")


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "some.yml"
    path.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfigError, match="isn't UTF-8 text") as caught:
        read(path, ConfigError)
    assert caught.value.where is not None
    assert caught.value.where.line == 2


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "some.yml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert read(path, ConfigError).values == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-5", 1e-5),
        ("1e22", 1e22),
        ("1E+3", 1000.0),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("-.INF", float("-inf")),
        ("012", 12),
        ("+1", 1),
        ("0o17", 15),
        ("0x1f", 31),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0b1", "0b1"),
        ("-0x1f", "-0x1f"),
        ("017.5", 17.5),
        ("2024-01-02", "2024-01-02"),
        ("=", "="),
        ("e5", "e5"),
        ("1e", "1e"),
        ("-", [None]),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("~", None),
        ("NULL", None),
        ("", None),
        ("'1e5'", "1e5"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("!!int 0x1f", 31),
    ],
)
def test_numbers_are_those_of_yaml_1_2_and_booleans_those_of_1_1(text: str, value: object) -> None:
    found = parse_value(text)
    assert (found, type(found)) == (value, type(value))


def test_keys_are_text_as_they_are_written() -> None:
    text = "{on: 1, no: 2, yes: 3, off: 4, true: 5, null: 6, 1: 7, 1.0: 8, 2024-01-02: 9, <: 10, '<<': 11}"
    keys = ["on", "no", "yes", "off", "true", "null", "1", "1.0", "2024-01-02", "<", "<<"]
    assert list(parse_value(text)) == keys


@given(st.text(max_size=30))
def test_reading_raises_nothing_but_its_own_error(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        said = str(read(path, ConfigError).path)
    except ConfigError as error:
        said = str(error)
    assert said.startswith(str(path))


@pytest.mark.parametrize(("value", "name"), [(None, "empty"), ({}, "a mapping"), (1, "a number"), (True, "a boolean")])
def test_types_are_named_in_yaml_words(value: object, name: str) -> None:
    assert name_of(value) == name


def test_inner_values_and_their_keys_have_places(tmp_path: Path) -> None:
    file = read(written(tmp_path, "- at: 1s\n  data:\n    prompt: a fox\n- at: [1, 2]\n"), ConfigError)
    assert str(file.place(0, "data", "prompt")).endswith("some.yml:3:13")
    assert str(file.key_place(0, "data", "prompt")).endswith("some.yml:3:5")
    assert str(file.place(1, "at", 1)).endswith("some.yml:4:11")


def test_the_place_of_what_is_not_there_is_that_of_what_is_around_it(tmp_path: Path) -> None:
    file = read(written(tmp_path, "- at: 1s\n- data:\n    prompt: a fox\n"), ConfigError)
    assert str(file.place(1, "data", "image", "name")).endswith("some.yml:3:5")
    assert str(file.key_place(1, "data", "image")).endswith("some.yml:3:5")
    assert str(file.place(2)).endswith("some.yml:1:1")
    assert read(written(tmp_path, ""), ConfigError).place(1, "data").line == 1


@pytest.mark.parametrize("word", ["yes", "no", "true", "false", "on", "off"])
def test_booleans_are_written_in_three_ways(word: str) -> None:
    for text in (word, word.title(), word.upper()):
        assert parse_value(text) is (word in ("yes", "true", "on"))
    assert parse_value(word.title().swapcase()) == word.title().swapcase()


@pytest.mark.parametrize("sign", ["", "+", "-"])
def test_a_number_may_begin_with_its_point(sign: str) -> None:
    value = -0.5 if sign == "-" else 0.5
    assert (parse_value(f"{sign}.5"), parse_value(f"{sign}.5e3")) == (value, 1000 * value)


def test_a_mapping_may_merge_several_others(tmp_path: Path) -> None:
    text = "a: &a {x: 1}\nb: &b {y: 2}\nc:\n  <<: *a\n  <<: *b\n  z: 3\n"
    assert read(written(tmp_path, text), ConfigError).values["c"] == {"x": 1, "y": 2, "z": 3}


def test_a_character_that_json_has_escaped_as_two_is_one() -> None:
    assert parse_value('{"\\ud83d\\ude00": "\\ud83d\\ude00!"}') == {"\U0001f600": "\U0001f600!"}


def test_a_value_of_several_lines_has_the_place_of_its_first_without_an_end(tmp_path: Path) -> None:
    places = read(written(tmp_path, "a: one\nb: [1,\n  2]\n"), ConfigError).items
    assert (places["a"].column, places["a"].end_column) == (4, 7)
    assert (places["b"].line, places["b"].column, places["b"].end_column) == (2, 4, 0)
