import { byId, el } from "../dom.js";

/** Return the image that `reactor thumbnails` has made of these values; null without one. */
export function thumbnailOf(values) {
  const made = JSON.parse(byId("controls").dataset.thumbnails ?? "[]");
  const text = JSON.stringify(values);
  const found = made.find((each) => JSON.stringify(each.values) === text);
  return found ? el("img", { src: found.image, alt: "" }) : null;
}
