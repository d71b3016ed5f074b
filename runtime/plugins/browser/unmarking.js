/* Puts back the ARIA descriptions that marking.js borrowed, and keeps one that is under way from borrowing any. */
() => {
  const state = window[Symbol.for("handloom.bids")];
  if (state) state.turn++;
  for (const [element, own] of state ? state.borrowed.splice(0) : []) {
    own === null ? element.removeAttribute("aria-description") : element.setAttribute("aria-description", own);
  }
}
