/** The client in Node, against a real server: each test is run by test_node.py, with the server's address and files in the environment. */

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const { connect, ConnectionLost, EventError, SessionEnded, UploadError } = await import(process.env.CLIENT);
const url = process.env.SERVER;
const signal = () => AbortSignal.timeout(20_000);

/** The detail of the next event that passes. */
const once = (session, name, passes = () => true) => new Promise((resolve) => {
  session.addEventListener(name, function heard({ detail }) {
    if (!passes(detail)) return;
    session.removeEventListener(name, heard);
    resolve(detail);
  });
});

/** Run with a session that has begun, and leave. */
async function during(use, options) {
  const session = connect(url, options);
  try {
    await use(await session.ready({ signal: signal() }));
  } finally {
    session.close();
  }
}

test("a session tells what the model has", () => during(async (session) => {
  assert.equal(session.role, "controller");
  assert.match(session.id, /^s-/);
  assert.deepEqual(session.status, { phase: "connected", role: "controller" });
  assert.deepEqual(session.tracks.map(({ name, direction }) => [name, direction]), [
    ["main_video", "out"],
    ["tone", "out"],
    ["camera", "in"],
    ["microphone", "in"],
  ]);
  assert.deepEqual(session.state, { level: 100 });
  assert.equal(session.schema.events.set_level.field, "level");
  assert.equal(session.limits.max_text_bytes, 262144);
}));

test("an event resolves when it was applied and the frames say so", () => during(async (session) => {
  const changed = once(session, "state");
  const { n } = await session.send("set_level", { level: 7 });
  for await (const { applied, jpeg, bitmap, track } of session.frames()) {
    assert.equal(track, "main_video");
    assert.deepEqual([...jpeg.subarray(0, 2)], [0xff, 0xd8]);
    assert.equal(bitmap, null);
    if (applied >= n) break;
  }
  assert.deepEqual(await changed, { level: 7 });
  assert.equal(session.state.level, 7);
  assert.ok(session.inputDelayMs > 0);
}));

test("a frame that shows an event is waited for", () => during(async (session) => {
  assert.equal((await session.frame()).track, "main_video");
  const reply = await session.send("set_level", { level: 7 });
  const { applied, jpeg } = await session.frame({ track: "main_video", after: reply });
  assert.ok(applied >= reply.n);
  assert.deepEqual([...jpeg.subarray(0, 2)], [0xff, 0xd8]);
}));

test("a frame that will not come rejects with the reason", () => during(async (session) => {
  const after = { n: 1000 };
  const given = new AbortController();
  const waits = session.frame({ after, signal: given.signal });
  await session.frame();
  given.abort(new Error("enough"));
  await assert.rejects(waits, /enough/);
  await assert.rejects(session.frame({ signal: given.signal }), /enough/);
  const ended = session.frame({ after });
  await session.frame();
  session.close();
  await assert.rejects(ended, (error) => error instanceof SessionEnded && error.reason === "closed");
  await assert.rejects(session.frame(), SessionEnded);
}));

test("a wrong value rejects with the fields at fault", () => during(async (session) => {
  const error = await session.send("set_level", { level: 300 }).catch((reason) => reason);
  assert.ok(error instanceof EventError);
  assert.equal(error.code, "invalid_event");
  assert.equal(error.event, "set_level");
  assert.deepEqual(error.fields, [{ path: "set_level.level", message: "300 is above 255" }]);
  await assert.rejects(session.send("refuse"), { code: "closed", message: "not on Sundays" });
}));

test("what cannot be sent rejects and ends nothing", () => during(async (session) => {
  await assert.rejects(session.send("reactor.here"), { name: "TypeError", message: '"reactor.here" is no event of a model' });
  await assert.rejects(session.send(""), TypeError);
  const words = "ü".repeat(session.limits.max_text_bytes / 2);
  await assert.rejects(session.send("say", { words }), { name: "RangeError", message: /say is over 262144 bytes/ });
  assert.throws(() => session.notify("say", { words }), RangeError);
  await assert.rejects(session.publish("nothing", new Uint8Array([0xff, 0xd8])), /takes no track nothing; it takes camera, microphone/);
  const huge = new Uint8Array(session.limits.max_media_bytes).fill(0xff).fill(0xd8, 1, 2);
  await assert.rejects(session.publish("camera", huge), RangeError);
  await assert.rejects(session.publish("camera", "camera"), /JPEG and WAV, as bytes or Blob, are all that can be published here/);
  await assert.rejects(session.stream(), /there is no MediaStream here/);
  await assert.rejects(session.speaker.start(), { name: "TypeError", message: 'there is no AudioContext here; the event "sound" gives the pieces' });
  await assert.rejects(session.speaker.start(), TypeError);
  assert.equal((await session.send("set_level", { level: 3 })).n, 1);
}));

test("messages come in order and a handler's own with the reply", () => during(async (session) => {
  const messages = session.messages();
  for (const words of ["one", "two"]) {
    const { message } = await session.send("say", { words });
    assert.deepEqual(message, { type: "said", data: { words: words.toUpperCase() } });
  }
  for (const words of ["one", "two"]) assert.deepEqual((await messages.next()).value.data, { words });
}));

test("an event is not sent without an answer by a client that controls no session", () => during(async (session) => {
  const errors = [];
  const watch = async (options) => {
    const other = connect(url, options);
    await once(other, "session");
    other.addEventListener("error", ({ detail }) => errors.push(detail));
    assert.equal(other.notify("set_level", { level: 9 }), false);
    other.notify("reactor.ping", { t: "after" }); // the server answers when it has read all before it
    await once(other, "pong", ({ t }) => t === "after");
    other.close();
  };
  await watch({ role: "viewer" });
  await watch({ watch: true });
  assert.deepEqual(errors, []);
  assert.equal(session.notify("set_level", { level: 3 }), true);
  while (session.state.level !== 3) await once(session, "state");
}));

test("who takes frames slowly gets the newest", () => during(async (session) => {
  const frames = session.frames("main_video");
  const { value: first } = await frames.next();
  await once(session, "stats");
  await once(session, "stats", ({ emitted }) => emitted > first.seq + 20);
  await frames.next(); // what was on its way when the window closed
  const { value: then } = await frames.next();
  assert.ok(then.seq > first.seq + 10, `${first.seq} then ${then.seq}`);
}));

test("a picture that is published reaches the model", () => during(async (session) => {
  const messages = session.messages();
  assert.equal(await session.publish("camera", await readFile(process.env.PICTURE)), true);
  const { value } = await messages.next();
  assert.match(value.data.words, /^camera (1[89]|20|21|22)$/);
}));

test("what is no file can not be published outside of pages", () => during(async (session) => {
  await assert.rejects(session.publish("camera", "camera"), { name: "TypeError", message: /JPEG and WAV, as bytes or Blob/ });
}));

test("a file that is uploaded can be named in an event", () => during(async (session) => {
  const file = await session.upload(new Blob(["hello"]), "note.txt");
  const { message } = await session.send("measure", { file });
  assert.equal(message.data.words, "note.txt hello");
}));

test("a file that is not taken is an error with its status", async () => {
  await during(async (session) => {
    await during((viewer) => assert.rejects(viewer.upload(new Blob(["x"])), UploadError), { role: "viewer" });
    await assert.rejects(session.upload(new Blob(["x"]), "x".repeat(300)), (error) => error instanceof UploadError && error.status === 400);
  });
  const nowhere = connect("127.0.0.1:9"); // where nobody listens
  await assert.rejects(nowhere.upload(new Blob(["x"])), { name: "Error", status: 403 });
  nowhere.close();
});

test("the second in line is told its place and has its turn", () => during(async (first) => {
  const second = connect(url);
  const { position } = await once(second, "status", ({ phase }) => phase === "waiting");
  assert.equal(position, 1);
  const ready = second.ready({ signal: signal() });
  first.close();
  assert.equal((await ready).role, "controller");
  second.close();
}));

test("a viewer watches and is refused the controls", () => during((session) => during(async (viewer) => {
  assert.equal(viewer.role, "viewer");
  await session.send("set_level", { level: 3 });
  while (viewer.state.level !== 3) await once(viewer, "state");
  await assert.rejects(viewer.send("set_level", { level: 4 }), { code: "not_controller" });
  await assert.rejects(viewer.upload(new Blob(["x"])), (error) => error instanceof UploadError && error.status === 403);
}, { role: "viewer" })));

test("a viewer waits for the next session", () => during(async (first) => {
  const viewer = connect(url, { role: "viewer" });
  await viewer.ready({ signal: signal() });
  const left = once(viewer, "status");
  first.close();
  assert.deepEqual(await left, { phase: "waiting", role: null, reason: "left", detail: "the controller has gone" });
  const ready = viewer.ready({ signal: signal() });
  await during(async (second) => assert.equal((await ready).id, second.id));
  viewer.close();
}));

test("a broken connection comes back to its session", async () => {
  const sockets = [];
  class Breakable extends WebSocket {
    constructor(...given) {
      super(...given);
      sockets.push(this);
    }
  }
  await during(async (session) => {
    const { id } = session;
    await session.send("set_level", { level: 42 });
    const lost = session.send("say", { words: "lost" });
    sockets[0].close(4000);
    await assert.rejects(lost, ConnectionLost);
    assert.equal(session.status.phase, "reconnecting");
    assert.equal(session.notify("set_level", { level: 1 }), false);
    const waited = session.send("say", { words: "later" });
    const back = once(session, "resumed");
    assert.equal((await session.ready({ signal: signal() })).id, id);
    await back;
    assert.equal((await waited).message.data.words, "LATER");
    assert.equal(session.state.level, 42);
  }, { WebSocket: Breakable });
});

test("an event sent at once waits for the turn", () => during(async (first) => {
  const second = connect(url);
  const sent = second.send("set_level", { level: 5 });
  await once(second, "status", ({ phase }) => phase === "waiting");
  const sentInLine = second.send("set_level", { level: 6 });
  first.close();
  assert.deepEqual([(await sent).n, (await sentInLine).n], [1, 2]);
  second.close();
}));

test("an event sent in a break is rejected when the session ends before it is found again", () => during(async (first) => {
  const sockets = [];
  class Breakable extends WebSocket {
    constructor(...given) {
      super(...given);
      sockets.push(this);
    }
  }
  first.close();
  const session = connect(url, { WebSocket: Breakable });
  await session.ready({ signal: signal() });
  sockets[0].close(4000);
  await once(session, "status", ({ phase }) => phase === "reconnecting");
  const waited = session.send("say", { words: "later" });
  session.close();
  await assert.rejects(waited, (error) => error instanceof SessionEnded && error.reason === "closed");
}));

test("closing ends what iterates and rejects what waits", () => during(async (session) => {
  const frames = session.frames();
  const messages = session.messages();
  await frames.next();
  const waiting = messages.next();
  session.close();
  assert.deepEqual(await waiting, { done: true, value: undefined });
  for await (const _ of frames); // ends
  assert.deepEqual(session.status, { phase: "ended", role: null, reason: "closed", detail: "" });
  await assert.rejects(session.send("say", { words: "too late" }), { reason: "closed" });
  assert.equal(session.notify("say", { words: "too late" }), false);
  await assert.rejects(session.ready(), (error) => error instanceof SessionEnded && error.reason === "closed");
}));

test("it can be closed at any moment and more than once", async () => {
  const early = connect(url);
  early.close();
  assert.equal(early.status.reason, "closed");
  const phases = [];
  const lost = connect("127.0.0.1:9"); // where nobody listens
  lost.addEventListener("status", ({ detail }) => {
    phases.push(detail.phase);
    lost.close();
    lost.reconnect();
  });
  await once(lost, "status");
  lost.close();
  assert.deepEqual([...phases, lost.status.reason], ["reconnecting", "ended", "closed"]);
});

test("waiting for a server that isn't there ends with the signal", async () => {
  const session = connect("127.0.0.1:9"); // where nobody listens
  const { opened, retryAt } = await once(session, "status");
  assert.equal(opened, false);
  assert.ok(retryAt > performance.now());
  const over = new AbortController();
  const ready = session.ready({ signal: over.signal });
  over.abort(new Error("enough"));
  await assert.rejects(ready, /enough/);
  session.close();
});

test("addresses of pages and sockets are understood", async () => {
  const asked = [];
  class Never extends EventTarget {
    constructor(address) {
      super();
      asked.push(String(address));
    }
    close() {}
  }
  const addresses = ["example.org:81", "https://example.org/demo", "https://example.org/demo/?token=abc&role=viewer", "ws://example.org/ws"];
  for (const address of addresses) connect(address, { WebSocket: Never }).close();
  connect(addresses[2], { token: "other", role: "controller", watch: true, WebSocket: Never }).close();
  assert.deepEqual(asked, [
    "ws://example.org:81/ws?role=controller",
    "wss://example.org/demo/ws?role=controller",
    "wss://example.org/demo/ws?token=abc&role=viewer",
    "ws://example.org/ws?role=controller",
    "wss://example.org/demo/ws?token=other&role=controller&watch=1",
  ]);
});
