/** What is around the picture, loaded once there is something to put into it, so that the picture waits for none of it. */

import { Controls } from "./controls.js";
import { Bound } from "./bound.js";
import { byId } from "./dom.js";
import { Figures } from "./figures.js";
import { Log } from "./log.js";
import { MediaParts } from "./mediaparts.js";
import { Journal } from "./parts/journal.js";
import { openers } from "./parts/openers.js";
import { style } from "./parts/style.js";

export async function makePanels(session, tracks) {
  await Promise.all(["../controls.css", "../figures.css"].map(style));
  const log = new Log(byId("log"), { count: byId("log-count"), copyAll: byId("log-copy"), clear: byId("log-clear") });
  const journal = new Journal(session);
  const figures = new Figures(byId("figures"), session, journal);
  const send = async (type, data, inputAt) => {
    const hasFiles = Object.values(data).some((value) => value instanceof File);
    const said = hasFiles ? await import("./parts/upload.js").then(({ upload }) => upload(session, data)) : data;
    const answer = session.send(type, said, { inputAt });
    journal.sent(type, inputAt, answer);
    const reply = await answer;
    if (reply.message) log.add("reply", reply.message.type, reply.message.data);
    return reply;
  };
  const controls = new Controls(byId("controls"), byId("reset-all"), send);
  const stage = byId("tracks").parentElement;
  const canvases = () => tracks.pictures.map(({ canvas }) => canvas);
  const failed = (words, why) => log.add("error", why ? `${words}: ${why}` : words);
  openers(byId("figures"), { session, figures, journal, failed });
  const share = import("./parts/share.js")
    .then(({ attach }) => attach({ session, stage, controls, pictures: canvases, failed }))
    .catch(({ message }) => (failed("The tools of the picture can't be loaded", message), { begin() {} }));
  return { log, figures, controls, bound: new Bound(stage, send), media: new MediaParts(session, log), share };
}
