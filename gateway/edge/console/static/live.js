// The queue as it changes: the server says that something did, and htmx reads the rows again.
const QUIET_MS = 400;

/** Follow the queue if this page shows it. */
export const listenToQueue = (notify) => {
  const queue = document.querySelector("#rows");
  if (!queue) return;
  keepFocus(queue);
  if (!queue.dataset.live || !("EventSource" in globalThis)) return;
  const state = document.querySelector("[data-live-state]");
  const source = new EventSource(queue.dataset.live);
  let waiting = 0;
  const say = (name, text) => {
    if (!state) return;
    state.dataset.state = name;
    state.textContent = text;
  };
  const refresh = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => htmx.trigger(queue, "queue-changed"), QUIET_MS);
  };
  source.addEventListener("open", () => say("on", "Live"));
  source.addEventListener("queue", refresh);
  source.addEventListener("error", () => {
    say("off", source.readyState === EventSource.CLOSED ? "Not live" : "Connecting");
    if (source.readyState === EventSource.CLOSED) notify("The queue is not live any more; reload the page to see changes.", "bad");
  });
  addEventListener("pagehide", () => source.close());
};

/** Give the focus back to the row that had it, when its rows were read again. */
const keepFocus = (queue) => {
  let kept = null;
  document.addEventListener("htmx:before:swap", () => {
    kept = queue.contains(document.activeElement) ? document.activeElement.id : null;
  });
  document.addEventListener("htmx:after:swap", () => {
    if (kept) document.getElementById(kept)?.focus();
    kept = null;
  });
};
