/** Choices of the user that are kept in this browser. */

/** Return a stored choice, {} without one. */
export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(`reactor.${name}`)) ?? {};
  } catch {
    return {};
  }
}

/** Store a choice in this browser. Return false if storage is not allowed, as in a frame of another site. */
export function remember(name, choice) {
  try {
    localStorage.setItem(`reactor.${name}`, JSON.stringify(choice));
    return true;
  } catch {
    return false;
  }
}
