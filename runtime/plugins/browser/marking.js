/*
 * Gives each element of one frame, those in open shadow roots included, its `bid`, and tells what is known of it.
 *
 * The numbering is BrowserGym's: elements in document order, what is in a shadow root right after its host; decimal
 * numbers from 0; frames get letters instead (a to z, then aA, aB, ...); `prefix` is the bid of the frame itself. A bid
 * stays with its element; new elements get new ones. For as long as the trees are read each element also has an ARIA
 * description, which is what keeps the browser from leaving it out of the accessibility tree; unmarking.js puts the
 * page's own back.
 *
 * Answers, as JSON, {elements: [[bid, visibility, marked], ...], total, outline, focused}: `visibility` is the share of
 * the element that is in view, 0 to 1; `marked` says whether it belongs to the set of marks; `focused` is the bid of the
 * focused element, which may be a frame. Where there are more than `limit` elements only those in view are marked, and
 * told as an `outline`, for their accessibility tree would take minutes.
 */
async ({ prefix, limit, limit_in_view, patience_ms, description }) => {
  const KEY = Symbol.for("handloom.bids");
  const HOLDS_A_FRAME = new Set(["IFRAME", "FRAME"]);
  const ALWAYS_A_TARGET = new Set([
    "INPUT", "TEXTAREA", "SELECT", "BUTTON", "A", "IFRAME", "VIDEO", "LI", "TD", "OPTION",
  ]);
  const SMALLEST_TARGET_PX2 = 20;

  const first = !(KEY in window);
  if (first) {
    Object.defineProperty(window, KEY, { value: { numbers: 0, frames: [], borrowed: [], turn: 0 } });
  }
  const state = window[KEY];
  const turn = ++state.turn;
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
  function isTarget(element) {
    if (ALWAYS_A_TARGET.has(name(element)) || element.onclick) return true;
    return getComputedStyle(element).cursor === "pointer";
  }
  function consider(element) {
    if (!isTarget(element)) return;
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

  let elements = [];
  let total = 0;
  (function collect(root) {
    for (const element of root.querySelectorAll("*")) {
      total++;
      if (total <= limit) elements.push(element);
      if (element.shadowRoot) collect(element.shadowRoot);
    }
  })(document);
  const tooMany = total > limit;
  if (tooMany) elements = inView();

  function inView() {
    const found = [];
    const waiting = [document.documentElement];
    while (waiting.length && found.length < limit_in_view) {
      const element = waiting.pop();
      const { left, top, right, bottom } = element.getBoundingClientRect();
      const isDrawn = right > left && bottom > top;
      const isSeen = isDrawn && left < innerWidth && top < innerHeight && right > 0 && bottom > 0;
      if (isSeen) found.push(element);
      if (isDrawn && !isSeen) continue;
      const below = [...(element.shadowRoot?.children ?? []), ...element.children];
      for (let at = below.length - 1; at >= 0; at--) waiting.push(below[at]);
    }
    return found;
  }

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

  if (state.turn !== turn) return null; // unmarked meanwhile: nobody reads the page any more

  const bids = new Map();
  for (const element of elements) bids.set(element, bidOf(element));
  elements.forEach(consider);
  elements.forEach(describe);

  const ROLES = {
    A: "link", BUTTON: "button", INPUT: "textbox", TEXTAREA: "textbox", SELECT: "combobox", OPTION: "option",
    IMG: "image", LI: "listitem", UL: "list", OL: "list", P: "paragraph", TABLE: "table", TR: "row", TD: "cell",
    TH: "columnheader", IFRAME: "Iframe",
    H1: "heading", H2: "heading", H3: "heading", H4: "heading", H5: "heading", H6: "heading",
  };
  function outlineOf(element) {
    const box = element.getBoundingClientRect();
    const texts = Array.from(element.childNodes).filter((node) => node.nodeType === Node.TEXT_NODE);
    const said = ["aria-label", "alt", "placeholder", "title"].map((name) => element.getAttribute(name)).find(Boolean);
    return {
      bid: bids.get(element),
      parent: bids.get(element.parentElement ?? element.getRootNode().host) ?? "",
      role: element.getAttribute("role") || ROLES[name(element)] || "generic",
      name: (said ?? texts.map((node) => node.data).join(" ")).replace(/\s+/g, " ").trim().slice(0, 300),
      bbox: [box.left, box.top, box.width, box.height],
      clickable: isTarget(element),
    };
  }

  let focused = document.activeElement;
  while (focused && focused.shadowRoot) focused = focused.shadowRoot.activeElement;

  // As text: playwright takes as long to take apart a value as all of the above.
  return JSON.stringify({
    elements: elements.map((element) => [bids.get(element), shares.get(element) ?? 0, marked.has(element)]),
    total,
    outline: tooMany ? elements.map(outlineOf) : [],
    focused: (focused && bids.get(focused)) ?? "",
  });
}
