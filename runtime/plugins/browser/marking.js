/*
 * Gives each element of one frame, those in open shadow roots included, its `bid`, and tells what is known of it.
 *
 * The numbering is BrowserGym's: elements in document order, what is in a shadow root right after its host; decimal
 * numbers from 0; frames get letters instead (a to z, then aA, aB, ...); `prefix` is the bid of the frame itself. A bid
 * stays with its element; new elements get new ones. For as long as the trees are read each element also has an ARIA
 * description, which is what keeps the browser from leaving it out of the accessibility tree; unmarking.js puts the
 * page's own back.
 *
 * Answers {elements: [[bid, visibility, marked], ...], total, focused, unseen}: `visibility` is the share of the element
 * that is in view, 0 to 1; `marked` says whether it belongs to the set of marks; `focused` is the bid of the focused
 * element, which may be a frame; `unseen` counts those of which the browser did not say in time whether they are in view.
 */
async ({ prefix, limit, patience_ms, description }) => {
  const KEY = Symbol.for("handloom.bids");
  const HOLDS_A_FRAME = new Set(["IFRAME", "FRAME"]);
  const ALWAYS_A_TARGET = new Set([
    "INPUT", "TEXTAREA", "SELECT", "BUTTON", "A", "IFRAME", "VIDEO", "LI", "TD", "OPTION",
  ]);
  const SMALLEST_TARGET_PX2 = 20;

  const first = !(KEY in window);
  if (first) {
    Object.defineProperty(window, KEY, { value: { numbers: 0, frames: [], borrowed: [] } });
  }
  const state = window[KEY];
  const DESCRIPTION = "aria-description";
  const putBack = ([element, own]) =>
    own === null ? element.removeAttribute(DESCRIPTION) : element.setAttribute(DESCRIPTION, own);
  state.borrowed.splice(0).forEach(putBack);

  const name = (element) => (element.tagName || "").toUpperCase();

  function lettersOf(index) {
    let letters = "";
    for (let rest = index; rest >= 0; rest = Math.floor(rest / 26) - 1) {
      letters = String.fromCharCode(97 + (rest % 26)) + letters;
    }
    return letters[0] + letters.slice(1).toUpperCase();
  }

  // Only what was given in this document is kept: a page can write anything into an attribute.
  const given = new Set();
  function isOurs(bid) {
    if (first || bid === null || given.has(bid) || !bid.startsWith(prefix)) return false;
    const own = bid.slice(prefix.length);
    return /^\d+$/.test(own) ? Number(own) < state.numbers : state.frames.includes(own);
  }

  function bidOf(element) {
    const kept = element.getAttribute("bid");
    const bid = isOurs(kept) ? kept : prefix + nextFor(element);
    if (bid !== kept) element.setAttribute("bid", bid);
    given.add(bid);
    return bid;
  }

  function nextFor(element) {
    if (!HOLDS_A_FRAME.has(name(element))) return state.numbers++;
    state.frames.push(lettersOf(state.frames.length));
    return state.frames[state.frames.length - 1];
  }

  function describe(element) {
    const own = element.getAttribute(DESCRIPTION);
    if (own !== null && own.trim()) return;
    state.borrowed.push([element, own]);
    element.setAttribute(DESCRIPTION, description);
  }

  function atPoint(x, y) {
    let found = null;
    let root = document;
    while (root) {
      const deeper = root.elementFromPoint(x, y);
      if (deeper === found) break;
      found = deeper;
      root = found && found.shadowRoot;
    }
    return found;
  }

  function takesClick(element, box) {
    const target = atPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    return target !== null && element.contains(target);
  }

  const marked = new Set();
  const buttons = new Set();
  function isWithinButton(element) {
    for (let node = element; node; node = node.parentNode) if (buttons.has(node)) return true;
    return false;
  }
  function consider(element) {
    const isTarget =
      ALWAYS_A_TARGET.has(name(element)) || element.onclick || getComputedStyle(element).cursor === "pointer";
    if (!isTarget) return;
    const box = element.getBoundingClientRect();
    if ((box.right - box.left) * (box.bottom - box.top) < SMALLEST_TARGET_PX2) return;
    if (isWithinButton(element) || !takesClick(element, box)) return;
    const parent = element.parentElement;
    const parentStandsForIt =
      parent && name(parent) === "SPAN" && parent.children.length === 1 && parent.getAttribute("role");
    if (parentStandsForIt && marked.has(parent)) return;
    marked.add(element);
    if (element.matches('button, a, input[type="button"], div[role="button"]')) buttons.add(element);
    for (let above = parent; above; above = above.parentElement) marked.delete(above);
  }

  const elements = [];
  let total = 0;
  (function collect(root) {
    for (const element of root.querySelectorAll("*")) {
      total++;
      if (elements.length < limit) elements.push(element);
      if (element.shadowRoot) collect(element.shadowRoot);
    }
  })(document);

  const shares = new Map();
  const waiting = new Set(elements);
  await new Promise((resolve) => {
    if (waiting.size === 0) return resolve();
    const observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        shares.set(entry.target, Math.round(entry.intersectionRatio * 100) / 100);
        waiting.delete(entry.target);
      }
      if (waiting.size === 0) finish();
    });
    const timer = setTimeout(finish, patience_ms);
    function finish() {
      clearTimeout(timer);
      observer.disconnect();
      resolve();
    }
    for (const element of elements) observer.observe(element);
  });

  const bids = new Map();
  for (const element of elements) bids.set(element, bidOf(element));
  elements.forEach(consider);
  elements.forEach(describe);

  let focused = document.activeElement;
  while (focused && focused.shadowRoot) focused = focused.shadowRoot.activeElement;

  return {
    elements: elements.map((element) => [bids.get(element), shares.get(element) ?? 0, marked.has(element)]),
    total,
    focused: (focused && bids.get(focused)) ?? "",
    unseen: waiting.size,
  };
}
