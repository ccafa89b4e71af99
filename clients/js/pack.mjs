/** Puts the client that the server's own page uses into the package, for as long as it is packed: there is one copy of it. */

import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const lent = [
  ["../../reactor_runtime/server/playground/client", "client"],
  ["../../LICENSE", "LICENSE"],
];

for (const [from, to] of lent) {
  rmSync(here(to), { recursive: true, force: true });
  if (process.argv[2] !== "clean") cpSync(here(from), here(to), { recursive: true });
}
