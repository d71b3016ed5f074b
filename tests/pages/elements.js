/* Bid, tag and first words of each element of a frame that has a bid: what both sides are compared by. */
() => {
  const told = {};
  (function collect(root) {
    for (const element of root.querySelectorAll("*")) {
      const bid = element.getAttribute("bid");
      if (bid !== null) told[bid] = `${element.tagName.toLowerCase()} ${element.textContent.trim().replace(/\s+/g, " ").slice(0, 30)}`;
      if (element.shadowRoot) collect(element.shadowRoot);
    }
  })(document);
  return told;
}
