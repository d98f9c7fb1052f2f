/** Mounts the players and timelines of a page: elements with `data-shows="playback"` or `"timeline"` (see `run.js`). */

import { mountPlayback } from "./playback.js";
import { mountTimeline } from "./timeline.js";

const MOUNTS = { playback: mountPlayback, timeline: mountTimeline };

function mountAll() {
  for (const element of document.querySelectorAll("[data-shows]:not([data-is-mounted])")) {
    element.dataset.isMounted = "";
    MOUNTS[element.dataset.shows]?.(element);
  }
}

mountAll();
document.addEventListener("htmx:after:swap", mountAll);
