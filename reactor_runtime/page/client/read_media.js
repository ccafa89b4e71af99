/** Reads every kind of binary message; loaded for servers and programs that use more than JPEGs and WAVs. */

import { readFile } from "./media.js";
import { isNpy, readNpy } from "./npy.js";
import { isVideo, readVideo } from "./video/mp4.js";

/**
 * Return what readFile returns; or {kind: "raw", header, width, height, pixels}, with pixels a Uint8Array of RGB; or
 * {kind: "mp4", isKey, header, config, sample} as readVideo does. Throws MediaError.
 */
export function readMedia(buffer) {
  if (isVideo(buffer)) {
    const video = readVideo(buffer);
    return { kind: "mp4", isKey: video.config !== null, ...video };
  }
  const view = new DataView(buffer);
  return isNpy(view) ? { kind: "raw", ...readNpy(view) } : readFile(buffer);
}
