// Plots, each drawn from the table beside it, which everybody can read instead.
const HEIGHT = 190;
const DAY_S = 86_400;
const drawn = new Map();

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Resolve a colour that may differ between dark and light, since a canvas does not know `light-dark()`. */
const resolved = (name) => {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color || colour(name);
};

const columnsOf = (table) => {
  const rows = [...table.tBodies[0].rows];
  const marks = rows.map((row) => row.hasAttribute("data-mark"));
  const columns = [...table.tHead.rows[0].cells].map((_, at) =>
    rows.map((row) => {
      const value = row.cells[at]?.dataset.value;
      return value === undefined || value === "" ? null : Number(value);
    }),
  );
  return { columns, marks };
};

const tick = (value) => (Math.abs(value) >= 10_000 ? Intl.NumberFormat("en", { notation: "compact" }).format(value) : value.toLocaleString("en"));

const axis = (isBelow, label) => ({
  stroke: resolved("--dim"),
  grid: { stroke: resolved("--line"), width: 1 },
  ticks: { stroke: resolved("--line"), width: 1 },
  font: "11px system-ui",
  size: isBelow ? 46 : 54,
  ...(isBelow ? {} : { values: (_, values) => values.map(tick) }),
  ...(label ? { label, labelFont: "11px system-ui", labelSize: 16 } : {}),
});

const series = (kind, label, name) => {
  const stroke = resolved(name);
  if (kind === "bars") {
    return { label, stroke, fill: stroke, width: 0, paths: uPlot.paths.bars({ size: [0.86, 64], align: 1 }), points: { show: false } };
  }
  return { label, stroke, width: 1.6, points: { show: true, size: 5, stroke, fill: stroke } };
};

const MARKED = { stroke: "--shard", size: 11 };

const DAYS = {
  incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((count) => count * DAY_S),
  values: (_, starts) => starts.map((at_s) => new Date(at_s * 1000).toISOString().slice(5, 10)),
};

/** The days of bars, a week of them at least: of a single one uPlot would show three years. */
const weekOf = (days) => [Math.min(days[0], days.at(-1) - 6 * DAY_S), days.at(-1) + DAY_S];

const optionsFor = (figure, table, isTime, days) => {
  const kind = figure.dataset.plot;
  const isOfDays = kind === "bars" && isTime;
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
  const marked = { ...series("line", `${heads[1]} (this run)`, MARKED.stroke), width: 0 };
  marked.points = { show: true, size: MARKED.size, width: 2, stroke: resolved(MARKED.stroke), fill: resolved("--panel") };
  return {
    width: Math.max(200, figure.clientWidth),
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: isTime, ...(isOfDays ? { range: () => weekOf(days) } : {}) }, ...(kind === "bars" ? { y: { range: (_, __, most) => [0, most * 1.08 || 1] } } : {}) },
    ...(isOfDays ? { tzDate: (at_s) => uPlot.tzDate(new Date(at_s * 1000), "Etc/UTC") } : {}),
    axes: [{ ...axis(true, isTime ? "" : heads[0]), ...(isOfDays ? DAYS : {}) }, axis(false)],
    series: [{ label: heads[0] }, series(kind, heads[1], "--spark"), marked],
  };
};

const draw = (figure) => {
  const table = figure.querySelector("table");
  const place = figure.querySelector("[data-canvas]");
  if (!table?.tBodies[0]?.rows.length || !place) return;
  const { columns, marks } = columnsOf(table);
  const isTime = figure.hasAttribute("data-time");
  const data = [columns[0], columns[1], columns[1].map((value, at) => (marks[at] ? value : null))];
  drawn.get(figure)?.destroy();
  drawn.set(figure, new uPlot(optionsFor(figure, table, isTime, columns[0]), data, place));
};

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const plot = drawn.get(target);
    if (plot && Math.abs(plot.width - target.clientWidth) > 1 && target.clientWidth) {
      plot.setSize({ width: target.clientWidth, height: HEIGHT });
    }
  }
});

/** Draw each plot of the page that is not drawn yet. */
export const drawPlots = () => {
  if (!("uPlot" in globalThis)) return;
  for (const figure of drawn.keys()) if (!figure.isConnected) drawn.delete(figure);
  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    if (drawn.has(figure)) continue;
    draw(figure);
    resized.observe(figure);
  }
};

const redraw = () => {
  for (const figure of drawn.keys()) draw(figure);
};

document.addEventListener("scoregate:colours", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
