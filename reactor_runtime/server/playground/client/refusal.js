/** Why a server doesn't let a client in: its WebSocket can't say so to programs, its HTTP does. */

const CODES = { 401: 4401, 403: 4403, 421: 4403 };
const LONGEST_MS = 5000;

/** Resolves to a close code and a reason, or to null where it may be let in later. `socketAddress` is the one that was refused. */
export async function refusal(socketAddress) {
  const address = new URL(socketAddress.href.replace(/^ws/, "http"));
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(LONGEST_MS) });
    const said = await answer.text();
    const code = CODES[answer.status];
    return code ? { code, reason: said.trim().split("\n")[0] } : null;
  } catch {
    return null; // nobody is there
  }
}
