/**
 * Puts the client that the server's own page uses into the package, for as long as it is packed: there is one copy of it. What is
 * loaded by its address, in workers and on the audio thread, is made to need no other file: bundlers copy it alone.
 */

import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const lent = [
  ["../../reactor_runtime/server/playground/client", "client"],
  ["../../LICENSE", "LICENSE"],
];
const IMPORT = /^import \{ (.+) \} from "\.\/(.+)";$/gm;

/** The module's text, with those that it imports in it. */
function whole(name) {
  return readFileSync(here(`client/${name}`), "utf8").replace(IMPORT, (_, names, imported) => {
    const text = whole(imported).replace(/^export /gm, "");
    return `const { ${names} } = (() => {\n${text}return { ${names} };\n})();`;
  });
}

for (const [from, to] of lent) {
  rmSync(here(to), { recursive: true, force: true });
  if (process.argv[2] !== "clean") cpSync(here(from), here(to), { recursive: true });
}
if (process.argv[2] !== "clean") {
  for (const name of ["ear.js", "encoder.js", "worklet.js"]) writeFileSync(here(`client/${name}`), whole(name));
}
