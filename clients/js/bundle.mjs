/**
 * Makes the files that a release serves of the page: node bundle.mjs FOLDER. `index.html` loads what shows frames in two
 * modules, `main.js` and `shared.js`; modules that the page imports later stay files of their own. All of them lie in one
 * folder with the hash of their contents for a name, with their source maps, and compressed beside it.
 */

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const PAGE = fileURLToPath(new URL("../../reactor_runtime/page", import.meta.url));
const MAIN = join(PAGE, "main.js");
// As in reactor_runtime/server/routes/preloads.py.
const LATER = ["panels.js", "toolbar/toolbar.js"];
const ADDRESS = /new URL\("([./\w]+)", import\.meta\.url\)/g;
const STYLE = /"(?:\.\/)?([\w/-]+\.css)"/g;
const COMMON = { bundle: true, write: false, minify: true, outdir: PAGE, absWorkingDir: PAGE, outbase: PAGE };
const MODULES = { ...COMMON, format: "esm", target: "es2022", sourcemap: true };

const inPage = (path) => relative(PAGE, path).replaceAll("\\", "/");

/** Return the modules that main.js imports at once, itself left out. */
async function modulesOfMain() {
  const later = {
    name: "later",
    setup: ({ onResolve }) =>
      onResolve({ filter: /./ }, ({ kind, path }) => (kind === "dynamic-import" ? { path, external: true } : null)),
  };
  const { metafile } = await build({ ...MODULES, entryPoints: [MAIN], plugins: [later], metafile: true });
  const paths = Object.keys(metafile.inputs).map((name) => join(PAGE, name));
  return new Set(paths.filter((path) => path !== MAIN));
}

/** Every module gets what is in `modules` from shared.js, so that each of these exists once. */
const sharing = (modules) => ({
  name: "sharing",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^shared$/ }, () => ({ path: "shared", namespace: "shared" }));
    onLoad({ filter: /./, namespace: "shared" }, () => ({
      contents: [...modules].map((path) => `export * from ${JSON.stringify(path)};`).join("\n"),
      resolveDir: PAGE,
    }));
    onResolve({ filter: /^\./ }, ({ importer, path, resolveDir }) =>
      modules.has(resolve(resolveDir, path)) && !modules.has(importer) ? { path: "./shared.js", external: true } : null,
    );
  },
});

/** Modules leave their folders: the addresses in them, which `assets` collects, are made relative to that of the page. */
const addressing = (assets) => ({
  name: "addressing",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(ADDRESS, (_, address) => {
        const asset = inPage(resolve(dirname(path), address));
        assets.add(asset);
        return `new URL("./${asset}", import.meta.url)`;
      }),
    })),
});

/** Raise for a name that shared.js does not export, because two of its modules do. */
function checkImports({ outputs }, texts) {
  const shared = new Set(outputs["shared.js"].exports);
  for (const [name, text] of texts) {
    for (const [, names] of text.matchAll(/import\{([^}]*)\}from"\.\/shared\.js"/g)) {
      const missing = names.split(",").filter((each) => !shared.has(each.split(" as ")[0]));
      if (missing.length) throw new Error(`${name}: shared.js has no ${missing}`);
    }
  }
}

/** Return the name of a module of `outputs` and those of the modules that it imports at once. */
function loadedWith(outputs, name) {
  const imported = outputs[name].imports.filter(({ kind, external }) => kind === "import-statement" && !external);
  return [name, ...imported.flatMap(({ path }) => loadedWith(outputs, path))];
}

function link(name, more = "") {
  const kind = name.endsWith(".css") ? 'rel="preload" as="style"' : 'rel="modulepreload"';
  return `  <link ${kind} href="static/${name}"${more}>\n`;
}

const modules = await modulesOfMain();
const assets = new Set();
const page = await build({
  ...MODULES,
  entryPoints: { main: MAIN, shared: "shared" },
  plugins: [sharing(modules), addressing(assets)],
  splitting: true,
  metafile: true,
});
const styles = readdirSync(PAGE, { recursive: true }).filter((name) => name.endsWith(".css"));
// Workers and worklets, which share nothing with the page.
const workers = [...assets].filter((name) => name.endsWith(".js"));
const others = [
  await build({ ...MODULES, entryPoints: workers }),
  await build({ ...COMMON, entryPoints: styles.map((name) => `./${name}`) }),
];
const files = new Map(
  [page, ...others].flatMap(({ outputFiles }) => outputFiles.map((file) => [inPage(file.path), file])),
);
const texts = new Map(Array.from(files, ([name, { text }]) => [name, text]));
checkImports(page.metafile, texts);

const hash = createHash("sha256");
for (const name of [...files.keys()].sort()) hash.update(name).update(files.get(name).contents);
const version = hash.digest("hex").slice(0, 16);

const { outputs } = page.metafile;
const later = new Set();
for (const entry of LATER) {
  const name = Object.keys(outputs).find((each) => outputs[each].entryPoint === entry);
  for (const each of loadedWith(outputs, name)) {
    later.add(each);
    for (const [, style] of texts.get(each).matchAll(STYLE)) later.add(style);
  }
}
const links = [
  link(`${version}/shared.js`),
  ...Array.from(later, (name) => link(`${version}/${name}`, ' fetchpriority="low"')),
];
const html = readFileSync(join(PAGE, "index.html"), "utf8")
  .replace("static/style.css", `static/${version}/style.css`)
  .replace("static/main.js", `static/${version}/main.js`)
  .replace("</head>", `${links.join("")}</head>`);

const folder = resolve(process.argv[2]);
rmSync(folder, { recursive: true, force: true });
for (const [name, { contents }] of files) {
  const path = join(folder, version, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, contents);
  if (!name.endsWith(".map")) writeFileSync(`${path}.gz`, gzipSync(contents, { level: 9 }));
}
writeFileSync(join(folder, "index.html"), html);
