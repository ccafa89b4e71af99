/** Keeps what was chosen in this browser; where nothing may be kept, as in a frame of another site, it is forgotten. */

export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(`reactor.${name}`)) ?? {};
  } catch {
    return {};
  }
}

/** False where nothing may be kept. */
export function remember(name, choice) {
  try {
    localStorage.setItem(`reactor.${name}`, JSON.stringify(choice));
    return true;
  } catch {
    return false;
  }
}
