/** The client in Node, against a real server: each test is run by test_node.py, with the server's address and files in the environment. */

import assert from "node:assert/strict";
import dns from "node:dns";
import { copyFile, mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const client = await import(process.env.CLIENT);
const { connect, ConnectError, ConnectionLost, EventError, ClientError, SessionEnded, UploadError } = client;
const url = process.env.SERVER;
const signal = () => AbortSignal.timeout(90_000);

/** The detail of the next event that passes. */
const once = (session, name, passes = () => true) =>
  new Promise((resolve) => {
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

test("a session tells what the model has", () =>
  during(async (session) => {
    assert.equal(session.role, "controller");
    assert.match(session.id, /^s-/);
    assert.deepEqual(session.status, { phase: "connected", role: "controller" });
    assert.deepEqual(
      session.tracks.map(({ name, direction }) => [name, direction]),
      [
        ["main_video", "out"],
        ["tone", "out"],
        ["camera", "in"],
        ["microphone", "in"],
      ],
    );
    assert.deepEqual(session.state, { level: 100 });
    assert.equal(session.schema.events.set_level.field, "level");
    assert.equal(session.limits.max_text_bytes, 262144);
  }));

test("an event resolves when it was applied and the frames say so", () =>
  during(async (session) => {
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

test("steps are made on request, the same after the same seed", () =>
  during(
    async (session) => {
      session.view({ codecs: ["raw"] });
      const first = await session.step({ n: 3, seed: 5, state: { level: 9 } });
      const [{ messages }, then] = await Promise.all([
        session.step({ commands: [["say", { words: "hello" }]] }),
        session.step({ n: 2 }),
      ]);
      assert.deepEqual([first.step, first.steps, first.frames.length, first.sound.length], [3, 3, 3, 3]);
      assert.deepEqual([then.step, then.frames.length, first.state.level], [6, 2, 9]);
      assert.ok(messages.some(({ data }) => data.words === "HELLO"));
      const again = await session.step({ n: 3, seed: 5, state: { level: 9 } });
      const pixels = ({ frames }) => frames.map(({ jpeg }) => [...client.readMedia(jpeg.slice().buffer).pixels]);
      assert.deepEqual(pixels(again), pixels(first));
      const refused = await session.step({ state: { level: 999 } }).catch((error) => error);
      assert.ok(refused instanceof EventError);
      assert.deepEqual([refused.code, refused.fields[0].path, refused.made.steps], ["invalid_event", "state.level", 0]);
    },
    { stepped: true },
  ));

test("a step reads the media that come with it", () =>
  during(
    async (session) => {
      session.view({ codecs: ["raw"] });
      const image = (level) => ({ width: 48, height: 32, data: new Uint8ClampedArray(4 * 48 * 32).fill(level) });
      const spoken = ({ messages }) => messages.map(({ data }) => data.words);
      const first = await session.step({ media: { camera: [new Blob([await readFile(process.env.PICTURE)])] } });
      const [then, last] = await Promise.all([
        session.step({ media: { camera: [image(70), image(77)] } }),
        session.step(),
      ]);
      assert.match(spoken(first)[0], /^camera (1[89]|20|21|22)$/);
      assert.deepEqual([spoken(then), spoken(last)], [["camera 77"], []]);
      assert.equal(client.readMedia(last.frames[0].jpeg.slice().buffer).pixels[0], 77);
      await assert.rejects(session.step({ media: { camera: [new Uint8Array(9)] } }), TypeError);
      await assert.rejects(session.step({ media: { lens: [image(1)] } }), /takes camera, microphone/);
      assert.equal((await session.step()).step, 4);
    },
    { stepped: true },
  ));

test("a frame that shows an event is waited for", () =>
  during(async (session) => {
    assert.equal((await session.frame()).track, "main_video");
    const reply = await session.send("set_level", { level: 7 });
    const { applied, jpeg } = await session.frame({ track: "main_video", after: reply });
    assert.ok(applied >= reply.n);
    assert.deepEqual([...jpeg.subarray(0, 2)], [0xff, 0xd8]);
  }));

test("a frame that will not come rejects with the reason", () =>
  during(async (session) => {
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

test("a wrong value rejects with the fields at fault", () =>
  during(async (session) => {
    const error = await session.send("set_level", { level: 300 }).catch((reason) => reason);
    assert.ok(error instanceof EventError);
    assert.equal(error.code, "invalid_event");
    assert.equal(error.event, "set_level");
    assert.deepEqual(error.fields, [{ path: "set_level.level", message: "300 is above 255" }]);
    await assert.rejects(session.send("refuse"), { code: "closed", message: "not on Sundays" });
  }));

test("what cannot be sent rejects and ends nothing", () =>
  during(async (session) => {
    await assert.rejects(session.send("reactor.here"), {
      name: "TypeError",
      message: '"reactor.here" is no event of a model',
    });
    await assert.rejects(session.send(""), TypeError);
    const words = "ü".repeat(session.limits.max_text_bytes / 2);
    await assert.rejects(session.send("say", { words }), { name: "RangeError", message: /say is over 262144 bytes/ });
    assert.throws(() => session.notify("say", { words }), RangeError);
    await assert.rejects(
      session.publish("nothing", new Uint8Array([0xff, 0xd8])),
      /takes no track nothing; it takes camera, microphone/,
    );
    const huge = new Uint8Array(session.limits.max_media_bytes).fill(0xff).fill(0xd8, 1, 2);
    await assert.rejects(session.publish("camera", huge), RangeError);
    await assert.rejects(
      session.publish("camera", "camera"),
      /JPEG and WAV, as bytes or Blob, are all that can be published here/,
    );
    await assert.rejects(session.stream(), /there is no MediaStream here/);
    await assert.rejects(session.speaker.start(), {
      name: "TypeError",
      message: 'there is no AudioContext here; the event "sound" gives the pieces',
    });
    await assert.rejects(session.speaker.start(), TypeError);
    assert.equal((await session.send("set_level", { level: 3 })).n, 1);
  }));

test("messages come in order and a handler's own with the reply", () =>
  during(async (session) => {
    const messages = session.messages();
    for (const words of ["one", "two"]) {
      const { message } = await session.send("say", { words });
      assert.deepEqual(message, { type: "said", data: { words: words.toUpperCase() } });
    }
    for (const words of ["one", "two"]) assert.deepEqual((await messages.next()).value.data, { words });
  }));

test("a track that the model does not send is refused with those it sends", () =>
  during(async (session) => {
    const wrong = { name: "TypeError", message: "the model sends no video track nix; it sends main_video" };
    const frames = session.frames("nix");
    await assert.rejects(frames.next(), wrong);
    assert.deepEqual(await frames.next(), { done: true, value: undefined });
    await assert.rejects(session.frame({ track: "nix" }), wrong);
    assert.throws(() => session.attach("nix", {}), wrong);
    const early = connect(url, { role: "viewer" });
    await assert.rejects(early.frames("nix").next(), wrong);
    early.close();
  }));

test("an event is not sent without an answer by a client that controls no session", () =>
  during(async (session) => {
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

test("who takes frames slowly gets the newest", () =>
  during(async (session) => {
    const frames = session.frames("main_video");
    const { value: first } = await frames.next();
    await once(session, "stats");
    await once(session, "stats", ({ emitted }) => emitted > first.seq + 20);
    await frames.next(); // what was on its way when the window closed
    const { value: then } = await frames.next();
    assert.ok(then.seq > first.seq + 10, `${first.seq} then ${then.seq}`);
  }));

test("a picture that is published reaches the model", () =>
  during(async (session) => {
    const messages = session.messages();
    assert.equal(await session.publish("camera", await readFile(process.env.PICTURE)), true);
    const { value } = await messages.next();
    assert.match(value.data.words, /^camera (1[89]|20|21|22)$/);
  }));

test("times and metadata go with pictures to the model, and metadata with frames from it", () =>
  during(async (session) => {
    const picture = await readFile(process.env.PICTURE);
    const publish = async (options) => {
      assert.equal(await session.publish("camera", picture, options), true);
      for await (const { metadata } of session.frames("main_video")) {
        if (metadata && metadata.text === options.expected) return metadata;
      }
    };
    const { value: first } = await session.frames("main_video").next();
    assert.equal(first.metadata, null);
    const given = { metadata: { pose: [1, 2.5] }, captureTimeUs: 1_700_000_000_000_001, expected: '{"pose":[1,2.5]}' };
    assert.equal((await publish(given)).time, 1_700_000_000_000_001);
    const before = Date.now();
    const bytes = new Uint8Array([1, 0, 254, 255, 1]).subarray(1, 4);
    const { time, pts } = await publish({ metadata: bytes, expected: "\0\xfe\xff" });
    assert.ok(time >= 1000 * before && time <= 1000 * Date.now(), `${time}`);
    assert.ok(pts > 0 && pts <= 1000 * performance.now(), `${pts}`);
  }));

test("metadata that can not be sent is refused", () =>
  during(async (session) => {
    const picture = await readFile(process.env.PICTURE);
    const rejects = (options, name, message) =>
      assert.rejects(session.publish("camera", picture, options), { name, message });
    await rejects({ metadata: "text" }, "TypeError", 'camera: metadata is an object or bytes, not "text"');
    await rejects({ metadata: [1] }, "TypeError", "camera: metadata is an object or bytes, not [1]");
    const large = "camera: metadata of 65493 bytes; at most 65492 go with a frame";
    await rejects({ metadata: new ArrayBuffer(65493) }, "RangeError", large);
    await rejects({ metadata: { x: "y".repeat(65485) } }, "RangeError", large);
    await rejects({ captureTimeUs: -1 }, "RangeError", /^camera: captureTimeUs is microseconds since the epoch/);
    assert.equal(await session.publish("camera", picture, { metadata: new ArrayBuffer(65492) }), true);
  }));

test("what is no file can not be published outside of pages", () =>
  during(async (session) => {
    await assert.rejects(session.publish("camera", "camera"), {
      name: "TypeError",
      message: /JPEG and WAV, as bytes or Blob/,
    });
  }));

test("a file that is uploaded can be named in an event", () =>
  during(async (session) => {
    const file = await session.upload(new Blob(["hello"]), "note.txt");
    const { message } = await session.send("measure", { file });
    assert.equal(message.data.words, "note.txt hello");
  }));

test("a file that is not taken is an error with its status", async () => {
  await during(async (session) => {
    await during((viewer) => assert.rejects(viewer.upload(new Blob(["x"])), UploadError), { role: "viewer" });
    await assert.rejects(
      session.upload(new Blob(["x"]), "x".repeat(300)),
      (error) => error instanceof UploadError && error.status === 400,
    );
  });
  const nowhere = connect("127.0.0.1:9"); // where nobody listens
  await assert.rejects(nowhere.upload(new Blob(["x"])), { name: "UploadError", code: "upload_failed", status: 403 });
  nowhere.close();
});

test("the second in line is told its place and has its turn", () =>
  during(async (first) => {
    const second = connect(url);
    const { position } = await once(second, "status", ({ phase }) => phase === "waiting");
    assert.equal(position, 1);
    const ready = second.ready({ signal: signal() });
    first.close();
    assert.equal((await ready).role, "controller");
    second.close();
  }));

test("a viewer watches and is refused the controls", () =>
  during((session) =>
    during(
      async (viewer) => {
        assert.equal(viewer.role, "viewer");
        await session.send("set_level", { level: 3 });
        while (viewer.state.level !== 3) await once(viewer, "state");
        await assert.rejects(viewer.send("set_level", { level: 4 }), { code: "not_controller" });
        await assert.rejects(
          viewer.upload(new Blob(["x"])),
          (error) => error instanceof UploadError && error.status === 403,
        );
      },
      { role: "viewer" },
    ),
  ));

test("a viewer waits for the next session", () =>
  during(async (first) => {
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
  await during(
    async (session) => {
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
    },
    { WebSocket: Breakable },
  );
});

test("an event sent at once waits for the turn", () =>
  during(async (first) => {
    const second = connect(url);
    const sent = second.send("set_level", { level: 5 });
    await once(second, "status", ({ phase }) => phase === "waiting");
    const sentInLine = second.send("set_level", { level: 6 });
    first.close();
    assert.deepEqual([(await sent).n, (await sentInLine).n], [1, 2]);
    second.close();
  }));

test("an event sent in a break is rejected when the session ends before it is found again", () =>
  during(async (first) => {
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

test("closing ends what iterates and rejects what waits", () =>
  during(async (session) => {
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

test("waiting for the turn ends with the signal", () =>
  during(async () => {
    const session = connect(url);
    await once(session, "status", ({ phase }) => phase === "waiting");
    const over = new AbortController();
    const ready = session.ready({ signal: over.signal });
    over.abort(new Error("enough"));
    await assert.rejects(ready, /enough/);
    session.close();
  }));

test("what is no address and no role is refused at once", () => {
  for (const address of [undefined, null, "", "file:///model"]) {
    assert.throws(() => connect(address), {
      name: "TypeError",
      message: /needs the address of a server, as in http:.*not/,
    });
  }
  assert.throws(() => connect("http://a b"), TypeError);
  const wrong = { name: "TypeError", message: 'the role is controller or viewer, not "boss"' };
  assert.throws(() => connect(`${url}?role=boss`), wrong);
  assert.throws(() => connect(url, { role: "boss" }), wrong);
});

/** Resolves to the port. */
const listening = (server, port = 0) =>
  new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve(server.address().port)));

test("a server that can't be reached is given up with the reason", async ({ mock }) => {
  // The machine's resolver may take longer than the client waits.
  const { lookup } = dns;
  mock.method(dns, "lookup", (host, options, done) => {
    if (host !== "nowhere.invalid") return lookup(host, options, done);
    done(Object.assign(new Error(`getaddrinfo ENOTFOUND ${host}`), { code: "ENOTFOUND" }));
  });
  const foreign = createServer((_, answer) => answer.end("hello"));
  const silent = net.createServer((socket) => socket.end("SSH-2.0\r\n"));
  const addresses = [
    [`http://127.0.0.1:${process.env.RESERVED_PORT}`, /^http:.* can't be reached: nothing listens there/],
    ["http://nowhere.invalid", /: there is no host of this name/],
    [url.replace("http", "https"), /: there is no TLS; try http:/],
    [`http://127.0.0.1:${await listening(foreign)}`, / is no Reactor server: \/ws was answered with 200/],
    [`http://127.0.0.1:${await listening(silent)}`, /: the answer is not HTTP; if the server uses TLS, try https:/],
    [`${url}/elsewhere`, /elsewhere is no Reactor server: \/ws was answered with 404/],
  ];
  for (const [address, reason] of addresses) {
    const session = connect(`${address}?token=secret`);
    const error = await session.ready().catch((error) => error);
    assert.ok(error instanceof ConnectError, address);
    assert.match(error.message, reason);
    assert.doesNotMatch(error.message, /secret/);
    assert.deepEqual(session.status, { phase: "ended", role: null, reason: "unreachable", detail: error.message });
    await assert.rejects(session.send("say", { words: "hello" }), { name: "ConnectError", code: "unreachable" });
    await assert.rejects(session.frame(), ConnectError);
  }
  foreign.close();
  foreign.closeAllConnections();
  silent.close();
});

test("a server that went is tried again within two seconds, and meanwhile the status has the reason", async () => {
  const sockets = new Set();
  const cable = () =>
    net.createServer((near) => {
      const far = net.connect(new URL(url).port, "127.0.0.1");
      for (const [from, to] of [
        [near, far],
        [far, near],
      ]) {
        sockets.add(from);
        from
          .on("error", () => to.destroy())
          .on("close", () => to.destroy())
          .pipe(to);
      }
    });
  const first = cable();
  const port = await listening(first, process.env.RESERVED_PORT);
  const session = connect(`http://127.0.0.1:${port}`, { role: "viewer" });
  await session.ready({ signal: signal() });
  session.addEventListener("status", ({ detail: { retryAt = 0 } }) => assert.ok(retryAt < performance.now() + 2000));
  first.close();
  for (const socket of sockets) socket.destroy();
  await once(
    session,
    "status",
    ({ phase, detail }) => phase === "reconnecting" && /nothing listens there/.test(detail),
  );
  for (let attempts = 0; attempts < 4; attempts++) await once(session, "status", ({ opened }) => opened === false);
  const second = cable();
  await listening(second, port);
  await session.ready({ signal: signal() });
  session.close();
  second.close();
});

test("clients that lose a server at once do not come back at once", () => {
  class Failing {
    constructor() {
      queueMicrotask(() => this.onerror());
    }
    close() {}
  }
  const sessions = Array.from({ length: 30 }, () => connect(url, { WebSocket: Failing }));
  const retryAt = async (session) => {
    const status = await once(session, "status");
    session.close();
    assert.ok(status.retryAt <= performance.now() + 200, "the first wait is that of the Python client");
    return status.retryAt;
  };
  return Promise.all(sessions.map(retryAt)).then((times) => {
    assert.ok(Math.max(...times) - Math.min(...times) > 50, times.join(" "));
  });
});

test("an error has a name and a code, and is known to another copy of the client", async () => {
  const folder = await mkdtemp(join(tmpdir(), "copy-"));
  const copy = join(folder, "errors.mjs");
  await copyFile(new URL("errors.js", process.env.CLIENT), copy);
  const other = await import(copy);
  await rm(folder, { recursive: true });
  const made = {
    ConnectError: [new other.ConnectError("gone"), "unreachable"],
    Refused: [new other.Refused("no"), "refused"],
    EventError: [new other.EventError({ code: "invalid_event" }), "invalid_event"],
    ConnectionLost: [new other.ConnectionLost("gone"), "connection_lost"],
    SessionEnded: [new other.SessionEnded("idle", ""), "session_ended"],
    UploadError: [new other.UploadError(413, "too much"), "upload_failed"],
    MediaError: [new other.MediaError("no picture"), "bad_media"],
  };
  for (const [name, [error, code]] of Object.entries(made)) {
    assert.notEqual(client[name], other[name]);
    assert.ok(error instanceof client[name] && error instanceof ClientError && error instanceof Error, name);
    assert.deepEqual([error.name, error.code], [name, code]);
    assert.match(error.stack, new RegExp(`^${name}: `));
  }
  class Mine extends ConnectError {}
  assert.ok(new other.Refused("no") instanceof ConnectError);
  assert.ok(new Mine("gone") instanceof ConnectError);
  assert.ok(!(new other.ConnectError("gone") instanceof Mine));
  assert.ok(!(new other.ConnectError("gone") instanceof EventError));
  for (const value of [null, undefined, 3, new Error("other")]) assert.ok(!(value instanceof ClientError));
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
  const addresses = [
    "example.org:81",
    "https://example.org/demo",
    "https://example.org/demo/?token=abc&role=viewer",
    "ws://example.org/ws",
  ];
  for (const address of addresses) connect(address, { WebSocket: Never }).close();
  connect(addresses[2], { token: "other", role: "controller", watch: true, WebSocket: Never }).close();
  assert.deepEqual(asked, [
    "ws://example.org:81/ws?role=controller&redirect=1",
    "wss://example.org/demo/ws?role=controller&redirect=1",
    "wss://example.org/demo/ws?role=viewer&token=abc&redirect=1",
    "ws://example.org/ws?role=controller&redirect=1",
    "wss://example.org/demo/ws?role=controller&watch=1&token=other&redirect=1",
  ]);
});
