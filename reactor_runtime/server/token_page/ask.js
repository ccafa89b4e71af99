/** The script of the page that asks for the token: the author's colour, as in the page itself, and the typed text on request. */
document.documentElement.style.setProperty("--authors", document.documentElement.dataset.accent ?? "");

// Loaded before the body.
document.addEventListener("change", ({ target }) => {
  if (target.id === "show") document.querySelector("[name=token]").type = target.checked ? "text" : "password";
});
