/** What is around the picture, loaded once there is something to put into it, so that the picture waits for none of it. */

import { Controls } from "./controls.js";
import { byId } from "./dom.js";
import { Figures } from "./figures.js";
import { Guests } from "./guests.js";
import { ListenButton } from "./listen.js";
import { Log } from "./log.js";
import { style } from "./parts/style.js";

export async function makePanels(session, tracks) {
  await style("../controls.css");
  const log = new Log(byId("log"), { count: byId("log-count"), copy: byId("log-copy"), clear: byId("log-clear") });
  const figures = new Figures(byId("figures"), session);
  const listen = new ListenButton(byId("listen"), session, (error) => log.add("error", `No sound: ${error.message}`));
  const send = async (type, data, inputAt) => {
    const reply = await session.send(type, data, { inputAt });
    if (reply.message) log.add("reply", reply.message.type, reply.message.data);
    return reply;
  };
  const controls = new Controls(byId("controls"), byId("reset-all"), send);
  const stage = byId("tracks").parentElement;
  const canvases = () => tracks.pictures.map(({ canvas }) => canvas);
  const failed = (words, why) => log.add("error", words, why);
  const share = import("./parts/share.js")
    .then(({ attach }) => attach({ session, stage, controls, pictures: canvases, failed }))
    .catch(({ message }) => (failed("The tools of the picture can't be loaded", message), { begin() {} }));
  return { log, figures, listen, controls, guests: new Guests(stage, send), share };
}
