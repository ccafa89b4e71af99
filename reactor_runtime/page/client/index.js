/** All that programs get: reactor.js, which the server's page loads first, and what it loads later. */

export * from "./reactor.js";
export { readMedia } from "./read_media.js";
