/** The consequence of each close: which error ends the session, and whether the client connects again. The Python client does the same. */

import { Busy, ConnectionLost, Refused, SessionEnded } from "./errors.js";

const OWN_FAULT = [1002, 1007, 1009, 4429]; // the same would happen again

/**
 * Return {error, final}: the error for everything that waits, or null. `welcomed`: a controller has a session of its own, a viewer knows
 * the model; `kept`: the server keeps that session.
 */
export function judge(code, reason, { role, welcomed, kept }) {
  const own = role === "controller" && welcomed;
  if (code === 1000) return { error: new SessionEnded("closed", reason), final: true };
  if (code === 4401 || code === 4403) return { error: new Refused(reason || "the server refused this client"), final: true };
  if (OWN_FAULT.includes(code)) return { error: new ConnectionLost(`the server closed the connection: ${reason || code}`), final: true };
  if (code === 1013 && !welcomed) return { error: new Busy(reason || "the server is full; try again later") };
  if (code === 1001 && own) return { error: new SessionEnded("server_stopping", reason) };
  if (code === 1011 && own) return { error: new SessionEnded("model_error", reason) };
  return { error: own && !kept ? new ConnectionLost("the connection was lost, and the session with it") : null };
}
