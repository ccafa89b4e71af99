/** Cameras and microphones as the browser tells of them. */

/** The devices of one `kind` (videoinput | audioinput), each {id, label}; before a permission it hides their names, and gives none. */
export async function listDevices(kind) {
  const all = (await navigator.mediaDevices?.enumerateDevices().catch(() => null)) ?? [];
  return all.filter((device) => device.kind === kind && device.label).map(({ deviceId, label }) => ({ id: deviceId, label }));
}

/** What asks for this very device; for "" the browser chooses. */
export const exactly = (id) => (id ? { deviceId: { exact: id } } : {});

/** Let `source` say in words when its track ends by itself, or gives nothing for a while. Gives what ends track and words. */
export function follow(track, source, { gone, silent }) {
  track.onended = () => source.lost(gone);
  track.onmute = () => source.paused(silent);
  track.onunmute = () => source.paused("");
  return () => {
    track.onended = track.onmute = track.onunmute = null;
    track.stop();
  };
}
