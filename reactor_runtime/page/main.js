/** Connects, and forwards events of the session to the parts of the page. */

import { connect } from "./client/reactor.js";
import { byId } from "./dom.js";
import { Drawer } from "./drawer.js";
import { Stage } from "./stage.js";
import { describeStatus, Status } from "./status.js";

const options = new URLSearchParams(location.search);
if (options.has("embed")) {
  document.documentElement.dataset.embed = "";
  for (const name of ["background", "fit", "hints"]) document.documentElement.dataset[name] = options.get(name) ?? "";
}
const drawer = new Drawer(byId("drawer"));
const session = connect(location.href, { watch: true });
const stage = new Stage(byId("tracks"), session);
const status = new Status();
let panels = null;
let hasWaited = false;
// The session that the log is about.
let shownId = null;

const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));

/** Call `use` with the panels as soon as they are loaded. */
function withPanels(use) {
  panels ??= import("./panels.js").then(({ makePanels }) => makePanels(session, stage, drawer));
  // Loading failed: try again with the next session.
  panels.then(use, () => (panels = null));
}

const log = (...entry) => withPanels((loaded) => loaded.log.add(...entry));

on("session", (welcome) => {
  const { session: id, model } = welcome;
  status.model = model ?? "Reactor";
  status.turnEnds = null;
  status.roleNote = session.maySend ? "The controls are loading" : "";
  stage.restart();
  withPanels(({ controls, log: entries, metrics, bindings, media, toolbar, isStage }) => {
    const hasSound = session.speaker.tracks.length > 0;
    if (id !== shownId) {
      entries.endSession();
      drawer.clearError();
    }
    shownId = id;
    controls.restart(session.schema.events ?? {}, session.state, session.tracks);
    drawer.begin(model ?? "", { open: !isStage(), maySend: session.maySend });
    metrics.restart(stage.videos, hasSound);
    media.restart();
    const missing = ({ message }) => log("note", "A part of the page can't be loaded", message);
    toolbar.then((part) => part.begin());
    // The session has ended meanwhile.
    if (!session.role) return;
    const ready = () => {
      if (session.id === id) status.roleNote = "";
    };
    bindings.begin(welcome).catch(missing).then(ready);
  });
});

on("status", (now) => {
  const { role, opened, reason, model } = now;
  if (model) status.model = model;
  const phase = reason ? "ended" : now.phase;
  // The message of the end is more specific than a close code.
  const isEnd = phase === "reconnecting" && opened && /failed|ended/.test(status.now.phase);
  // The visible frame is of a session that is over.
  const alone = phase === "connected" && !session.id;
  const described = describeStatus(alone ? { phase: "alone" } : { ...now, maySend: session.maySend });
  const shown = { ...described, ...(isEnd && status.now) };
  const failed = shown.phase === "failed";
  const kind = failed ? "error" : "note";
  if (phase === "ended") log(kind, `${shown.headline}: ${shown.detail}`, now);
  if (phase === "reconnecting" && opened && !isEnd) log(kind, shown.headline, now);
  show(shown, role ? "" : reasonOf(phase, shown));
  if (phase === "waiting" && !hasWaited) {
    hasWaited = true;
    // Without it the position is shown all the same.
    import("./waiting.js").then(({ attach }) => attach(session)).catch(() => (hasWaited = false));
  }
  if (phase === "connecting") return;
  withPanels(({ controls, bindings }) => {
    controls.enabled = session.maySend;
    if (!role) bindings.leave();
  });
});

on("idle", ({ seconds }) =>
  status.show(describeStatus(seconds === null ? session.status : { phase: "idle", seconds }), ""),
);

function show(now, reason) {
  status.show(now, reason);
  status.awaited = stage.awaited;
}

/** Return the reason that stays visible until the next session. */
function reasonOf(phase, { phase: shown, headline, detail }) {
  if (shown === "failed") return detail || headline;
  return phase === "ended" ? detail : undefined;
}

// Without this client.
on("stats", ({ watching = 0 }) => (status.watching = watching - Number(session.role !== "controller")));
on("ending", ({ seconds }) => (status.turnEnds = seconds));
on("warning", ({ message }) => log("error", message));
on("preparing", (now) => show({ ...status.now, ...now }));
on("lost", ({ message }) => {
  log("error", message);
  status.show(status.now, message);
});
on("stopping", (notice) => log("note", notice.message, notice));
on("state", (changes) => withPanels(({ follow }) => follow(changes)));
on("message", (message) => withPanels(({ receive }) => receive(message)));
on("error", (error) => {
  // Reported by "ended".
  const isKnown = error.code === "model_error" || (error.code === "not_controller" && !session.maySend);
  if (!isKnown) log("error", error.message || error.code, error);
});
on("ignored", ({ what, why }) => log("note", what, why));
for (const name of ["painted", "sound", "stats"]) on(name, () => (status.awaited = stage.awaited));

byId("retry").onclick = () => (status.now.phase === "idle" ? session.here() : session.reconnect());
