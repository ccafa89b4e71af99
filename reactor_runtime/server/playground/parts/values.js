/** Values of controls in the page's address: `?set={"prompt":"a fox"}`. */

const NAME = "set";

/** What an address says, an empty object where it says nothing; throws Error in words for what can't be read. */
export function valuesIn(address) {
  const text = new URL(address).searchParams.get(NAME);
  if (!text) return {};
  try {
    const values = JSON.parse(text);
    if (values && typeof values === "object" && !Array.isArray(values)) return values;
  } catch {}
  throw new Error(`The link's values can't be read; they look like ?${NAME}={"prompt":"a fox"}`);
}

/** The page's address with these values, or with none; without a token, which is nobody else's. */
export function addressWith(address, values, others = {}) {
  const { origin, pathname } = new URL(address);
  const link = new URL(pathname, origin);
  for (const [name, value] of Object.entries(others)) link.searchParams.set(name, value);
  if (Object.keys(values).length) link.searchParams.set(NAME, JSON.stringify(values));
  return link.href.replaceAll("=&", "&").replace(/=$/, ""); // ?embed, not ?embed=
}
