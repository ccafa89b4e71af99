"""A wrong declaration is shown at its own line, and named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType

import pytest

from reactor_runtime.authoring.code.source import attached_location, declared_at, location_of
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.errors import ClassError, Location

HEAD = """\
from dataclasses import dataclass, field
from typing import Optional

from reactor_runtime import *


class MyOutput(Output):
    main_video: Video


"""
MODEL = """

class MyState(InputState):
    speed: float = 1.0
    {state}


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        yield None

    {model}
"""


@dataclass(frozen=True)
class Wrong:
    """A fault, what names it, and `# <-` on the line at fault."""

    words: str
    before: str = ""
    state: str = "pass"
    model: str = "pass"

    def __str__(self) -> str:
        return self.words

    @property
    def text(self) -> str:
        return HEAD + self.before + MODEL.format(state=self.state, model=self.model)


def method(decorator: str, definition: str, *more: str) -> str:
    return "\n    ".join([decorator, definition, *more])


GO = '@event(name="go")'
STATES = [
    Wrong("MyState.tags: the default [] is mutable", state="tags: list[str] = []  # <-"),
    Wrong("MyState.tags: default_factory", state="tags: list[str] = field(default_factory=list)  # <-"),
    Wrong("MyState.size: default: 9 is above 5", state="size: int = InputField(9, le=5)  # <-"),
    Wrong("MyState.size: default: 8 is above 5", state="size: int = InputField(  # <-\n        8, le=5,\n    )"),
    Wrong("MyState.size: the default None needs a type that allows it: int | None", state="size: int = None  # <-"),
    Wrong("MyState.size needs a default", state="size: int  # <-"),
    Wrong("MyState.size: a client can't set a value of type bytes", state="size: bytes = b''  # <-"),
    Wrong("a private field, _latent, may have any type", state="latent: bytearray = None  # <-"),
    Wrong("MyState.size: the annotation 'Size'", state="size: 'Size' = 3  # <-"),
    Wrong("MyState.size needs an annotation", state="size = InputField(3)  # <-"),
    Wrong("MyState.size: MessageField is for messages", state="size: int = MessageField(3)  # <-"),
    Wrong("MyState._size needs a default", state="_size: int  # <-"),
    Wrong(
        "MyState.name: the pattern '(' can't be used: unclosed group",
        state='name: str = InputField("", pattern="(")  # <-',
    ),
    Wrong(
        "MyState.size (Size.width): a client can't set a value of type bytes",
        before="@dataclass(frozen=True)\nclass Size:\n    width: bytes = b''  # <-\n",
        state="size: Size = Size()",
    ),
    Wrong("InputField takes no minimum; did you mean ge?", state="size: int = InputField(3, minimum=2)  # <-"),
]
MESSAGES = [
    Wrong(
        "Progress.items: the default [] is mutable and would be shared; use dataclasses.field(default_factory=list)",
        before="class Progress(ModelMessage):\n    step: int\n    items: list[int] = []  # <-\n",
    ),
    Wrong(
        "Progress.items: the default [1] is mutable and would be shared; "
        "use dataclasses.field(default_factory=lambda: [1])",
        before="class Progress(ModelMessage):\n    items: list[int] = MessageField([1])  # <-\n",
    ),
    Wrong(
        "Progress._items: the default set() is mutable",
        before="class Progress(ModelMessage):\n    _items: set = set()  # <-\n",
    ),
    Wrong(
        "Progress.total: InputField is for",
        before="class Progress(ModelMessage):\n    total: int = InputField(3)  # <-\n",
    ),
    Wrong(
        "Progress.total needs an annotation",
        before="class Progress(ModelMessage):\n    total = MessageField(3)  # <-\n",
    ),
    Wrong("Progress.name must be", before="class Progress(ModelMessage):\n    name = 3  # <-\n"),
    Wrong(
        "MessageField takes no default_factory; use dataclasses.field",
        before="class Progress(ModelMessage):\n    items: list[int] = MessageField(default_factory=list)  # <-\n",
    ),
    Wrong(
        "messages One and Two are both called 'same'",
        before="class One(ModelMessage):\n    name = 'same'\n\n\nclass Two(ModelMessage):  # <-\n    name = 'same'\n",
    ),
]
TRACKS = [
    Wrong("Second.depth: a track must have", before="class Second(Output):\n    depth: Optional[Video]  # <-\n"),
    Wrong("Second.depth: annotate it Video, the class", before="class Second(Output):\n    depth: Video()  # <-\n"),
    Wrong("write `depth: Video`", before="class Second(Output):\n    depth = Video  # <-\n"),
    Wrong("Second.note: InputField", before="class Second(Output):\n    note: str = InputField('')  # <-\n"),
    Wrong("Second.notes: the default {}", before="class Second(Output):\n    notes: dict = {}  # <-\n"),
    Wrong("main_video' is video in MyOutput", before="class Second(Output):\n    main_video: Audio  # <-\n"),
    Wrong("Low.sample_rate", before="class Low(Audio):\n    sample_rate = 0.5  # <-\n"),
    Wrong("MyInput.scale: annotate it", before="class MyInput(Input):\n    scale: float  # <-\n"),
    Wrong(
        "track 'main_video' is an input in MyInput and an output",
        before="class MyInput(Input):\n    webcam: Video\n    main_video: Video  # <-\n",
        model="input: MyInput",
    ),
    Wrong("MyModel.input: annotate it", model="input: Input  # <-"),
    Wrong(
        "MyModel: one and two are both annotated MyInput",
        before="class MyInput(Input):\n    webcam: Video\n",
        model="one: MyInput\n    two: MyInput  # <-",
    ),
]
HANDLERS = [
    Wrong('@event(name="set_prompt")', model=method("@event  # <-", "def go(self): ...")),
    Wrong(
        "event name 'connected': use @connected", model=method('@event(name="connected")  # <-', "def go(self): ...")
    ),
    Wrong(
        "MyModel: event 'go' is handled by both", model=method(GO, "def go(self): ...", GO, "def to(self): ...  # <-")
    ),
    Wrong("MyModel.go: *args", model=method(GO, "def go(self, *args): ...  # <-")),
    Wrong(
        "MyModel.go: x: a client can't",
        model=method(GO, "def go(", "    self, y: int,", "    x: bytes,  # <-", "): ..."),
    ),
    Wrong("MyModel.go: x: default: 3", model=method(GO, "def go(self, x: int = InputField(3, le=2)): ...  # <-")),
    Wrong("MyModel.go: a handler can't yield", model=method(GO, "def go(self):  # <-", "    yield")),
    Wrong("MyModel.go: a method can be one handler", model=method(GO, GO, "def go(self): ...  # <-")),
    Wrong("MyModel.go: x: @connected passes only", model=method("@connected", "def go(self, x): ...  # <-")),
    Wrong(
        "MyModel: @connected is handled by both",
        model=method("@connected", "def go(self): ...", "@connected", "def to(self): ...  # <-"),
    ),
    Wrong("@connected takes nothing", model=method("@connected()  # <-", "def go(self): ...")),
    Wrong("@disconnected takes nothing", model=method("@disconnected(name='x')  # <-", "def go(self): ...")),
]
MODELS = [
    Wrong("MyModel.fps must be above 0, not 0", model="fps = 0  # <-"),
    Wrong("MyModel.buffer_size must be a whole number", model="buffer_size = 2.5  # <-"),
    Wrong("MyModel.max_fps must be at least 1", model="max_fps = 0.5  # <-"),
    Wrong("MyModel.send would hide", model="def send(self): ...  # <-"),
    Wrong("MyModel.load must take the config", model="def load(self): ...  # <-"),
    Wrong("MyModel.load yields, so nothing", model="def load(self, config):  # <-\n        yield"),
    Wrong("MyModel.__init__", model="def __init__(self, config): ...  # <-"),
    Wrong("MyModel.output: the annotation 'Out'", model="output: 'Out'  # <-"),
    Wrong("MyModel.inference: missing a required argument: 'x'", model="def inference(self, x):  # <-\n        yield"),
    Wrong("Loop.run is not async", before="class Loop(ReactorModel):\n    def run(self): ...  # <-\n"),
    Wrong(
        "Stateless needs a state",
        before="class Stateless(ReactorPipeline):  # <-\n    def inference(self):\n        yield\n",
    ),
    Wrong("Other.state must be annotated", before="class Other(ReactorPipeline):\n    state: dict  # <-\n"),
    Wrong(
        "Other.state must be an annotation, not a value: write `state: InputState`",
        before="class Other(ReactorPipeline):\n    state = InputState()  # <-\n    def inference(self): ...\n",
    ),
]


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    path, modules = list(sys.path), set(sys.modules)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


@pytest.mark.parametrize("wrong", [*STATES, *MESSAGES, *TRACKS, *HANDLERS, *MODELS], ids=str)
def test_a_wrong_declaration_points_at_its_line(project: Path, wrong: Wrong) -> None:
    (project / "pipeline.py").write_text(wrong.text)
    model = "Loop" if "Loop" in wrong.words else "MyModel"
    with pytest.raises(ClassError) as raised:
        Contract.of(import_class(project, "pipeline", model))
    error, where = raised.value, raised.value.where
    assert wrong.words in error.message
    assert where is not None
    assert where.text in wrong.text.splitlines()
    assert where.text.endswith("# <-")
    assert where.text == wrong.text.splitlines()[where.line - 1]
    assert where.text[where.column - 1] not in " #"


def test_the_declaration_of_a_parent_is_found() -> None:
    class Child(Wrong):
        pass

    location = location_of(Child, "before")
    assert location is not None
    assert marked(location) == 'before: str = ""'


def test_the_name_of_a_parameter_and_its_annotation_are_marked() -> None:
    def handler(self: object, é: int, brightness: float = 1.0) -> None: ...

    assert isinstance(handler, FunctionType)
    location = location_of(handler, "brightness")
    assert location is not None
    assert marked(location) == "brightness: float"


def test_a_class_without_source_has_no_place() -> None:
    made: dict[str, type] = {}
    exec("class Made: x = 3\ndef call(x): ...", made)
    assert location_of(made["Made"], "x") is None
    assert location_of(made["call"], "x") is None
    assert location_of(int, "real") is None


def test_the_innermost_place_is_the_one_meant() -> None:
    error = ValueError("wrong")
    with pytest.raises(ValueError, match="wrong"), declared_at(Wrong), declared_at(Wrong, "words"):
        raise error
    location = attached_location(error)
    assert location is not None
    assert marked(location) == "words: str"


def test_an_error_that_is_about_no_declaration_has_no_place() -> None:
    assert attached_location(ValueError("wrong")) is None


def marked(location: Location) -> str:
    return location.text[location.column - 1 : location.end_column - 1]
