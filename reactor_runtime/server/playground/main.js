/** Connects, and forwards what the session emits to the part of the page that shows it. */

import { connect } from "./client/reactor.js";
import { byId } from "./dom.js";
import { Stage } from "./stage.js";
import { describeStatus, Status } from "./status.js";

if (new URLSearchParams(location.search).has("embed")) document.documentElement.dataset.embed = "";
const session = connect(location.href, { watch: true });
const stage = new Stage(byId("tracks"), session);
const status = new Status();
let panels = null; // promise of them

const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));

/** Do something with the panels, as soon as they are here. */
function withPanels(use) {
  panels ??= import("./panels.js").then(({ makePanels }) => makePanels(session, stage));
  panels.then(use, () => (panels = null)); // the server went meanwhile: they come with the next session
}

const log = (...entry) => withPanels((here) => here.log.add(...entry));

on("session", (welcome) => {
  const { session: id, role, model, schema, state } = welcome;
  status.model = model ?? "Reactor";
  status.turnEnds = null;
  status.may = role === "controller" ? "The controls are loading" : "";
  stage.restart();
  log("note", "Connected", { session: id, role });
  withPanels(({ controls, metrics, bindings, media, toolbar }) => {
    const hasSound = session.speaker.tracks.length > 0;
    controls.restart(schema.events ?? {}, state);
    metrics.restart(stage.videos, hasSound);
    media.restart();
    const missing = ({ message }) => log("note", "A part of the page can't be loaded", message);
    toolbar.then((part) => part.begin());
    if (!session.role) return; // it has ended meanwhile
    const ready = () => {
      if (session.id === id) status.may = "";
    };
    bindings.begin(welcome).catch(missing).then(ready);
  });
});

on("status", (now) => {
  const { role, opened, reason } = now;
  const phase = reason ? "ended" : now.phase;
  const told = phase === "reconnecting" && opened && /failed|ended/.test(status.now.phase); // words say more than a code
  const alone = phase === "connected" && !session.id; // the picture is of a session that is over
  const shown = { ...describeStatus(alone ? { phase: "alone" } : now), ...(told && status.now) };
  const failed = shown.phase === "failed";
  const kind = failed ? "error" : "note";
  if (phase === "ended") log(kind, `${shown.headline}: ${shown.detail}`, now);
  if (phase === "reconnecting" && opened && !told) log(kind, shown.headline, now);
  status.show(shown, role ? "" : reasonOf(phase, shown));
  if (shown.role) status.overPicture = stage.awaited;
  if (phase === "connecting") return;
  withPanels(({ controls, bindings }) => {
    controls.enabled = role === "controller";
    if (!role) bindings.leave();
  });
});

on("idle", ({ seconds }) =>
  status.show(describeStatus(seconds === null ? session.status : { phase: "idle", seconds }), ""),
);

/** What is remembered until there is a session again. */
function reasonOf(phase, { phase: shown, headline, detail }) {
  if (shown === "failed") return detail || headline;
  return phase === "ended" ? detail : undefined;
}

on("ending", ({ seconds }) => (status.turnEnds = seconds));
on("warning", ({ message }) => log("error", message));
on("stopping", (said) => log("note", said.message, said));
on("state", (changes) =>
  withPanels(({ controls, bindings }) => [controls, bindings].forEach((part) => part.follow(changes))),
);
on("message", ({ type, data }) => log("message", type, data));
on("error", (error) => {
  const isKnown = error.code === "model_error" || (error.code === "not_controller" && session.role !== "controller"); // "ended" has said it
  if (!isKnown) log("error", error.message || error.code, error);
});
on("ignored", ({ what, why }) => log("note", what, why));
for (const name of ["painted", "sound"]) {
  on(name, () => {
    if (status.now.role && !stage.awaited) status.overPicture = "";
  });
}

byId("retry").onclick = () => (status.now.phase === "idle" ? session.here() : session.reconnect());
