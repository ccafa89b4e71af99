/** Requests beside the WebSocket: uploads, and the reason why a connection fails. */

import { ConnectError, Refused, UploadError } from "./errors.js";

/** Upload a file to the server of a socket address, with its token. Resolves to {upload: id}. */
export async function upload(socketAddress, { key, name }, file) {
  if (!key) throw new UploadError(403, "only the controller of a running session sends files");
  const { origin, pathname, searchParams } = new URL(socketAddress.href.replace(/^ws/, "http"));
  const address = new URL(`${origin}${pathname.replace(/ws$/, "uploads")}`);
  for (const [field, value] of Object.entries({ key, token: searchParams.get("token"), name })) {
    if (value) address.searchParams.set(field, value);
  }
  const headers = { "Content-Type": file.type || "application/octet-stream" };
  const answer = await fetch(address, { method: "POST", body: file, headers }).catch((error) => {
    throw new UploadError(0, `${name || "the file"} was not sent: ${error.cause?.message || error.message}`);
  });
  if (!answer.ok) throw new UploadError(answer.status, (await answer.text()).trim());
  return answer.json();
}

const REFUSALS = [401, 403, 421];
const TIMEOUT_MS = 5000;
/** @type {[RegExp, string][]} */
const REASONS = [
  [/ENOTFOUND|EAI_AGAIN/, "there is no host of this name"],
  [/ECONNREFUSED/, "nothing listens there; is the server running, at this address?"],
  [/CERT|SELF_SIGNED|SIGNATURE/, "its certificate can't be trusted"],
  [/SSL|EPROTO/, "there is no TLS; try http://"],
  [/UND_ERR_SOCKET|ECONNRESET|^HPE_/, "the answer is not HTTP; if the server uses TLS, try https://"],
];

/** Resolve to a ConnectError, or to null if there is a Reactor server that may accept this client later. */
export async function diagnose(socketAddress) {
  const address = new URL(socketAddress.href.replace(/^ws/, "http"));
  const server = `${address.origin}${address.pathname.replace(/\/ws$/, "")}`;
  try {
    const answer = await ask(address);
    if (REFUSALS.includes(answer.status)) return new Refused((await answer.text()).trim().split("\n")[0]);
    const health = await ask(`${server}/health`);
    if (typeof (await health.json().catch(() => null))?.status === "string") return null;
    return new ConnectError(`${server} is no Reactor server: /ws was answered with ${answer.status}`);
  } catch ({ name, message, cause = {} }) {
    if (name === "TimeoutError") return new ConnectError(`${server} does not answer within ${TIMEOUT_MS / 1000} s`);
    const [, reason] = REASONS.find(([code]) => code.test(cause.code)) ?? [];
    return new ConnectError(`${server} can't be reached: ${reason ?? (cause.message || message)}`);
  }
}

const ask = (address) => fetch(address, { redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
