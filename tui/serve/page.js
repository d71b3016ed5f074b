// Gives the terminal of this page its address. The token comes behind the # of the page's own, which browsers send to
// nobody; it is kept for a reload of this tab and taken out of the address at once.
"use strict";

const KEY = "handloom-token";
const WORDS = {
  4000: "The workspace has ended. Start it again: reload this page.",
  4001: "The workspace is shown in another tab now. To have it here: reload this page.",
  4003: "This address is not complete. Open the one that `handloom serve` printed, all of it.",
};
const LOST = "Nobody serves this page any more. Run `handloom serve`, and open the address that it prints.";

if (location.hash.length > 1) {
  sessionStorage.setItem(KEY, location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
}

const Plain = window.WebSocket;
window.WebSocket = class extends Plain {
  send(data) {
    if (this.readyState === Plain.OPEN) super.send(data); // the terminal speaks before it is connected, and after
  }
  constructor(address) {
    super(address);
    this.addEventListener("close", (event) => {
      document.getElementById("notice").textContent = WORDS[event.code] || LOST;
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
