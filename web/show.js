// Elements and words. What comes from the server is hostile (names, holders and metadata are
// anybody's), so it only ever becomes text, never markup.

export const $ = (id) => document.getElementById(id);

export function element(name, className, text) {
  const e = document.createElement(name);
  if (className) {
    e.className = className;
  }
  if (text !== undefined) {
    e.textContent = text;
  }
  return e;
}

export function link(text, ...path) {
  const a = element("a", "", text);
  a.href = "#/" + path.map(encodeURIComponent).join("/");
  return a;
}

// Only if it changes: who selects text or uses a screen reader is left in peace.
export function setText(e, text) {
  if (e.textContent !== text) {
    e.textContent = text;
  }
}

// ---- Pools ----

export const STATES = ["active", "reserved", "offline", "revoking", "cooling"];

// Values in use. The difference of size and free would lose digits of large pools.
export function usedOf(pool) {
  return STATES.reduce((sum, state) => sum + Number(pool[state]), 0);
}

// ---- Words for numbers ----

export function count(value) {
  if (Number(value) >= 1e12) {
    const [digits, power] = Number(value).toExponential(2).split("e+");
    return digits + "×10" + power.replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  }
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function duration(seconds) {
  if (!isFinite(seconds)) {
    return "–";
  }
  if (seconds < 0.001) {
    return Math.round(seconds * 1e6) + " µs";
  }
  if (seconds < 1) {
    return (seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  }
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([s]) => seconds >= s);
  const n = seconds / size;
  return (n < 10 && size > 1 ? n.toFixed(1) : Math.round(n)) + " " + unit;
}

export function rate(perSecond) {
  if (perSecond >= 100) {
    return count(Math.round(perSecond)) + "/s";
  }
  if (perSecond >= 1) {
    return perSecond.toFixed(1) + "/s";
  }
  return perSecond * 60 >= 0.1 ? (perSecond * 60).toFixed(1) + "/min" : "0";
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) {
    n /= 1024;
  }
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

export function moment(ms) {
  const date = new Date(Number(ms));
  const today = new Date().toDateString() === date.toDateString();
  return today ? date.toLocaleTimeString() : date.toLocaleString();
}

// "in 40 s", "12 s ago"
function distance(ms) {
  const seconds = (Number(ms) - Date.now()) / 1000;
  return seconds >= 0 ? "in " + duration(Math.max(seconds, 1)) : duration(Math.max(-seconds, 1)) + " ago";
}

export function momentAndDistance(ms) {
  return ms === null || ms === undefined || ms === "" || isNaN(ms) ? "–" : moment(ms) + " (" + distance(ms) + ")";
}

// "ports/1, 2, gpus/a and 3 more": the pool only where it changes; `total` may be more than are known.
export function valuesText(values, pools, most, total) {
  const words = values.slice(0, most).map((value, i) =>
    i > 0 && pools[i] === pools[i - 1] ? value : pools[i] + "/" + value);
  const left = total - words.length;
  return words.join(", ") + (left > 0 ? " and " + count(left) + " more" : "");
}

// ---- Facts: a list of names and values ----

export function factsShow(list, rows) {
  while (list.children.length < rows.length) {
    const pair = element("div");
    pair.append(element("dt"), element("dd"));
    list.append(pair);
  }
  while (list.children.length > rows.length) {
    list.lastChild.remove();
  }
  rows.forEach(([name, value, whole], i) => {
    const [title, data] = list.children[i].children;
    const node = value instanceof Node ? value : document.createTextNode(String(value));
    list.children[i].className = whole ? "whole" : "";
    setText(title, name);
    if (data.textContent !== node.textContent || data.childNodes.length === 0) {
      data.replaceChildren(node);
    }
  });
}

export function many(nodes) {
  const span = element("span");
  nodes.forEach((node, i) => span.append(i > 0 ? ", " : "", node));
  return span;
}
