/** The files of the media that a program sends with a request for steps. */

import { bytesOf, findInput, kindOf, makeNpy, stampOf, withHeader } from "./media_writer.js";

/**
 * Return the files of {track: [content, …]} with their headers, in order. A content is an ImageData, which loses nothing,
 * or a JPEG, NPY or WAV file. Throws TypeError and RangeError.
 */
export async function filesOf(session, media) {
  const most = session.limits.max_media_bytes ?? Infinity;
  const contents = Object.entries(media).flatMap(([track, each]) => [...each].map((content) => ({ track, content })));
  return Promise.all(
    contents.map(async ({ track, content }) => {
      const file = await fileOf(content);
      const kind = kindOf(file);
      if (!kind) throw new TypeError(`${track}: ${file.length} bytes that are no JPEG, NPY or WAV`);
      findInput(session, track, kind);
      const message = withHeader(track, file, stampOf(track));
      if (message.length > most)
        throw new RangeError(`${track}: ${message.length} bytes are too many; at most ${most} with the header`);
      return message;
    }),
  );
}

async function fileOf(content) {
  if (content instanceof Blob) return bytesOf(await content.arrayBuffer());
  if (content instanceof ArrayBuffer || ArrayBuffer.isView(content)) return bytesOf(content);
  return makeNpy(content);
}
