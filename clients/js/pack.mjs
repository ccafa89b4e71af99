/**
 * Copies the client of the server's page into the package while it is packed, so that there is one copy of it. Workers
 * and worklets are made to need no other file, because bundlers copy such a file alone. The modules in `inline` contain
 * their text, for bundlers that do not copy them.
 */

import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (path) => readFileSync(here(path), "utf8");
const write = (path, text) => writeFileSync(here(path), text);
const LENT = [
  ["../../reactor_runtime/server/playground/client", "client"],
  ["../../LICENSE", "LICENSE"],
];
const LOADED_BY_ADDRESS = ["audio_worklet", "encoder_worker"];
const IMPORT = /^import \{ ([^}]+?),? \} from "\.\/(.+)";$/gm;
const EXPORT = /^export (?:async )?(?:class|function|const) (\w+)/gm;
const ADDRESS = /new URL\("\.\/(\w+)\.js", import\.meta\.url\)/g;

/** Return a module's text behind those of the modules that it imports, each in a function of its own. */
function whole(entry) {
  const before = new Map(); // module → its text
  const inlineImports = (name) =>
    read(`client/${name}`).replace(IMPORT, (_, names, imported) => {
      if (!before.has(imported)) {
        const text = inlineImports(imported).replace(/^export /gm, "");
        const exported = read(`client/${imported}`).matchAll(EXPORT);
        before.set(
          imported,
          `const ${idOf(imported)} = (() => {\n${text}return { ${Array.from(exported, ([, each]) => each).join(", ")} };\n})();\n`,
        );
      }
      return `const { ${names} } = ${idOf(imported)};`;
    });
  const text = inlineImports(entry);
  return [...before.values(), text].join("");
}

const idOf = (name) => `module_${name.slice(0, -3)}`;

/** Return the module's text with the addresses of workers and worklets made of their text. */
function inlined(text) {
  const names = new Set(Array.from(text.matchAll(ADDRESS), ([, name]) => name));
  const imports = [...names].map((name) => `import ${name}Address from "./${name}.js";\n`).join("");
  return imports + text.replace(ADDRESS, "new URL($1Address())");
}

const asAddress = (text) => `const text = ${JSON.stringify(text)};
let address = null;
export default () => (address ??= URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
`;

for (const name of ["client", "inline", "LICENSE"]) rmSync(here(name), { recursive: true, force: true });
if (process.argv[2] !== "clean") {
  for (const [from, to] of LENT) cpSync(here(from), here(to), { recursive: true });
  for (const name of LOADED_BY_ADDRESS) write(`client/${name}.js`, whole(`${name}.js`));
  mkdirSync(here("inline"));
  for (const name of readdirSync(here("client")).filter((name) => name.endsWith(".js"))) {
    const text = read(`client/${name}`);
    write(`inline/${name}`, LOADED_BY_ADDRESS.includes(name.slice(0, -3)) ? asAddress(text) : inlined(text));
  }
  write("inline/react.js", read("react.js").replace("./client/", "./"));
}
