// Gives the terminal of this page its address. The token comes behind the # of the page's own, which browsers send to
// nobody; it is kept for a reload of this tab and taken out of the address at once.
"use strict";

const KEY = "handloom-token";
const WORDS = {
  4000: "The workspace has ended. Start it again: reload this page.",
  4002: "The server has ended. As soon as it is back at this address, this page shows the workspace again.",
  4001: "The workspace is shown in another tab now. To have it here: reload this page.",
};
const GONE = 4002;
const REFUSED = 4003;
const INCOMPLETE = "This address is not complete. Open the one that `handloom serve` printed, all of it.";
const ANOTHER = "Another server is here than the one of this page. Open the address that `handloom serve` printed.";
const LOST = "The server does not answer. As soon as it does again, this page shows the workspace.";
const FIRST_MS = 500;
const LONGEST_MS = 10000; // between two looks for a server that is gone

if (location.hash.length > 1) {
  sessionStorage.setItem(KEY, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}

function comeBack(afterMs) {
  setTimeout(async () => {
    try {
      if ((await fetch("/page.js", { cache: "no-store" })).ok) return location.reload();
    } catch {
      // nobody listens yet
    }
    comeBack(Math.min(2 * afterMs, LONGEST_MS));
  }, afterMs);
}

const Plain = window.WebSocket;
window.WebSocket = class extends Plain {
  send(data) {
    if (this.readyState === Plain.OPEN) super.send(data); // the terminal speaks before it is connected, and after
  }
  constructor(address) {
    super(address);
    this.addEventListener("close", (event) => {
      const refused = sessionStorage.getItem(KEY) ? ANOTHER : INCOMPLETE;
      document.getElementById("notice").textContent = event.code === REFUSED ? refused : WORDS[event.code] || LOST;
      if (event.code === GONE || !(event.code in WORDS || event.code === REFUSED)) comeBack(FIRST_MS);
    });
  }
};

window.addEventListener("load", () => {
  const typed = () => document.querySelector(".xterm-helper-textarea")?.focus();
  setTimeout(typed, 0); // once the terminal stands
  document.addEventListener("click", typed);
});

document.addEventListener("DOMContentLoaded", () => {
  const address = new URL(`/ws/${encodeURIComponent(sessionStorage.getItem(KEY) || "none")}`, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  document.getElementById("terminal").dataset.sessionWebsocketUrl = address.href;
});
