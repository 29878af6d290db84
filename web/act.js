// Actions: a dialog that describes the action and shows the equivalent command, then the result.
import {loginName, mayDo, send} from "./api.js";
import {$, element, link, plain, setText} from "./show.js";

let action = null; // the action that the dialog asks about
let sent = {request: "", key: ""}; // the last request without an answer: a repeat uses its key
let after = () => {};

// `call` is called after an action, to show its result.
export function whenDone(call) {
  after = call;
}

// What cannot be seen is written as an escape of the shell.
function quoted(word) {
  if (plain(word) !== word || word.includes("\n")) {
    return "$'" + word.replace(/[\\']/g, "\\$&").replaceAll("\n", "\\n").replace(/[^\x20-\x7e]/gu, (sign) =>
      plain(sign) === sign ? sign : "\\u" + sign.charCodeAt(0).toString(16).padStart(4, "0")) + "'";
  }
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}

export function shell(words) {
  return words.map((word) => quoted(String(word))).join(" ");
}

function curlOf({method, path, body}) {
  const name = loginName();
  const words = ["curl", ...(name ? ["-u", name] : []), "-X", method, location.origin + path];
  return shell(body === undefined ? words : [...words, "--json", JSON.stringify(body)]);
}

function values() {
  const found = {};
  for (const field of action.fields || []) {
    const input = $("act-" + field.name);
    found[field.name] = field.type === "checkbox" ? input.checked : input.value.trim();
    if (field.only && !field.only(found)) { // it depends on the fields before it
      found[field.name] = field.type === "checkbox" ? false : "";
    }
  }
  return found;
}

function explain() {
  const given = values();
  for (const field of action.fields || []) {
    const input = $("act-" + field.name);
    input.parentElement.hidden = Boolean(field.only && !field.only(given));
    input.disabled = input.parentElement.hidden;
  }
  setText($("act-what"), action.what(given));
  const lines = [shell(["tenure", ...action.command(given)])];
  lines.push(curlOf(action.request(given)));
  setText($("act-command"), lines.join("\n"));
}

function fieldMake(field) {
  const row = element("p", "field");
  const label = row.appendChild(element("label", "", field.label));
  label.htmlFor = "act-" + field.name;
  const input = row.appendChild(element(field.options ? "select" : field.type === "textarea" ? "textarea" : "input"));
  input.id = "act-" + field.name;
  if (field.options) {
    for (const option of field.options) {
      input.append(element("option", "", option));
    }
  } else {
    if (field.type !== "textarea") {
      input.type = field.type || "text";
    }
    input.autocomplete = "off";
  }
  if (field.type === "checkbox") {
    input.checked = Boolean(field.value);
  } else {
    input.value = field.value || (field.options ? field.options[0] : "");
    input.required = Boolean(field.required);
    input.placeholder = field.hint || "";
  }
  input.addEventListener("input", explain);
  return row;
}

// {title, what(values), command(values), request(values), fields, danger}
export function act(wanted) {
  action = wanted;
  setText($("act-title"), wanted.title);
  setText($("act-result"), "");
  $("act-result").className = "";
  $("act-fields").replaceChildren(...(wanted.fields || []).map(fieldMake));
  $("act-go").hidden = false;
  $("act-go").disabled = false;
  setText($("act-go"), wanted.title);
  setText($("act-cancel"), "Cancel");
  $("act-go").classList.toggle("danger", Boolean(wanted.danger));
  explain();
  $("act").showModal();
}

// The key of a request: a repeat after a missing answer has the same key, any other request a new one.
function keyOf(request) {
  const text = JSON.stringify(request);
  if (sent.request !== text) {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    sent = {request: text, key: "page-" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")};
  }
  return sent.key;
}

function refusalShow(error) {
  const result = $("act-result");
  setText(result, error.status === undefined ? "The server does not answer. It may have happened: repeating it is safe."
    : (error.result ? error.result + ": " : "") + error.message);
  if (error.link) {
    const a = result.appendChild(element("a", "", " Go to the same view on its page."));
    a.href = error.link;
  }
  result.className = "soon";
}

async function go(event) {
  event.preventDefault();
  if ($("act-go").disabled) {
    return;
  }
  $("act-go").disabled = true;
  try {
    const {method, path, body} = action.request(values());
    const reply = await send(method, path, body, keyOf([method, path, body]));
    sent = {request: "", key: ""};
    setText($("act-result"), "Done" + (reply.lsn ? ", at log position " + reply.lsn : "")
      + (reply.result && reply.result !== "OK" ? " (" + reply.result + ")" : "") + ".");
    if (action.then) {
      const [words, ...path] = action.then(values());
      $("act-result").append(" ", link(words, ...path));
    }
    $("act-result").className = "good";
    $("act-go").hidden = true;
    setText($("act-cancel"), "Close");
    $("act-cancel").focus();
    after();
  } catch (error) {
    if (error.status !== undefined && error.status < 500) {
      sent = {request: "", key: ""};
    }
    refusalShow(error);
    $("act-go").disabled = false;
  }
}

export function actStart() {
  $("act-form").addEventListener("submit", go);
  $("act-cancel").addEventListener("click", () => $("act").close());
  addEventListener("hashchange", () => $("act").close());
}

// A button, or null for users who may not use it. The server checks again.
export function button(text, role, wanted) {
  if (!mayDo(role)) {
    return null;
  }
  const e = element("button", "", text);
  e.type = "button";
  e.wanted = wanted;
  e.addEventListener("click", async () => {
    const of = location.hash;
    const asked = e.wanted(); // some ask the server first
    const found = asked instanceof Promise ? await asked : asked;
    if (of === location.hash && !document.querySelector("dialog[open]")) {
      act(found);
    }
  });
  return e;
}

// Puts the buttons of a view into their place. Existing buttons stay, and act on what is shown now.
export function buttons(box, list) {
  const there = list.filter((e) => e);
  const key = there.map((e) => e.textContent).join("|");
  if (box.dataset.key !== key) {
    box.dataset.key = key;
    box.replaceChildren(...there);
  } else {
    there.forEach((e, i) => {
      box.children[i].wanted = e.wanted;
    });
  }
}
