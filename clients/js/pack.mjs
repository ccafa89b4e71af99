/**
 * Copies the client of the server's page into the package while it is packed, so that there is one copy of it. Workers
 * and worklets are made to need no other file, because bundlers copy such a file alone. The modules in `inline` contain
 * their text, for bundlers that do not copy them.
 */

import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const pathOf = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (path) => readFileSync(pathOf(path), "utf8");
const write = (path, text) => writeFileSync(pathOf(path), text);
const COPIED = [
  ["../../reactor_runtime/page/client", "client"],
  ["../../LICENSE", "LICENSE"],
];
const LOADED_BY_ADDRESS = ["publish/encoder_worker.js", "sound/audio_worklet.js"];
const IMPORT = /^import \{\s+([^}]+?),?\s+\} from "(.+)";$/gm;
const EXPORT = /^export (?:async )?(?:class|function|const) (\w+)/gm;
const ADDRESS = /new URL\("(\.[./\w]*\/(\w+)\.js)", import\.meta\.url\)/g;

/** Return a module's text behind those of the modules that it imports, each in a function of its own. */
function withImports(entry) {
  // Module → its text.
  const before = new Map();
  const inlineImports = (module) =>
    read(`client/${module}`).replace(IMPORT, (_, names, address) => {
      const imported = join(dirname(module), address);
      if (!before.has(imported)) {
        const text = inlineImports(imported).replace(/^export /gm, "");
        const exported = Array.from(read(`client/${imported}`).matchAll(EXPORT), ([, name]) => name).join(", ");
        before.set(imported, `const ${idOf(imported)} = (() => {\n${text}return { ${exported} };\n})();\n`);
      }
      return `const { ${names} } = ${idOf(imported)};`;
    });
  const text = inlineImports(entry);
  return [...before.values(), text].join("");
}

const idOf = (module) => `module_${basename(module, ".js")}`;

/** Return the module's text with the addresses of workers and worklets made of their text. */
function withoutAddresses(text) {
  const named = new Map(Array.from(text.matchAll(ADDRESS), ([, address, name]) => [name, address]));
  const imports = Array.from(named, ([name, address]) => `import ${name}Address from "${address}";\n`).join("");
  return imports + text.replace(ADDRESS, "new URL($2Address())");
}

const asAddress = (text) => `const text = ${JSON.stringify(text)};
let address = null;
export default () => (address ??= URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
`;

for (const name of ["client", "inline", "LICENSE"]) rmSync(pathOf(name), { recursive: true, force: true });
if (process.argv[2] !== "clean") {
  for (const [from, to] of COPIED) cpSync(pathOf(from), pathOf(to), { recursive: true });
  for (const module of LOADED_BY_ADDRESS) write(`client/${module}`, withImports(module));
  for (const module of readdirSync(pathOf("client"), { recursive: true })) {
    if (!module.endsWith(".js")) continue;
    const text = read(`client/${module}`);
    mkdirSync(pathOf(`inline/${dirname(module)}`), { recursive: true });
    write(`inline/${module}`, LOADED_BY_ADDRESS.includes(module) ? asAddress(text) : withoutAddresses(text));
  }
  write("inline/react.js", read("react.js").replace("./client/", "./"));
}
