/**
 * Draws a text as a QR code (ISO/IEC 18004): bytes, error correction M, versions 1 to 10. In the page, because drawing
 * one on the server would hold up its frames.
 */

// Of each version: all codewords, error correction codewords of a block, blocks, and centres of alignment patterns.
/** @type {[number, number, number, number[]][]} */
const VERSIONS = [
  [26, 10, 1, []],
  [44, 16, 1, [6, 18]],
  [70, 26, 1, [6, 22]],
  [100, 18, 2, [6, 26]],
  [134, 24, 2, [6, 30]],
  [172, 16, 4, [6, 34]],
  [196, 18, 4, [6, 22, 38]],
  [242, 22, 4, [6, 24, 42]],
  [292, 22, 5, [6, 26, 46]],
  [346, 26, 5, [6, 28, 50]],
];
// Light modules around the code.
const MARGIN = 4;

/** Return the code of a text as the address of an image; null if the text is too long. */
export function imageOf(text) {
  const modules = modulesOf(text);
  if (!modules) return null;
  const size = modules.length + 2 * MARGIN;
  const canvas = Object.assign(document.createElement("canvas"), { width: size, height: size });
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, size, size);
  context.fillStyle = "#000";
  modules.forEach((row, y) => row.forEach((dark, x) => dark && context.fillRect(x + MARGIN, y + MARGIN, 1, 1)));
  return canvas.toDataURL();
}

/** Return the modules of the code of a text in rows, true for dark; null if the text is too long. */
export function modulesOf(text) {
  const bytes = new TextEncoder().encode(text);
  const at = VERSIONS.findIndex((_, index) => bytes.length <= capacityOf(index));
  if (at < 0) return null;
  const [total, ecc, blocks, centres] = VERSIONS[at];
  const codewords = interleave(dataOf(bytes, total - ecc * blocks, at), ecc, blocks);
  return place(codewords, at + 1, centres);
}

const lengthBits = (index) => (index < 9 ? 8 : 16);

function capacityOf(index) {
  const [total, ecc, blocks] = VERSIONS[index];
  return Math.floor((8 * (total - ecc * blocks) - 4 - lengthBits(index)) / 8);
}

/** Return the data codewords: mode, length, bytes, end, and padding. */
function dataOf(bytes, size, index) {
  const bits = [];
  const push = (value, count) => {
    for (let bit = count - 1; bit >= 0; bit -= 1) bits.push((value >> bit) & 1);
  };
  push(4, 4);
  push(bytes.length, lengthBits(index));
  for (const byte of bytes) push(byte, 8);
  push(0, Math.min(4, 8 * size - bits.length));
  while (bits.length % 8) bits.push(0);
  for (let padding = 0xec; bits.length < 8 * size; padding ^= 0xec ^ 0x11) push(padding, 8);
  return Array.from({ length: size }, (_, i) => bits.slice(8 * i, 8 * i + 8).reduce((byte, bit) => 2 * byte + bit, 0));
}

/** Split data into blocks, add error correction, and return the codewords of all blocks in turns. */
function interleave(data, ecc, count) {
  const short = Math.floor(data.length / count);
  const longs = data.length % count;
  const blocks = Array.from({ length: count }, (_, i) => {
    const start = i * short + Math.max(0, i - (count - longs));
    return data.slice(start, start + short + (i >= count - longs ? 1 : 0));
  });
  const corrections = blocks.map((block) => remainder(block, ecc));
  const turns = (rows, length) =>
    Array.from({ length }, (_, i) => rows.flatMap((row) => (i < row.length ? [row[i]] : []))).flat();
  return [...turns(blocks, short + 1), ...turns(corrections, ecc)];
}

/** Multiply in the field of 256 elements of x⁸ + x⁴ + x³ + x² + 1. */
function multiply(a, b) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit -= 1) {
    product = (product << 1) ^ (product >> 7 ? 0x11d : 0);
    if ((b >> bit) & 1) product ^= a;
  }
  return product;
}

/** Return the Reed-Solomon codewords of a block: the remainder by the product of all (x - 2^i). */
function remainder(block, count) {
  let divisor = [1];
  for (let i = 0, root = 1; i < count; i += 1, root = multiply(root, 2)) {
    const shifted = [...divisor, 0];
    divisor = shifted.map((value, at) => value ^ (at ? multiply(divisor[at - 1], root) : 0));
  }
  const rest = [...block, ...Array(count).fill(0)];
  for (let i = 0; i < block.length; i += 1) {
    const factor = rest[i];
    for (const [at, value] of divisor.entries()) rest[i + at] ^= multiply(value, factor);
  }
  return rest.slice(block.length);
}

/** Return `value` with the remainder of its division by a polynomial of the given degree. */
function withRemainder(value, polynomial, degree) {
  let rest = value;
  for (let i = 0; i < degree; i += 1) rest = (rest << 1) ^ ((rest >> (degree - 1)) & 1 ? polynomial : 0);
  return (value << degree) | (rest & ((1 << degree) - 1));
}

function place(codewords, version, centres) {
  const size = 17 + 4 * version;
  const modules = Array.from({ length: size }, () => Array(size).fill(null));
  const square = (y0, x0, reach, isDark) => {
    for (let y = -reach; y <= reach; y += 1)
      for (let x = -reach; x <= reach; x += 1)
        if (modules[y0 + y]?.[x0 + x] !== undefined)
          modules[y0 + y][x0 + x] = isDark(Math.max(Math.abs(y), Math.abs(x)));
  };
  for (let i = 0; i < size; i += 1) modules[6][i] = modules[i][6] = i % 2 === 0;
  const last = centres.at(-1);
  for (const y of centres)
    for (const x of centres) {
      const isCorner = (y === 6 && x === 6) || (y === 6 && x === last) || (y === last && x === 6);
      if (!isCorner) square(y, x, 2, (distance) => distance !== 1);
    }
  for (const [y, x] of [
    [3, 3],
    [3, size - 4],
    [size - 4, 3],
  ])
    square(y, x, 4, (distance) => distance !== 2 && distance !== 4);
  placeVersion(modules, version);
  placeFormat(modules);
  placeData(modules, codewords);
  return modules;
}

function placeVersion(modules, version) {
  if (version < 7) return;
  const bits = withRemainder(version, 0x1f25, 12);
  for (let i = 0; i < 18; i += 1) {
    const [a, b] = [Math.floor(i / 3), modules.length - 11 + (i % 3)];
    modules[a][b] = modules[b][a] = Boolean((bits >> i) & 1);
  }
}

/** Place level M and mask 0 (five zeros) with their check bits, twice, and the dark module. */
function placeFormat(modules) {
  const size = modules.length;
  const bits = withRemainder(0, 0x537, 10) ^ 0x5412;
  for (let i = 0; i < 15; i += 1) {
    const dark = Boolean((bits >> i) & 1);
    modules[i < 6 ? i : i < 8 ? i + 1 : size - 15 + i][8] = dark;
    modules[8][i < 8 ? size - 1 - i : i < 9 ? 7 : 14 - i] = dark;
  }
  modules[size - 8][8] = true;
}

/** Fill the free modules in columns of two from the right, up and down in turn, with mask 0: readers accept any mask. */
function placeData(modules, codewords) {
  const size = modules.length;
  let bit = 0;
  let up = true;
  for (let right = size - 1; right > 0; right -= 2) {
    if (right === 6) right -= 1;
    for (let step = 0; step < size; step += 1) {
      const y = up ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (modules[y][x] !== null) continue;
        const value = (codewords[bit >> 3] >> (7 - (bit & 7))) & 1;
        modules[y][x] = Boolean(value) !== ((y + x) % 2 === 0);
        bit += 1;
      }
    }
    up = !up;
  }
}
