// The keyboard, the colours, notices and dialogs. Every action is a link or a form that works without this file.
import { listenToQueue } from "./live.js";
import { drawPlots } from "./plots.js";

const THEMES = { "": "as the system", dark: "dark", light: "light" };
const THEME_COOKIE = "scoregate-theme";
const YEAR_S = 365 * 24 * 3600;
const NOTICE_MS = 12_000;

const $ = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const isShown = (element) => element?.checkVisibility?.() ?? false;

/* ---- colours ---- */

const showTheme = () => {
  const theme = document.documentElement.dataset.theme ?? "";
  for (const name of all("[data-theme-name]")) name.textContent = THEMES[theme];
};

const switchTheme = () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  document.cookie = `${THEME_COOKIE}=${next}; path=/console; max-age=${next ? YEAR_S : 0}; samesite=strict`;
  showTheme();
  document.dispatchEvent(new CustomEvent("scoregate:colours"));
};

/* ---- notices ---- */

export const notify = (text, kind = "info") => {
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.dataset.kind = kind;
  notice.textContent = text;
  $("#notices").append(notice);
  setTimeout(() => notice.remove(), NOTICE_MS);
};

/* ---- moving and acting by keys ---- */

const items = () => all("[data-item]").filter(isShown);

const move = (step) => {
  const rows = items();
  if (!rows.length) return;
  const at = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
};

const act = (key) => {
  const target = all(`[data-key="${CSS.escape(key)}"]`).find(isShown);
  if (!target) return false;
  if (target.matches("input[type=search], input[type=text], textarea")) {
    target.focus();
    target.select();
  } else {
    if (target.matches("input[type=radio]")) target.focus();
    target.click();
  }
  return true;
};

const openSheet = (id) => {
  const sheet = document.getElementById(id);
  if (sheet && !sheet.open) sheet.showModal();
};

const isWriting = (target) =>
  target.closest?.("input:not([type=radio], [type=checkbox], [type=submit]), textarea, select, [contenteditable]");

const closeOpened = () => {
  for (const menu of all("details.menu[open]")) menu.open = false;
  const decision = $("details[data-decision][open]");
  if (!decision) return;
  decision.open = false;
  $("summary", decision).focus();
};

const onKey = (event) => {
  if (event.defaultPrevented || event.isComposing) return;
  const decision = event.target.closest?.("details[data-decision] form");
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && decision) {
    event.preventDefault();
    decision.requestSubmit();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !$("dialog[open]")) closeOpened();
  if (isWriting(event.target) || $("dialog[open]")) return;
  if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  else if (event.key === "Enter" && event.target.matches("input[type=radio]") && decision) decision.requestSubmit();
  else if (event.key === "?") openSheet("keys");
  else if (!/^[a-z0-9/]$/.test(event.key) || !act(event.key)) return;
  event.preventDefault();
};

/* ---- forms that open and close ---- */

const onToggle = (event) => {
  const details = event.target;
  if (!(details instanceof HTMLDetailsElement) || !details.open || !details.matches("[data-decision]")) return;
  const chosen = $("input:checked", details);
  if (chosen) askFor(chosen);
  // The browser tells of an opening late: who is writing by then keeps the keys.
  if (details.contains(document.activeElement) && isWriting(document.activeElement)) return;
  (chosen ?? $("input[type=radio], textarea", details))?.focus();
};

const onClick = (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) openSheet(opener.dataset.opens);
  if (event.target.closest("[data-theme-switch]")) switchTheme();
  const closer = event.target.closest("[data-closes]");
  if (closer) closer.closest("dialog")?.close();
  const row = event.target.closest("tr[data-row]");
  if (row && !event.target.closest("a, button, input, label, summary")) $("[data-item]", row)?.click();
  for (const menu of all("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  const copier = event.target.closest("[data-copies]");
  if (copier) copy(copier);
  const filler = event.target.closest("[data-fills]");
  if (filler) fill(filler);
};

const copy = async (button) => {
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent.trim());
  notify("Copied.");
};

const onChange = (event) => {
  const choice = event.target;
  if (choice.matches?.("select[data-template-for]")) {
    const text = document.getElementById(choice.dataset.templateFor);
    text.value = choice.selectedOptions[0].dataset.text ?? "";
  }
  if (choice.matches?.("[data-sends]")) choice.form.requestSubmit();
  if (choice.matches?.("[data-decision] input[name=code]")) askFor(choice);
};

/** Require what a reason needs, and no more: without scripts no reason is kept from being sent by another's. */
const askFor = (reason) => {
  for (const name of ["note", "message"]) reason.form.elements[name].required = reason.dataset.needs === name;
};

const fill = (button) => {
  const field = document.getElementById(button.dataset.fills);
  field.value = button.dataset.value;
  field.focus();
};

/* ---- the network ---- */

const showConnection = () => {
  const strip = $("#offline");
  if (strip) strip.hidden = navigator.onLine;
};

const onFailure = () => notify("Nothing was sent: the edge does not answer. Your entries are still here; try again.", "bad");

const begin = () => {
  document.documentElement.classList.add("has-script");
  showTheme();
  showConnection();
  document.addEventListener("keydown", onKey);
  document.addEventListener("click", onClick);
  document.addEventListener("change", onChange);
  document.addEventListener("toggle", onToggle, true);
  document.addEventListener("htmx:error", onFailure);
  document.addEventListener("htmx:after:swap", () => drawPlots());
  addEventListener("online", showConnection);
  addEventListener("offline", showConnection);
  drawPlots();
  listenToQueue();
};

begin();
