/** Make an element; attributes named `on…` become listeners, false and null ones are left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** Write text only if it differs, so that screen readers announce real changes only. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

let lastId = 0;
export const newId = () => `r${++lastId}`;

/** Return a name for people: `cfg_scale` → `Cfg scale`. */
export function humanise(name) {
  const text = name.replaceAll("_", " ").trim() || name;
  return text[0].toUpperCase() + text.slice(1);
}
