/** Write 16-bit samples of one channel as a complete WAV file. */
export function makeWav(samples, sampleRate) {
  const file = new Uint8Array(44 + samples.byteLength);
  const view = new DataView(file.buffer);
  const word = (at, text) => file.set(Array.from(text, (letter) => letter.charCodeAt(0)), at);
  word(0, "RIFF");
  view.setUint32(4, file.length - 8, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, 2 * sampleRate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, samples.byteLength, true);
  file.set(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength), 44);
  return file;
}
