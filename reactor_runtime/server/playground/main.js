/** Brings what comes from the connection to the part that shows it. */

import { Connection } from "./client/connection.js";
import { InputDelay } from "./client/delay.js";
import { MediaError, readMedia } from "./client/media.js";
import { Sound } from "./client/sound.js";
import { Controls } from "./controls.js";
import { byId } from "./dom.js";
import { Figures } from "./figures.js";
import { ListenButton } from "./listen.js";
import { Log } from "./log.js";
import { meaning, Status } from "./status.js";
import { Tracks } from "./tracks.js";

const query = new URLSearchParams(location.search);
const url = new URL("ws", location.href.replace(/^http/, "ws"));

const connection = new Connection(url, { role: query.get("role"), token: query.get("token"), watch: 1 });
const log = new Log(byId("log"), { count: byId("log-count"), copy: byId("log-copy"), clear: byId("log-clear") });
const delay = new InputDelay();
const sound = new Sound(() => listen.show());
const listen = new ListenButton(byId("listen"), sound, (error) => log.add("error", `No sound: ${error.message}`));
const figures = new Figures(byId("figures"), delay, sound, () => connection.rttMs);
const tracks = new Tracks(byId("tracks"), { painted, broken, paintAt: (header, now) => sound.paintAt(header.pts, now) });
const status = new Status();
const controls = new Controls(byId("controls"), byId("reset-all"), sendEvent);
let welcome = null;
let role = null; // of the running session; null while there is none
let queued = null; // the place in line
let audioNames = [];

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
  "reactor.queue": (place) => {
    queued = place;
    if (role) status.show(meaning.queue(place, true));
    else detach(meaning.queue(place));
  },
  "reactor.session": (session) => {
    const { phase, seconds } = session;
    if (phase === "started" && welcome && !role) return startSession(welcome); // a viewer stays
    if (phase === "ending") return (status.turnEnds = seconds);
    if (phase === "idle") return status.show(seconds === null ? meaning.controller : meaning.idle(seconds));
    if (phase === "stopping") log.add("note", session.message, session);
    if (!/^(loading|failed|ended)$/.test(phase)) return;
    const now = meaning[phase](session);
    if (phase === "loading") return detach(now);
    detach(now, now.detail);
    log.add(now.phase === "failed" ? "error" : "note", `${now.headline}: ${now.detail}`, session);
  },
  "reactor.state": (changes) => controls.follow(changes),
  "reactor.reply": ({ message }) => message && log.add("reply", message.type, message.data),
  "reactor.error": (error) => error.code === "model_error" || log.add("error", error.message || error.code, error), // "ended" says it
  "reactor.stats": (stats) => (figures.stats = stats),
  "reactor.pong": () => {},
};

function startSession(session) {
  const { schema = {}, state = {} } = session;
  role = session.role;
  restartTracks(session.tracks ?? []);
  controls.restart(schema.events ?? {}, state);
  if (role !== "viewer") queued = null;
  status.show(queued ? meaning.queue(queued, true) : meaning[role], "");
  status.turnEnds = null;
  controls.enabled = role !== "viewer";
  status.overPicture = tracks.awaited;
  if (document.hidden) view();
}

function restartTracks(all) {
  const names = (kind) => all.filter((track) => track.kind === kind && track.direction === "out").map(({ name }) => name);
  audioNames = names("audio");
  tracks.restart(names("video"), audioNames);
  sound.restart(audioNames);
  figures.restart(tracks.pictures, (listen.available = audioNames.length > 0));
  delay.restart();
}

/** A hidden page shows nothing, and is heard if it was. */
function view() {
  if (!role) return;
  const heard = sound.on && audioNames.length > 0;
  connection.notify("reactor.view", document.hidden && heard ? { tracks: audioNames } : { paused: document.hidden });
}

/** No session for now; `reason` is remembered until there is one again. */
function detach(now, reason) {
  role = null;
  sound.restart();
  status.show(now, reason);
  controls.enabled = false;
  delay.forgetWaiting();
}

function painted(screen, header, skipped) {
  const now = performance.now();
  figures.painted(screen.name, skipped, now);
  if (status.now.role) status.overPicture = "";
  if (!header) return;
  sound.painted(header, now);
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
  const media = readMedia(bytes);
  const { kind, header } = media;
  if (kind === "wav") return hear(media);
  const screen = tracks.screen(header?.track);
  if (!screen) throw new MediaError(`a picture of ${header?.track ?? "no track"}, which this session doesn't have`);
  if (header?.afterFlush) sound.cut(header.pts);
  screen.show(header, bytes);
}

function hear(media) {
  if (!audioNames.includes(media.header.track)) throw new MediaError(`sound of ${media.header.track}, which this session doesn't have`);
  if (role) sound.play(media);
  listen.hear(media);
  tracks.hear(media);
  if (status.now.role && !tracks.awaited) status.overPicture = "";
}

on("open", () => {
  welcome = queued = null;
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

on("close", ({ opened, ...closed }) => {
  const told = opened && /failed|ended/.test(status.now.phase); // words say more than a code
  const now = { ...meaning.closed(closed), ...(told && status.now) };
  if (opened && !told) log.add(now.phase === "failed" ? "error" : "note", now.headline, closed);
  detach(now, now.phase === "failed" ? now.detail || now.headline : undefined);
});

byId("retry").onclick = () => (status.now.phase === "idle" ? connection.notify("reactor.here") : connection.open());
window.ononline = () => connection.wake();
document.addEventListener("visibilitychange", () => {
  for (const { shown } of tracks.pictures) shown.skipGap();
  delay.forgetWaiting();
  sound.forgetPictures();
  view();
  if (!document.hidden) connection.wake();
});

connection.open();
