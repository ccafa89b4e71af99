/** Cameras, microphones and screens of the browser, and messages for those that cannot be used. */

/**
 * Return the devices of a `kind` (videoinput | audioinput), each {id, label}; none before the user has allowed
 * access, because browsers hide the labels until then.
 */
export async function listDevices(kind) {
  const all = (await navigator.mediaDevices?.enumerateDevices().catch(() => null)) ?? [];
  return all
    .filter((device) => device.kind === kind && device.label)
    .map(({ deviceId, label }) => ({ id: deviceId, label }));
}

/** Return the constraint for one device; for "" the browser chooses. */
export const exactly = (id) => (id ? { deviceId: { exact: id } } : {});

/** Report to `source` when its track ends by itself or is muted. Return a function that stops both reports and track. */
export function followTrack(track, source, { gone, silent }) {
  track.onended = () => source.lost(gone);
  track.onmute = () => source.paused(silent);
  track.onunmute = () => source.paused("");
  return () => {
    track.onended = track.onmute = track.onunmute = null;
    track.stop();
  };
}

/** An error whose message the page shows. */
export class Unavailable extends Error {}

const NEEDED = 'its iframe needs allow="camera; microphone; display-capture".';
const isFramed = window.top !== window;
// Firefox and Safari have neither.
const policy = () => document.permissionsPolicy ?? document.featurePolicy;

/** Throw Unavailable if this page may not use a device. `device` is camera | microphone | screen. */
export function expectDevices(device) {
  const { mediaDevices } = navigator;
  if (policy()?.allowsFeature(device === "screen" ? "display-capture" : device) === false) {
    const framed = `The surrounding page does not allow the ${device}: ${NEEDED}`;
    const served = `A Permissions-Policy header of a proxy does not allow the ${device} in this page.`;
    throw new Unavailable(isFramed ? framed : served);
  }
  if (device === "screen" ? mediaDevices?.getDisplayMedia : mediaDevices?.getUserMedia) return;
  if (window.isSecureContext) throw new Unavailable(`This browser does not let pages use the ${device}.`);
  const meanwhile = device === "microphone" ? "" : " A file and the test pattern work here.";
  throw new Unavailable(
    `Browsers let pages use the ${device} on https and on localhost only. ${secureAddressHint()}${meanwhile}`,
  );
}

/** Return how to open the page at a trusted address, whatever address the server listens on. */
export function secureAddressHint() {
  const { hostname } = location;
  const port = Number(location.port || 80);
  // Ports below 1024 need privileges.
  const own = port < 1024 ? 8080 : port;
  return `Start the server with --ssl-certfile and --ssl-keyfile and open https, or run ssh -L ${own}:${hostname}:${port} ${hostname} here and open http://localhost:${own}.`;
}

/** Return the message for a camera or microphone that ends by itself. */
export const gone = (device) =>
  `The ${device} was unplugged, or the browser took it away. Connect it or choose another, then press Start.`;

/** Return the message for an error of getUserMedia or getDisplayMedia. */
export async function explain(error, device, isChosen = false) {
  if (error instanceof Unavailable) return error.message;
  if (device === "screen") return screenMessage(error);
  const instead = device === "microphone" ? "a file or the test tone" : "a file or the test pattern";
  const absent = () => `No ${device} was found. Connect one and press Start, or take ${instead}.`;
  const left = () => `This ${device} is not there any more. Choose another, or connect it and press Start.`;
  const reasons = {
    NotAllowedError: () => refused(error, device),
    SecurityError: () => refused(error, device),
    NotFoundError: absent,
    // WebKit reports this if there is no device at all.
    OverconstrainedError: isChosen ? left : absent,
    NotReadableError: () =>
      `The ${device} can't be opened: another program may be using it. Close that, then press Start.`,
    AbortError: () => `The ${device} could not be started. Connect it again, then press Start.`,
  };
  return reasons[error.name]?.() ?? `The ${device} can't be used: ${error.message}`;
}

function screenMessage({ name, message }) {
  if (name === "NotAllowedError") return "Nothing was chosen. Press Start to choose what to share.";
  if (name === "InvalidStateError") return "Browsers require a click for this. Press Start to choose what to share.";
  return `The screen can't be shared: the browser or the system doesn't let it (${message}).`;
}

async function refused(error, device) {
  if (/system/i.test(error.message))
    return `The system does not let this browser use the ${device}. Change that in the privacy settings, then press Start.`;
  const either = `The browser refuses the ${device}, or the surrounding page does not allow it`;
  if (isFramed && !policy()) return `${either}: allow it in the site settings beside the address; ${NEEDED}`;
  const asked = await navigator.permissions?.query({ name: device }).catch(() => null);
  if (asked?.state === "prompt")
    return `The question was closed without an answer. Press Start, and allow the ${device}.`;
  return `The browser refuses the ${device}: this page isn't allowed to use it. Allow it in the site settings beside the address, then press Start.`;
}
