// What a reader sees of a page as HTML for html2text: frames of the same site and shadow trees included, scripts and
// styles left out, at most `limit` characters. Without recursion, for pages can be nested 100,000 deep.
(limit) => {
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "SVG", "HEAD", "LINK", "META"]);
  const KEPT = ["href", "alt", "title", "start", "colspan"];
  const VOID = new Set(["BR", "HR", "IMG", "INPUT", "WBR", "AREA", "COL", "EMBED", "SOURCE", "TRACK"]);
  const escaped = text => text.replace(/[&<>"]/g, sign => "&#" + sign.charCodeAt(0) + ";");
  const inside = element => {
    try {
      if (element.contentDocument) return element.contentDocument.documentElement;
    } catch (_) { /* of another site */ }
    return null;
  };
  const pieces = [];
  let left = limit, truncated = false, isPart = false;
  const put = text => {
    if (text.length > left) { text = text.slice(0, left); truncated = true; }
    left -= text.length;
    pieces.push(text);
  };
  const todo = [document.documentElement];
  while (todo.length && !truncated) {
    const next = todo.pop();
    if (typeof next === "string") { put(next); continue; }
    if (!next) continue;
    if (next.nodeType === Node.TEXT_NODE) { put(escaped(next.data.slice(0, left + 1))); continue; }
    if (next.nodeType !== Node.ELEMENT_NODE && next.nodeType !== Node.DOCUMENT_FRAGMENT_NODE) continue;
    if (next.nodeType === Node.ELEMENT_NODE) {
      const tag = next.nodeName.toUpperCase();
      if (SKIPPED.has(tag)) continue;
      let head = "<" + tag.toLowerCase();
      for (const name of KEPT) {
        const value = next.getAttribute(name);
        if (value !== null) head += " " + name + '="' + escaped(value.slice(0, 2000)) + '"';
      }
      put(head + ">");
      if (VOID.has(tag)) continue;
      todo.push("</" + tag.toLowerCase() + ">");
      const framed = tag === "IFRAME" || tag === "FRAME" ? inside(next) : null;
      if (framed) { todo.push(framed); continue; }
    }
    const inner = next.shadowRoot || next;
    const assigned = next.nodeName === "SLOT" ? next.assignedNodes() : [];
    if (assigned.length) {
      for (let at = assigned.length - 1; at >= 0; at--) todo.push(assigned[at]);
    } else {
      // The children go on the pile one at a time: a million of them would not fit there.
      isPart ||= inner.childNodes.length > 100000;
      for (let at = Math.min(inner.childNodes.length, 100000) - 1; at >= 0; at--) todo.push(inner.childNodes[at]);
    }
  }
  return { html: pieces.join(""), truncated: truncated || isPart };
}
