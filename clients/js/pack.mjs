/**
 * Copies the client of the server's page into the package while it is packed, so that there is one copy of it. Workers
 * and worklets are made to need no other file, because bundlers copy such a file alone. The modules in `inline` contain
 * their text, for bundlers that do not copy them.
 */

import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const pathOf = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (path) => readFileSync(pathOf(path), "utf8");
const write = (path, text) => writeFileSync(pathOf(path), text);
const COPIED = [
  ["../../reactor_runtime/server/playground/client", "client"],
  ["../../LICENSE", "LICENSE"],
];
const LOADED_BY_ADDRESS = ["audio_worklet", "encoder_worker"];
const IMPORT = /^import \{\s+([^}]+?),?\s+\} from "\.\/(.+)";$/gm;
const EXPORT = /^export (?:async )?(?:class|function|const) (\w+)/gm;
const ADDRESS = /new URL\("\.\/(\w+)\.js", import\.meta\.url\)/g;

/** Return a module's text behind those of the modules that it imports, each in a function of its own. */
function withImports(entry) {
  // Module → its text.
  const before = new Map();
  const inlineImports = (name) =>
    read(`client/${name}`).replace(IMPORT, (_, names, imported) => {
      if (!before.has(imported)) {
        const text = inlineImports(imported).replace(/^export /gm, "");
        const exported = read(`client/${imported}`).matchAll(EXPORT);
        const names = Array.from(exported, ([, each]) => each).join(", ");
        before.set(imported, `const ${idOf(imported)} = (() => {\n${text}return { ${names} };\n})();\n`);
      }
      return `const { ${names} } = ${idOf(imported)};`;
    });
  const text = inlineImports(entry);
  return [...before.values(), text].join("");
}

const idOf = (name) => `module_${name.slice(0, -3)}`;

/** Return the module's text with the addresses of workers and worklets made of their text. */
function withoutAddresses(text) {
  const names = new Set(Array.from(text.matchAll(ADDRESS), ([, name]) => name));
  const imports = [...names].map((name) => `import ${name}Address from "./${name}.js";\n`).join("");
  return imports + text.replace(ADDRESS, "new URL($1Address())");
}

const asAddress = (text) => `const text = ${JSON.stringify(text)};
let address = null;
export default () => (address ??= URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
`;

for (const name of ["client", "inline", "LICENSE"]) rmSync(pathOf(name), { recursive: true, force: true });
if (process.argv[2] !== "clean") {
  for (const [from, to] of COPIED) cpSync(pathOf(from), pathOf(to), { recursive: true });
  for (const name of LOADED_BY_ADDRESS) write(`client/${name}.js`, withImports(`${name}.js`));
  mkdirSync(pathOf("inline"));
  for (const name of readdirSync(pathOf("client")).filter((name) => name.endsWith(".js"))) {
    const text = read(`client/${name}`);
    write(`inline/${name}`, LOADED_BY_ADDRESS.includes(name.slice(0, -3)) ? asAddress(text) : withoutAddresses(text));
  }
  write("inline/react.js", read("react.js").replace("./client/", "./"));
}
