/** Lays the controls out in sections and groups, without moving those that stay. */

import { el } from "../dom.js";

const STYLES = ["live", "button", "form"];
const BOUND = "Keys and pointer";

export class Layout {
  // Kind of box and name of its section → element
  #boxes = new Map();

  /** Return the elements of `parts`, each {style, order, event, specs, control}. */
  arrange(parts) {
    const sections = new Map();
    for (const part of parts.sort((a, b) => a.order - b.order)) {
      const name = sectionOf(part);
      sections.set(name, [...(sections.get(name) ?? []), part]);
    }
    const named = [...sections.keys()].filter((name) => name && name !== BOUND);
    return ["", ...named, BOUND].flatMap((name) => this.#section(name, sections.get(name) ?? []));
  }

  #section(name, parts) {
    const groups = STYLES.flatMap((style) => {
      const roots = parts.filter((part) => part.style === style).map(({ control }) => control.root);
      return roots.length
        ? [
            arrange(
              this.#box(`${style} ${name}`, () => makeGroup(style)),
              roots,
            ),
          ]
        : [];
    });
    if (!name || !parts.length) return groups;
    const section = this.#box(`section ${name}`, () => makeSection(name));
    return [arrange(section, [section.firstElementChild, ...groups])];
  }

  #box(key, make) {
    if (!this.#boxes.has(key)) this.#boxes.set(key, make());
    return this.#boxes.get(key);
  }
}

/** Make these the children of an element, and return it; those that stay in order keep focus and drags. */
export function arrange(parent, children) {
  for (const child of [...parent.children]) if (!children.includes(child)) child.remove();
  children.forEach((child, i) => {
    const there = parent.children[i] ?? null;
    if (there !== child) parent.insertBefore(child, there);
  });
  return parent;
}

const makeGroup = (style) => el("div", { class: `group ${style}s` });
const makeSection = (name) => el("details", { class: "section", open: name !== BOUND }, el("summary", {}, name));

/** Return the group that the author named, that of controls bound to devices, or "". */
function sectionOf({ event, specs }) {
  const group = specs.find(({ ui }) => ui.group)?.ui.group;
  const isBound = event.parameters?.["x-reactor-bind"] || specs.some(({ bound }) => bound);
  return group ?? (isBound ? BOUND : "");
}
