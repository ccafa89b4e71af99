/** The script of the page that asks for the token: the author's colour, as in the page itself, and the typed text on request. */
document.documentElement.style.setProperty("--authors", document.documentElement.dataset.accent ?? "");

// Loaded before the body.
document.addEventListener("change", ({ target }) => {
  const box = /** @type {HTMLInputElement} */ (target);
  const password = /** @type {HTMLInputElement} */ (document.querySelector("[name=token]"));
  if (box.id === "show") password.type = box.checked ? "text" : "password";
});
