// Charts as SVG: stacked areas and lines over time, with an axis, a crosshair and a table of the same
// figures for screen readers. And sparklines.
import {count, element, legend, moment} from "./show.js";

const SVG = "http://www.w3.org/2000/svg";
const LEAST = 300; // a picture is as wide as its box, so that its text keeps its size
const HEIGHT = 180;
const LEFT = 48;
const BOTTOM = 22;
const TOP = 8;
const TABLE_ROWS = 24;

function svg(name, attributes, parent) {
  const e = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    e.setAttribute(key, String(value));
  }
  if (parent) {
    parent.append(e);
  }
  return e;
}

// The next larger of 1, 2, 3 or 5 times a power of ten.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 3, 5, 10].map((n) => n * power).find((n) => n >= value) || value;
}

function short(value) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (value >= size) {
      return Number((value / size).toPrecision(3)) + unit;
    }
  }
  return String(Number(value.toPrecision(3)));
}

function clock(ms, span) {
  const date = new Date(ms);
  if (span < 600e3) {
    return date.toLocaleTimeString();
  }
  return span > 2 * 86400e3 ? date.toLocaleDateString([], {month: "short", day: "numeric"})
    : date.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit"});
}

function axes(root, scale, words) {
  for (let i = 0; i <= 2; i++) {
    const value = scale.top * i / 2;
    const y = scale.y(value);
    svg("line", {x1: LEFT, x2: scale.width, y1: y, y2: y, class: "grid"}, root);
    svg("text", {x: LEFT - 6, y: y + 4, "text-anchor": "end"}, root).textContent = (words || short)(value);
  }
  const ticks = scale.width > 480 ? 4 : 2;
  for (let i = 0; i <= ticks; i++) {
    const ms = scale.from + (scale.to - scale.from) * i / ticks;
    const anchor = i === 0 ? "start" : i === ticks ? "end" : "middle";
    svg("text", {x: scale.x(ms), y: HEIGHT - 6, "text-anchor": anchor}, root).textContent = clock(ms, scale.to - scale.from);
  }
}

function drawAreas(root, chart, scale) {
  let below = chart.times.map(() => 0);
  for (const series of chart.series) {
    const above = series.values.map((value, i) => below[i] + value);
    const line = (values) => values.map((value, i) => scale.x(chart.times[i]).toFixed(1) + " "
      + scale.y(value).toFixed(1));
    const points = [...line(above), ...line(below).reverse()];
    svg("polygon", {points: points.join(" "), class: "area s-" + series.style}, root);
    below = above;
  }
}

function drawLines(root, chart, scale) {
  for (const series of chart.series) {
    const points = series.values.map((value, i) => scale.x(chart.times[i]).toFixed(1) + ","
      + scale.y(value).toFixed(1));
    svg("polyline", {points: points.join(" "), class: "line s-" + series.style}, root);
  }
}

// A line along the top, as long as the mark holds.
function drawMarks(root, chart, scale) {
  const marks = chart.marks || [];
  const half = (scale.width - LEFT) / Math.max(chart.times.length - 1, 1) / 2;
  for (let i = 0, end; i < marks.length; i = end + 1) {
    for (end = i; marks[i] && marks[end + 1]; end++);
    if (marks[i]) {
      svg("line", {x1: Math.max(scale.x(chart.times[i]) - half, LEFT), x2: Math.min(scale.x(chart.times[end]) + half, scale.width),
        y1: TOP, y2: TOP, class: "mark"}, root);
    }
  }
}

function wordsAt(chart, i) {
  return moment(chart.times[i]) + ": " + chart.series.map((series) =>
    series.name + " " + (chart.unit || count)(series.values[i])).join(", ")
    + (chart.marks && chart.marks[i] ? " (" + chart.markName + ")" : "");
}

function tableOf(chart) {
  const details = element("details");
  details.append(element("summary", "", "The same as a table"));
  const table = details.appendChild(element("table"));
  const head = table.createTHead().insertRow();
  for (const name of ["Time", ...chart.series.map((series) => series.name)]) {
    head.appendChild(element("th", name === "Time" ? "" : "n", name)).scope = "col";
  }
  const body = table.createTBody();
  const step = Math.max(1, Math.ceil(chart.times.length / TABLE_ROWS));
  for (let i = chart.times.length - 1; i >= 0; i -= step) {
    const row = body.insertRow();
    row.appendChild(element("th", "", moment(chart.times[i]))).scope = "row";
    for (const series of chart.series) {
      row.append(element("td", "n", (chart.unit || count)(series.values[i])));
    }
  }
  return details;
}

// The crosshair follows the pointer, or the arrow keys when the picture has the focus.
function follow(root, chart, scale, note) {
  const hair = svg("line", {x1: 0, x2: 0, y1: TOP, y2: HEIGHT - BOTTOM, class: "hair", visibility: "hidden"}, root);
  const last = chart.times.length - 1;
  let now = last;
  const show = (i) => {
    now = Math.max(0, Math.min(i, last));
    hair.setAttribute("x1", scale.x(chart.times[now]));
    hair.setAttribute("x2", scale.x(chart.times[now]));
    hair.setAttribute("visibility", "visible");
    note.textContent = wordsAt(chart, now);
  };
  const leave = () => {
    hair.setAttribute("visibility", "hidden");
    now = last;
    note.textContent = wordsAt(chart, last);
  };
  root.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -last, End: last}[event.key];
    if (step !== undefined) {
      event.preventDefault();
      show(now + step);
    }
  });
  root.addEventListener("blur", leave);
  const at = (event) => {
    const box = root.getBoundingClientRect();
    const ms = scale.from + ((event.clientX - box.left) / box.width * scale.width - LEFT)
      / (scale.width - LEFT) * (scale.to - scale.from);
    let best = 0;
    chart.times.forEach((time, i) => {
      best = Math.abs(time - ms) < Math.abs(chart.times[best] - ms) ? i : best;
    });
    show(best);
  };
  root.addEventListener("pointermove", at);
  root.addEventListener("pointerdown", at);
  root.addEventListener("pointerleave", leave);
}

// chart: {title, times, series: [{name, style, values}], stacked, limit, marks, markName, unit}. A picture that somebody
// reads with the pointer or the keys stays as it is.
export function chartShow(box, chart) {
  if (box.firstChild && box.querySelector("svg:hover, svg:focus")) {
    return;
  }
  const figure = element("figure", "chart");
  figure.append(element("figcaption", "", chart.title));
  if (chart.times.length < 2) {
    figure.append(element("p", "dim", "No history yet."));
    box.replaceChildren(figure);
    return;
  }
  const width = Math.max(box.clientWidth - 26, LEAST);
  const root = svg("svg", {viewBox: "0 0 " + width + " " + HEIGHT, role: "img", tabindex: 0}, figure);
  const sums = chart.times.map((time, i) => chart.series.reduce((sum, series) => chart.stacked
    ? sum + series.values[i] : Math.max(sum, series.values[i]), 0));
  const most = Math.max(...sums, 2); // counts have no halves
  // A full pool is full to the top; a tenth of it or less would be a line at the bottom.
  const top = chart.limit >= most && most * 10 > chart.limit ? chart.limit : roundUp(most);
  const scale = {
    top,
    width,
    from: chart.times[0],
    to: chart.times[chart.times.length - 1],
    x: (ms) => LEFT + (width - LEFT) * (ms - scale.from) / Math.max(scale.to - scale.from, 1),
    y: (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top),
  };
  axes(root, scale, chart.unit);
  (chart.stacked ? drawAreas : drawLines)(root, chart, scale);
  drawMarks(root, chart, scale);
  const note = element("p", "dim chart-note", wordsAt(chart, chart.times.length - 1));
  root.setAttribute("aria-label", chart.title + ". Last: " + note.textContent);
  follow(root, chart, scale, note);
  const keys = element("p", "legend");
  legend(keys, [...chart.series.map((series) => [series.style, series.name]),
    ...((chart.marks || []).some((mark) => mark) ? [["mark", chart.markName]] : [])]);
  figure.append(keys, note, tableOf(chart));
  const open = box.querySelector("details[open]") !== null;
  figure.querySelector("details").open = open;
  box.replaceChildren(figure);
}

// A line without text; `most` is the top of its scale.
export function sparkline(values, most, words) {
  const root = svg("svg", {viewBox: "0 0 80 20", class: "spark", role: "img", "aria-label": words,
    preserveAspectRatio: "none"});
  if (values.length > 1) {
    const points = values.map((value, i) => (80 * i / (values.length - 1)).toFixed(1) + ","
      + (19 - 18 * Math.min(value / Math.max(most, 1e-9), 1)).toFixed(1));
    svg("polyline", {points: points.join(" ")}, root);
  }
  return root;
}
