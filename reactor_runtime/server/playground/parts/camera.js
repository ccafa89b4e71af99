/** A panel for each input track of the model, beside the picture: camera, microphone, screen, file or test pattern. */

import { el } from "../dom.js";
import { Input } from "./input.js";
import { microphone } from "./microphone.js";
import { picture } from "./picture.js";
import { style } from "./style.js";

/**
 * The panels come first in `stage`. Gives
 * {offer, detach}: offer(tracks) shows panels for these tracks, as reactor.welcome describes them; those that are shown already
 * stay as they are, the others stop what they send.
 */
export async function attach({ session, stage }) {
  const root = el("section", { class: "inputs", "aria-label": "What is sent to the model", hidden: true });
  const make = (track) => new Input(track, track.kind === "audio" ? microphone : picture, session);
  let inputs = new Map(); // the track as text → Input
  await style("camera.css");
  stage.prepend(root);

  const offer = (tracks) => {
    const wanted = new Map(tracks.map((track) => [JSON.stringify(track), track]));
    if ([...wanted.keys()].join() === [...inputs.keys()].join()) return;
    for (const [text, input] of inputs) if (!wanted.has(text)) input.end();
    inputs = new Map([...wanted].map(([text, track]) => [text, inputs.get(text) ?? make(track)]));
    root.replaceChildren(...[...inputs.values()].map((input) => input.root));
    root.hidden = !inputs.size;
  };
  const leave = new AbortController();
  session.addEventListener("status", ({ detail: { phase, reason } }) => {
    const isOver = phase === "ended" && ["turn_over", "idle"].includes(reason);
    for (const input of isOver ? inputs.values() : []) input.rest("Off: your turn is over.");
  }, { signal: leave.signal });
  const detach = () => {
    leave.abort();
    offer([]);
    root.remove();
  };
  return { offer, detach };
}
