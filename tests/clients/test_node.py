"""The JavaScript client outside of browsers: the tests of session.test.mjs, each against a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from tests.clients.fake_front import FakeFront
from tests.clients.model import MODEL
from tests.clients.node import node
from tests.server.running import RunningServer, reserved_port, serving, write_project

CLIENT = Path(__file__).parents[2] / "reactor_runtime" / "page" / "client"
TESTS = Path(__file__).with_name("session.test.mjs")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("client"), MODEL)
    (project / "picture.jpg").write_bytes(simplejpeg.encode_jpeg(np.full((16, 16, 3), 20, np.uint8)))
    with serving(project, "--resume-grace", "20") as server:
        yield server


@pytest.mark.parametrize("name", re.findall(r'^test\("(.+?)"', TESTS.read_text(), re.M))
def test_in_node(served: RunningServer, name: str) -> None:
    with reserved_port() as port:
        node(
            "--test",
            "--test-name-pattern",
            f"^{re.escape(name)}$",
            str(TESTS),
            CLIENT=(CLIENT / "index.js").as_uri(),
            SERVER=f"http://127.0.0.1:{served.port}",
            PICTURE=str(served.output.with_name("picture.jpg")),
            RESERVED_PORT=str(port),
        )
    served.wait_for_health("ready")


REFUSED = """
const { connect } = await import(process.env.CLIENT);
const session = connect(process.env.SERVER);
const error = await session.ready().catch((error) => error);
console.log(`${error}`, error.code, session.status.reason, session.status.phase);
"""


@pytest.mark.parametrize(
    ("query", "said"),
    [("", "this server requires a token"), ("?token=wrong", "the token is wrong")],
    ids=["none", "wrong"],
)
def test_who_is_not_let_in_is_told_why_and_does_not_try_again(tmp_path: Path, query: str, said: str) -> None:
    with serving(write_project(tmp_path, MODEL), "--token", "correct-horse") as server:
        address = f"http://127.0.0.1:{server.port}/{query}"
        client = (CLIENT / "reactor.js").as_uri()
        printed = node("--input-type=module", "-e", REFUSED, CLIENT=client, SERVER=address)
    assert printed == f"Refused: {said} refused refused ended\n"


STILL = """
class MyModel(ReactorPipeline):
    state: InputState
    seats = 2

    def inference(self):
        yield [MyOutput(main_video=gray(100)), MyOutput(main_video=gray(200))]
        while True:
            yield None
"""
WATCHES = """
const { connect } = await import(process.env.CLIENT);
const host = await connect(process.env.SERVER).ready();
await host.frames().next();
const viewer = connect(process.env.SERVER, { role: "viewer" });
const seats = [];
for await (const { seq, held } of viewer.frames()) {
  seats.push(`${viewer.welcome.seat} ${seq} ${held}`);
  if (seats.length === 3) break;
  viewer.view({ seat: seats.length % 2 });
}
console.log(seats.join());
host.close();
viewer.close();
"""


def test_a_viewer_gets_the_latest_frame_of_the_seat_that_it_changes_to(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, STILL)) as server:
        client = (CLIENT / "reactor.js").as_uri()
        printed = node("--input-type=module", "-e", WATCHES, CLIENT=client, SERVER=f"http://127.0.0.1:{server.port}/")
    assert printed == "0 0 true,1 0 true,0 0 true\n"


SEATED = """
const { connect } = await import(process.env.CLIENT);
let socket;
class Scripted {
  protocol = "reactor.v1";
  constructor() { socket = this; }
  send() {}
  close() {}
}
const session = connect("http://127.0.0.1:9", { WebSocket: Scripted });
const say = (type, data) => socket.onmessage({ data: JSON.stringify({ type, data }) });
const steps = [];
const ready = session.ready().then(() => steps.push(`ready ${session.welcome.clients}`));
socket.onopen({});
const schema = { events: {}, messages: {} };
const client = { client: "c-1", role: "controller", seat: 0, seats: 2, room: "duel" };
say("reactor.welcome", { ...client, session: "s-1", model: "m", tracks: [], schema, state: {}, limits: {} });
await new Promise(setImmediate);
steps.push("seats");
say("reactor.seats", { room: "duel", clients: ["c-1", null], away: [] });
await ready;
console.log(steps.join());
session.close();
"""


def test_the_clients_in_the_seats_are_known_when_a_session_is_ready() -> None:
    printed = node("--input-type=module", "-e", SEATED, CLIENT=(CLIENT / "reactor.js").as_uri())
    assert printed == "seats,ready c-1,\n"


VIEWS = """
const { connect } = await import(process.env.CLIENT);
const views = [];
let socket;
class Scripted {
  protocol = "reactor.v1";
  readyState = 1;
  constructor() { socket = this; }
  send(text) {
    const { type, data } = JSON.parse(text);
    if (type === "reactor.view") views.push(data.seat ?? null);
  }
  close() {}
}
const session = connect("http://127.0.0.1:9", { WebSocket: Scripted, role: "viewer" });
socket.onopen({});
const client = { client: "c-1", role: "viewer", seat: 0, seats: 1, session: "s-1" };
const schema = { events: {}, messages: {} };
const data = { ...client, model: "m", tracks: [], schema, state: {}, limits: {} };
socket.onmessage({ data: JSON.stringify({ type: "reactor.welcome", data }) });
await session.ready();
session.view({ maxFps: 5 });
session.view({ seat: 1 });
session.view({ maxFps: 10 });
session.view({ seat: null });
console.log(JSON.stringify(views));
session.close();
"""


def test_a_view_without_a_seat_is_sent_with_the_last_one() -> None:
    printed = node("--input-type=module", "-e", VIEWS, CLIENT=(CLIENT / "reactor.js").as_uri())
    assert printed == "[null,1,1,1]\n"


STEPPED = """
const { connect } = await import(process.env.CLIENT);
let socket;
let id = 0;
class Scripted {
  protocol = "reactor.v1";
  readyState = 1;
  constructor() { socket = this; }
  send(text) { if (text.includes("reactor.step")) id += 1; }
  close() {}
}
const session = connect("http://127.0.0.1:9", { WebSocket: Scripted, stepped: true });
const say = (type, data, id) => socket.onmessage({ data: JSON.stringify({ type, data, id }) });
socket.onopen({});
const schema = { events: {}, messages: {} };
const client = { client: "c-1", role: "controller", seat: 0, seats: 1 };
say("reactor.welcome", { ...client, session: "s-1", model: "m", tracks: [], schema, state: {}, limits: {} });
await session.ready();
const asked = Promise.allSettled([session.step(), session.step(), session.step()]);
while (id < 3) await new Promise(setImmediate);
const made = (step) => ({ step, steps: 1, elapsed_s: 0, frames: {} });
const answers = [
  ["reactor.stepped", made(1)],
  ["reactor.error", { code: "failed", made: made(2) }],
  ["reactor.stepped", made(3)],
];
answers.forEach(([type, data], index) => {
  say("said", { words: index + 1 });
  say("reactor.state", { level: index + 1 });
  say(type, data, index + 1);
});
const results = (await asked).map(({ value, reason }) => value ?? reason.made);
for (const { step, state, messages } of results)
  console.log(step, state.level, ...messages.map(({ data }) => data.words));
session.close();
"""


def test_answers_of_steps_that_arrive_together_have_each_the_messages_before_it() -> None:
    printed = node("--input-type=module", "-e", STEPPED, CLIENT=(CLIENT / "reactor.js").as_uri())
    assert printed == "1 1 1\n2 2 2\n3 3 3\n"


REDIRECTED = """
const { connect } = await import(process.env.CLIENT);
const session = connect(process.env.SERVER);
const phases = [];
session.addEventListener("status", ({ detail }) => phases.push(detail.phase));
await session.ready();
const file = await session.upload(new Blob(["hello"]), "note.txt");
const { message } = await session.send("measure", { file });
console.log(phases.join(), message.data.words);
session.close();
"""


def test_a_front_redirects_and_the_session_is_at_the_worker(served: RunningServer) -> None:
    with FakeFront() as front:
        front.workers.put(f"http://127.0.0.1:{served.port}")
        printed = node("--input-type=module", "-e", REDIRECTED, CLIENT=(CLIENT / "index.js").as_uri(), SERVER=front.url)
    assert printed == "connecting,waiting,connecting,connected note.txt hello\n"
    served.wait_for_health("ready")


def test_a_platform_without_websockets_is_told_what_to_do() -> None:
    script = f"import('{(CLIENT / 'reactor.js').as_uri()}').then(({{connect}}) => connect('http://127.0.0.1:9'))"
    with pytest.raises(AssertionError, match="there is no WebSocket here: give one as an option"):
        node("--no-experimental-websocket", "-e", script)


FRAMES = """
import { VideoOutputs } from "CLIENT/frames.js";
import { readFrames } from "CLIENT/readers.js";
const acknowledged = [];
const outputs = new VideoOutputs({ acknowledge: ({ seq }) => acknowledged.push(seq), onShown() {}, emit() {} });
const later = () => new Promise((resolve) => setTimeout(resolve));
const put = (seq, held = false) => outputs.put({ track: "main", seq, held }, new Uint8Array([seq]).buffer);
/** Put the numbers of all frames that a reader gets into `seqs`. */
const read = async (seqs) => {
  for await (const { seq } of readFrames(outputs, "main", new AbortController().signal)) seqs.push(seq);
};
const [early, late] = [[], []];
"""


def frames_in_node(script: str) -> str:
    return node("--input-type=module", "-e", FRAMES.replace("CLIENT", CLIENT.as_uri()) + script)


def test_the_newest_frame_that_is_sent_again_after_a_break_is_yielded_once_and_acknowledged() -> None:
    printed = frames_in_node("""
        outputs.restart(["main"]);
        read(early);
        for (const step of [() => put(4), () => outputs.restart(["main"], { resumed: true }), () => put(4, true),
                            () => put(5), () => outputs.restart(["main"]), () => put(5, true)]) {
          step();
          await later();
        }
        console.log(`${early} ${acknowledged}`);
    """)
    assert printed == "4,5,5 4,4,5,5\n"


def test_a_frame_that_was_not_read_before_a_break_is_read_after_it() -> None:
    printed = frames_in_node("""
        outputs.restart(["main"]);
        const frames = readFrames(outputs, "main", new AbortController().signal);
        put(4);
        outputs.restart(["main"], { resumed: true });
        put(4, true);
        console.log((await frames.next()).value.seq);
    """)
    assert printed == "4\n"


def test_who_reads_frames_after_the_end_of_a_session_gets_those_of_the_next() -> None:
    printed = frames_in_node("""
        outputs.restart(["main"]);
        read(early);
        put(4);
        outputs.end();
        read(late);
        await later();
        outputs.restart(["main"]);
        put(0);
        await later();
        console.log(`${early} ${late}`);
    """)
    assert printed == "4,0 0\n"
