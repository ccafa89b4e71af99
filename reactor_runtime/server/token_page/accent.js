/** Gives the page that asks for the token the author's colour, as the page itself does; "" is none. */
document.documentElement.style.setProperty("--authors", document.documentElement.dataset.accent ?? "");
