/** Reads every kind of binary message; loaded for servers and programs that use more than JPEGs and WAVs. */

import { readFile } from "./media.js";
import { NPY } from "./npy.js";
import { isVideo, readVideo } from "./video/mp4.js";

const MP4 = {
  matches: isVideo,
  read(buffer) {
    const video = readVideo(buffer);
    return { kind: "mp4", isKey: video.config !== null, ...video };
  },
};

// By kind of file: whether one is of it, its header and content, and what createImageBitmap takes for a frame that is
// decoded alone.
const CONTAINERS = [MP4, NPY];
const containerOf = (buffer) => CONTAINERS.find(({ matches }) => matches(buffer));

/**
 * Return what readFile returns; or {kind: "raw", header, width, height, pixels}, with pixels a Uint8Array of RGB; or
 * {kind: "mp4", isKey, header, config, sample} as readVideo does. Throws MediaError.
 */
export const readMedia = (buffer) => containerOf(buffer)?.read(buffer) ?? readFile(buffer);

/** Return what createImageBitmap takes for a frame that readMedia has read and that is no JPEG. */
export const imageSource = (buffer) => containerOf(buffer).imageSource(buffer);
