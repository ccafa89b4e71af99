// What the theme adds to a page after it has loaded: a name for the buttons of each sample, and the focus for wide tables.
const name = () => {
  const buttons = document.querySelectorAll(".md-code__nav");
  buttons.forEach((nav, i) => nav.setAttribute("aria-label", `Sample ${i + 1}`));
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
};
new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
name();
