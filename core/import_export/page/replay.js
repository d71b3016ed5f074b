/* The replay: the articles of the page are its events, in order; those up to a moment are shown.
   `moments` is everything in the order in which it is played, events and pieces of terminal text; `at` is the last
   that was played. Going anywhere is a difference of two places, so that seeking costs what lies between. */
(() => {
  const $ = (id) => document.getElementById(id);
  const chat = $("chat");
  const articles = [...chat.querySelectorAll("article")];
  const pieces = [...chat.querySelectorAll("script.terminal")].flatMap((block) => JSON.parse(block.textContent));
  const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64];
  const LONG_MS = 1000; // a longer wait is shortened to this
  const ROW = 24; // pixels, as in the style sheet
  const REACH = 400;
  const REFILL = 400000; // characters of terminal text that are played again after a step back

  // -- the moments, and when each is played -----------------------------------------------------------------------

  const moments = [];
  const ofEvent = []; // the moment of each event
  {
    let next = 0;
    const upTo = (event) => {
      while (next < pieces.length && pieces[next][0] < event)
        moments.push({ event: -1, text: pieces[next][2], time: pieces[next++][1] });
    };
    articles.forEach((article, event) => {
      upTo(event);
      ofEvent.push(moments.length);
      moments.push({ event, text: "", time: Number(article.dataset.t) });
    });
    upTo(Infinity);
  }
  const turns = articles.flatMap((article, event) => ("turn" in article.dataset ? [event] : []));
  const eventOf = new Map(articles.map((article, event) => [article, event]));
  const pictures = [...chat.querySelectorAll("figure img, a[data-same]")].map((found) => {
    const same = found.dataset.same;
    const image = same === undefined ? found : $(`e${same}`)?.querySelector("img");
    return { event: eventOf.get(found.closest("article")), caption: found.alt ?? found.title, image };
  });
  const states = []; // of the agent, after each event
  for (const article of articles) states.push(article.dataset.state ?? states[states.length - 1]);
  let starts = []; // of each moment, in milliseconds of playing

  function measure() {
    let played = 0;
    starts = moments.map((moment, index) => {
      const wait = index ? Math.max(0, moment.time - moments[index - 1].time) : 0;
      played += $("skip").checked ? Math.min(wait, LONG_MS) : wait;
      return played;
    });
    $("seek").max = String(length());
    document.querySelector(".turns").replaceChildren(
      ...turns.map((event) => {
        const mark = document.createElement("i");
        mark.style.left = `${(100 * starts[ofEvent[event]]) / (length() || 1)}%`;
        return mark;
      }),
    );
  }

  const length = () => starts[starts.length - 1] || 0;

  // -- where it is ------------------------------------------------------------------------------------------------

  const screen = new Screen(document.querySelector("#terminal .screen"));
  let at = -1;
  let event = -1; // the last event that happened
  let reach = REACH; // as many articles are shown, up to this event, because a browser lays out each of them
  let first = 0; // the first that is shown
  let last = 0; // the first after those that are shown
  let played = 0;
  let pictured; // the picture in the browser's pane

  function go(to) {
    to = Math.max(0, Math.min(to, moments.length - 1));
    if (!moments.length || to === at) return;
    let from = at + 1;
    if (to < at) {
      screen.clear();
      let size = 0;
      for (from = to; from > 0 && size < REFILL; from--) size += moments[from - 1].text.length;
    }
    for (let index = from; index <= to; index++) screen.write(moments[index].text);
    let now = to;
    while (now >= 0 && moments[now].event < 0) now--;
    happen(now < 0 ? -1 : moments[now].event);
    at = to;
    screen.draw();
    show();
  }

  function happen(now) {
    articles[event]?.classList.remove("current");
    articles[now]?.classList.add("current");
    event = now;
    reveal(Math.max(0, event + 1 - reach), event + 1);
  }

  function reveal(from, to) {
    for (let index = first; index < last; index++)
      if (index < from || index >= to) articles[index].classList.remove("shown");
    for (let index = from; index < to; index++) articles[index].classList.add("shown");
    [first, last] = [from, to];
    $("earlier").hidden = !first;
  }

  function reachBack() {
    const height = chat.scrollHeight;
    reach += REACH;
    reveal(Math.max(0, event + 1 - reach), event + 1);
    chat.scrollTop += chat.scrollHeight - height;
  }

  function show() {
    toEnd(10);
    const article = articles[event];
    $("cost").textContent = article?.dataset.cost ?? "";
    const state = states[event] ?? "";
    $("state").textContent = state.replaceAll("_", " ");
    $("state").dataset.is = state;
    $("place").textContent = `${event + 1} / ${articles.length}`;
    $("clock").textContent = `${spoken(starts[at] || 0)} / ${spoken(length())}`;
    $("seek").value = String(starts[at] || 0);
    $("seek").style.setProperty("--done", `${(100 * (starts[at] || 0)) / (length() || 1)}%`);
    const picture = pictures.findLast((one) => one.event <= event);
    const view = document.querySelector("#browser img");
    if (picture?.image && picture.image !== pictured) view.src = picture.image.src;
    pictured = picture?.image;
    view.hidden = !picture?.image;
    document.querySelector("#browser small").textContent = picture?.caption ?? "";
    list.follow();
  }

  function toEnd(frames) {
    chat.scrollTop = chat.scrollHeight; // what comes into sight is as high as it is only in the next frame
    if (frames) requestAnimationFrame(() => toEnd(frames - 1));
  }

  function spoken(milliseconds) {
    const seconds = Math.floor(milliseconds / 1000);
    const parts = [Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, "0"));
    return seconds >= 3600 ? `${Math.floor(seconds / 3600)}:${parts.join(":")}` : parts.join(":");
  }

  // -- the list of events, of which only the rows in sight exist --------------------------------------------------

  const list = {
    element: document.querySelector("#events .list"),
    rows: document.querySelector("#events .rows"),
    draw() {
      const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - 5);
      const last = Math.min(articles.length, first + Math.ceil(this.element.clientHeight / ROW) + 10);
      this.rows.replaceChildren(...Array.from({ length: Math.max(0, last - first) }, (_, i) => this.row(first + i)));
    },
    row(index) {
      const article = articles[index];
      const row = document.createElement("div");
      row.className = `row ${article.className.replace("current", "")}`;
      row.classList.toggle("current", index === event);
      row.classList.toggle("ahead", index > event);
      row.style.top = `${index * ROW}px`;
      row.dataset.event = index;
      for (const text of [String(index), article.dataset.kind, article.dataset.label]) {
        const cell = document.createElement("span");
        cell.textContent = text;
        row.append(cell);
      }
      return row;
    },
    follow() {
      const top = Math.max(0, event) * ROW;
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight / 2;
      this.draw();
    },
  };

  // -- playing ----------------------------------------------------------------------------------------------------

  let playing = false;
  let speed = 2; // an index of SPEEDS
  let before = 0;

  function play(wanted) {
    if (wanted && at >= moments.length - 1) go(0);
    playing = wanted;
    played = starts[at] || 0;
    before = performance.now();
    document.documentElement.classList.toggle("playing", playing);
    if (playing) requestAnimationFrame(tick);
  }

  function tick(now) {
    if (!playing) return;
    played += (now - before) * SPEEDS[speed];
    before = now;
    let to = at;
    while (to + 1 < moments.length && starts[to + 1] <= played) to++;
    go(to);
    if (at >= moments.length - 1) play(false);
    else requestAnimationFrame(tick);
  }

  function seek(moment) {
    go(moment);
    played = starts[at] || 0;
  }

  const toEvent = (index) => seek(index >= articles.length - 1 ? moments.length - 1 : ofEvent[Math.max(0, index)]);
  const toTime = (time) => seek(Math.max(0, starts.findLastIndex((start) => start <= time)));
  const step = (by) => (play(false), toEvent(event + by));

  function turn(by) {
    play(false);
    const next = by > 0 ? turns.find((one) => one > event) : turns.findLast((one) => one < event);
    toEvent(next ?? (by > 0 ? articles.length - 1 : 0));
  }

  function faster(by) {
    speed = Math.max(0, Math.min(SPEEDS.length - 1, speed + by));
    $("speed").textContent = `${SPEEDS[speed]}×`;
  }

  function measureAgain() {
    measure();
    played = starts[at] || 0;
    show();
  }

  function find(by) {
    const wanted = $("find").value.toLocaleLowerCase();
    if (!wanted) return;
    for (let i = 1; i <= articles.length; i++) {
      const index = (event + by * i + articles.length * 2) % articles.length;
      if (articles[index].textContent.toLocaleLowerCase().includes(wanted)) return play(false), toEvent(index);
    }
  }

  // -- keys and buttons -------------------------------------------------------------------------------------------

  const KEYS = {
    " ": () => play(!playing),
    ArrowLeft: (key) => (key.shiftKey ? turn(-1) : step(-1)),
    ArrowRight: (key) => (key.shiftKey ? turn(1) : step(1)),
    Home: () => (play(false), toEvent(0)),
    End: () => (play(false), toEvent(articles.length - 1)),
    "+": () => faster(1),
    "=": () => faster(1),
    "-": () => faster(-1),
    w: () => $("skip").click(),
    a: () => chat.classList.toggle("all"),
    n: () => find(1),
    N: () => find(-1),
    "/": () => $("find").focus(),
    "?": () => $("keys").showModal(),
  };

  addEventListener("keydown", (key) => {
    const typing = key.target === $("find");
    if (key.ctrlKey || key.altKey || key.metaKey || $("keys").open) return;
    if (typing) {
      if (key.key === "Enter") find(key.shiftKey ? -1 : 1);
      if (key.key === "Escape") $("find").blur();
      return;
    }
    const action = KEYS[key.key] ?? (/^[1-9]$/.test(key.key) && (() => toTime((length() * Number(key.key)) / 10)));
    if (!action) return;
    key.preventDefault();
    action(key);
  });

  const BUTTONS = {
    earlier: reachBack,
    first: () => KEYS.Home(),
    back: () => step(-1),
    play: () => play(!playing),
    next: () => step(1),
    last: () => KEYS.End(),
    slower: () => faster(-1),
    faster: () => faster(1),
    quiet: () => KEYS.a(),
    help: () => KEYS["?"](),
  };
  for (const [id, action] of Object.entries(BUTTONS))
    $(id).addEventListener("click", (click) => {
      action();
      if (click.detail) click.currentTarget.blur(); // so that Space plays, and does not press the button again
    });
  $("seek").addEventListener("input", () => toTime(Number($("seek").value)));
  $("seek").addEventListener("change", () => $("seek").blur());
  $("skip").addEventListener("change", measureAgain);
  list.element.addEventListener("scroll", () => list.draw());
  list.rows.addEventListener("click", (click) => {
    const row = click.target.closest(".row");
    if (row) play(false), toEvent(Number(row.dataset.event));
  });
  addEventListener("resize", () => list.draw());
  addEventListener("hashchange", () => toEvent(linked() ?? event));

  function linked() {
    const found = /^#e(\d+)$/.exec(location.hash);
    return found ? Number(found[1]) : null;
  }

  // -- the start: everything is there, and can be read ------------------------------------------------------------

  chat.prepend($("earlier"));
  $("side").hidden = $("transport").hidden = false;
  $("terminal").hidden = !pieces.length;
  $("browser").hidden = !pictures.length;
  document.documentElement.dataset.ready = "";
  list.rows.style.height = `${articles.length * ROW}px`;
  measure();
  toEvent(linked() ?? articles.length - 1);
})();
