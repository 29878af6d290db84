// Elements and text. Data from the server is not trusted (any client can choose names, holders and
// metadata), so it only ever becomes text, never markup.

export const $ = (id) => document.getElementById(id);

// Shows invisible characters, and those that reverse the direction of text, by their codes: a holder whose name
// contains them must not look like another holder, nor change the text after its name.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function plain(text) {
  return String(text).replace(UNSEEN, (sign) => sign === "\n" ? sign
    : "⟨" + sign.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0") + "⟩");
}

export function element(name, className, text) {
  const e = document.createElement(name);
  if (className) {
    e.className = className;
  }
  if (text !== undefined) {
    e.textContent = plain(text);
  }
  return e;
}

// A name from outside, whose letters go their own way, whatever stands around it.
function isolated(text) {
  return element("bdi", "", text);
}

export function link(text, ...path) {
  const a = element("a");
  a.append(isolated(text));
  a.href = "#/" + path.map(encodeURIComponent).join("/");
  return a;
}

// Sets the text only if it changes: selected text and screen readers are not disturbed.
export function setText(e, text) {
  const shown = plain(text);
  if (e.textContent !== shown) {
    e.textContent = shown;
  }
}

// What a node says: its text and links, and of a time the moment, not how long ago that is.
function meaning(node) {
  return node.nodeType === Node.TEXT_NODE ? node.data : node.dataset && node.dataset.at ? "@" + node.dataset.at
    : [node.getAttribute("href") || "", ...[...node.childNodes].map(meaning)].join("\u001f");
}

// As setText, for text, links and times in a row.
export function setNodes(e, ...nodes) {
  const box = element("span");
  box.append(...nodes.map((node) => node instanceof Node ? node : document.createTextNode(plain(node))));
  const now = meaning(box);
  if (e.meaning !== now || e.childNodes.length === 0) {
    e.meaning = now;
    e.replaceChildren(...box.childNodes);
  }
}

// ---- Pools ----

export const STATES = ["active", "reserved", "offline", "revoking", "cooling"];

// Values in use. The difference of size and free would lose digits of large pools.
export function usedOf(pool) {
  return STATES.reduce((sum, state) => sum + Number(pool[state]), 0);
}

// ---- Numbers as text ----

// The number that a text means in the format of a pool; null: none.
export function numberOf(text, format) {
  const shapes = {dec: /^\d{1,20}$/, hex: /^(0x)?[0-9a-f]{1,16}$/i, mac: /^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i,
    ipv4: /^(\d{1,3}\.){3}\d{1,3}$/};
  if (!shapes[format].test(text)) {
    return null;
  }
  return format === "dec" ? BigInt(text) : format === "ipv4" ? BigInt(text.split(".").reduce((sum, part) => sum * 256 + Number(part), 0))
    : BigInt("0x" + text.replace(/^0x|:/gi, ""));
}

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
  if (seconds === 0) {
    return "0 s";
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

// "in 40 s", with the moment when one points at it; timesTick keeps it true.
export function timeOf(ms) {
  const time = element("time", "", distance(ms));
  const date = new Date(Number(ms));
  time.dateTime = date.toISOString();
  time.title = date.toLocaleString() + " (" + time.dateTime + ")";
  time.dataset.at = String(ms);
  return time;
}

// The same, and the moment beside it.
export function when(ms) {
  if (ms === null || ms === undefined || ms === "" || isNaN(ms)) {
    return "–";
  }
  const both = element("span");
  both.append(timeOf(ms), " ", element("span", "dim moment", moment(ms)));
  return both;
}

// "8:44 PM (in 40 s)": after "since" and "until".
export function momentOf(ms) {
  const both = element("span");
  both.append(moment(ms), " (", timeOf(ms), ")");
  return both;
}

export function timesTick() {
  for (const time of document.querySelectorAll("time[data-at]")) {
    const words = distance(time.dataset.at);
    if (time.firstChild.data !== words) {
      time.firstChild.data = words; // no new nodes, each second
    }
  }
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
    list.children[i].className = whole ? "whole" : "";
    setText(title, name);
    setNodes(data, value);
  });
}

// What colors mean: a color and its name stay together.
export function legend(box, pairs) {
  box.replaceChildren(...pairs.map(([style, name]) => {
    const both = element("span");
    both.append(element("span", "key s-" + style), name);
    return both;
  }));
}

export function legendOf(box, ...more) {
  legend(box, [...STATES, "excluded", ...more].map((state) => [state === "free" ? "available" : state, state]));
}

// Offers the text to the user as a file.
export function save(name, text, type) {
  const a = element("a");
  a.href = URL.createObjectURL(new Blob([text], {type}));
  a.download = name;
  a.click();
  URL.revokeObjectURL(a.href);
}

export function many(nodes) {
  const span = element("span");
  nodes.forEach((node, i) => span.append(i > 0 ? ", " : "", node));
  return span;
}
