/** Puts the page together: what comes from the connection goes to the part that shows it. */

import { Connection } from "./client/connection.js";
import { InputDelay } from "./client/delay.js";
import { MediaError, readMedia } from "./client/media.js";
import { byId, setText } from "./dom.js";
import { Controls } from "./controls.js";
import { Figures } from "./figures.js";
import { Log } from "./log.js";
import { Screen } from "./screen.js";
import { meaning, Status } from "./status.js";

const query = new URLSearchParams(location.search);
const url = new URL("ws", location.href.replace(/^http/, "ws"));

const connection = new Connection(url, { role: query.get("role"), token: query.get("token") });
const log = new Log(byId("log"), { count: byId("log-count"), copy: byId("log-copy"), clear: byId("log-clear") });
const delay = new InputDelay();
const figures = new Figures(byId("figures"), delay, () => connection.rttMs);
const status = new Status();
const controls = new Controls(byId("controls"), byId("reset-all"), sendEvent);
let screens = new Map();
let welcome = null;
let role = null; // of the running session; null while there is none
let soundNoted = false;

const on = (name, listener) => connection.addEventListener(name, ({ detail }) => listener(detail));

async function sendEvent(type, data, inputAt) {
  const reply = await connection.send(type, data);
  if (typeof reply.n === "number") delay.replied(reply.n, inputAt);
  return reply;
}

const handlers = {
  "reactor.welcome": (data) => {
    welcome = data;
    status.model = data.model ?? "Reactor";
    log.add("note", "Connected", { session: data.session, role: data.role });
    startSession(data);
  },
  "reactor.queue": (place) => detach(meaning.queue(place)),
  "reactor.session": (session) => {
    if (session.phase === "started" && welcome && !role) return startSession(welcome); // a viewer stays for the next
    if (!/^(loading|failed|ended)$/.test(session.phase)) return;
    const now = meaning[session.phase](session);
    if (session.phase === "loading") return detach(now);
    detach(now, now.detail);
    log.add(now.phase === "failed" ? "error" : "note", `${now.headline}: ${now.detail}`, session);
  },
  "reactor.state": (changes) => controls.follow(changes),
  "reactor.reply": ({ message }) => message && log.add("reply", message.type, message.data),
  "reactor.error": (error) => error.code === "model_error" || log.add("error", error.message || error.code, error), // "ended" says it
  "reactor.stats": () => {},
  "reactor.pong": () => {},
};

function startSession(session) {
  const { tracks = [], schema = {}, state = {} } = session;
  role = session.role;
  soundNoted = false;
  restartTracks(tracks);
  controls.restart(schema.events ?? {}, state);
  status.show(meaning[role], "");
  setText(byId("role"), role === "viewer" ? "You watch, the controls are off" : "You have the controls");
  controls.enabled = role !== "viewer";
  const isEmpty = [...screens.values()].every((screen) => screen.isEmpty);
  if (isEmpty) status.overPicture = screens.size ? "Waiting for the first picture" : "This model sends no picture";
  if (document.hidden) connection.notify("reactor.view", { paused: true });
}

/** No session for now; `reason` is what should be remembered until there is one again. */
function detach(now, reason) {
  role = null;
  status.show(now, reason);
  setText(byId("role"), "");
  controls.enabled = false;
  delay.forgetWaiting();
}

function restartTracks(tracks) {
  const names = tracks.filter((track) => track.kind === "video" && track.direction === "out").map(({ name }) => name);
  for (const screen of screens.values()) screen.restart();
  if (names.join("\n") !== [...screens.keys()].join("\n")) {
    screens = new Map(names.map((name) => [name, new Screen(name, { painted, broken })]));
    byId("tracks").replaceChildren(...[...screens.values()].map(({ root }) => root));
    byId("tracks").style.setProperty("--columns", names.length <= 3 ? names.length : Math.ceil(Math.sqrt(names.length)));
  }
  figures.restart(names);
  delay.restart();
}

function painted(screen, header, skipped) {
  const now = performance.now();
  figures.painted(screen, skipped, now);
  if (role) status.overPicture = "";
  if (!header) return;
  delay.painted(header.applied, now);
  acknowledge(screen, header);
}

const acknowledge = ({ name }, { seq }) => connection.notify("reactor.ack", { track: name, seq });

/** Acknowledged all the same: a frame nobody can show must not use up the window. */
function broken(screen, header, error) {
  log.add("note", `A picture of ${screen.name} can't be decoded`, error.message);
  if (header) acknowledge(screen, header);
}

function receive(bytes) {
  const { kind, header } = readMedia(bytes);
  if (kind === "wav") {
    if (!soundNoted) log.add("note", "The model sends sound; this page shows pictures only");
    soundNoted = true;
    return;
  }
  const screen = header ? screens.get(header.track) : screens.values().next().value;
  if (!screen) throw new MediaError(`a picture of ${header?.track ?? "no track"}, which this session doesn't have`);
  screen.show(header, bytes);
}

on("open", () => {
  welcome = null;
  status.show(meaning.opened);
});

on("message", ({ type, data }) => {
  if (Object.hasOwn(handlers, type)) handlers[type](data);
  else if (type.startsWith("reactor.")) log.add("note", `Unknown message ${type}`, data);
  else log.add("message", type, data);
});

on("media", (bytes) => {
  figures.received(bytes.byteLength, performance.now());
  try {
    receive(bytes);
  } catch (error) {
    if (!(error instanceof MediaError)) throw error;
    log.add("note", "A binary message was ignored", error.message);
  }
});

on("malformed", (text) => log.add("note", "A text message was ignored: it is no envelope", text));

on("close", ({ code, reason, retryAt, opened }) => {
  const told = opened && /failed|ended/.test(status.now.phase); // words say more than a code
  const now = told ? { ...status.now, retryAt } : meaning.closed({ code, reason, retryAt });
  if (opened && !told) log.add(now.phase === "failed" ? "error" : "note", now.headline, { code, reason });
  detach(now, now.phase === "failed" ? now.detail || now.headline : undefined);
});

byId("retry").onclick = () => connection.open();
window.ononline = () => connection.open();
document.addEventListener("visibilitychange", () => {
  for (const screen of screens.values()) screen.skipGap();
  delay.forgetWaiting();
  if (role) connection.notify("reactor.view", { paused: document.hidden });
  if (!document.hidden) connection.open();
});

connection.open();
