// The queue as it changes: the server says that something did, and htmx reads the rows again. Without the stream
// they are read every so often. A row that has the focus stays where it is until the focus leaves it.
const QUIET_MS = 400;
const POLL_MS = 20_000;

/** Follow the queue if this page shows it. */
export const listenToQueue = () => {
  const queue = document.querySelector("#rows");
  if (!queue) return;
  const label = document.querySelector("[data-live-state]");
  let source = null;
  let readAt = new Date();
  let timer = 0;
  let due = Infinity;

  const isLive = () => source?.readyState === EventSource.OPEN;
  const say = (state, text) => {
    if (label.textContent === text) return;
    label.dataset.state = state;
    label.textContent = text;
  };
  const sayFresh = () => (isLive() ? say("on", "Live") : say("off", `Read every ${POLL_MS / 1000} s`));
  const sayStale = (why) => say("stale", `${why}: as of ${readAt.toLocaleTimeString()}`);

  const readIn = (wait) => {
    if (Date.now() + wait >= due) return;
    clearTimeout(timer);
    due = Date.now() + wait;
    timer = setTimeout(() => {
      due = Infinity;
      htmx.trigger(queue, "queue-changed");
    }, wait);
  };
  const goOn = () => {
    if (isLive()) return;
    if (!source || source.readyState === EventSource.CLOSED) follow();
    readIn(POLL_MS);
  };
  const follow = () => {
    source = new EventSource(queue.dataset.live);
    source.addEventListener("open", sayFresh);
    source.addEventListener("queue", () => readIn(QUIET_MS));
    source.addEventListener("error", () => {
      if (label.dataset.state !== "stale") sayFresh();
      readIn(POLL_MS);
    });
  };
  const focused = () => (queue.contains(document.activeElement) ? document.activeElement.closest("tr") : null);

  queue.addEventListener("htmx:before:swap", (event) => {
    const row = focused();
    const [id] = row ? [...row.querySelectorAll("[data-item]")].map((item) => item.id) : [];
    if (!id || event.detail.tasks.some((task) => task.fragment.querySelector(`#${CSS.escape(id)}`))) return;
    event.preventDefault();
    row.dataset.gone = "";
    sayStale("This case is settled");
    queue.addEventListener("focusout", () => readIn(0), { once: true });
  });
  queue.addEventListener("htmx:after:swap", () => {
    readAt = new Date();
    sayFresh();
    goOn();
  });
  for (const failure of ["htmx:error", "htmx:response:error"]) {
    queue.addEventListener(failure, (event) => {
      event.stopPropagation(); // the page says so here, and not with each attempt
      sayStale("Not read");
      goOn();
    });
  }
  // A browser has few connections for all of its tabs, so one that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source?.close();
    else readIn(0);
  });
  addEventListener("pagehide", () => source?.close());
  follow();
};
