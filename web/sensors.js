// Sensors: the list with states, reasons and health; and the view of one sensor with its output.
import {button, buttons} from "./act.js";
import {ruleAct, ruleAdd, sensorAct, sensorAdd, sensorChange, sensorDelete} from "./actions.js";
import {get, mayDo, mayUse, pathOf, tryGet} from "./api.js";
import {showLife} from "./events.js";
import {$, count, duration, element, factsShow, link, plain, setText, when} from "./show.js";

const PAGE = 1000; // sensors shown, at most
const LOG_KEPT = 65536; // characters

const rows = new Map(); // ref -> its row

function rowMake(ref) {
  const row = element("tr");
  const head = row.appendChild(element("th"));
  head.scope = "row";
  head.append(link(ref, "sensor", ref));
  row.why = head.appendChild(element("div", "why"));
  ["state", "trigger", "rules", "process", "runs for", "starts", "crashes"].forEach((title, i) => {
    row.appendChild(element("td", i > 1 ? "n" : "")).dataset.title = title;
  });
  return row;
}

function stateOf(sensor) {
  const state = sensor.proof === "none" ? sensor.state + ", unproven" : sensor.state;
  return sensor.enabled ? state : state + ", disabled";
}

function isBad(sensor) {
  return sensor.proof === "none" || ["error", "backoff"].includes(sensor.state);
}

// The reason for a sensor's state, and a remedy.
function whyOf(sensor) {
  const said = sensor.last_error || sensor.last_reason || "";
  if (sensor.proof === "none") {
    return "Nothing proves that its last run is dead. Check it, then reset the sensor. " + said;
  }
  if (sensor.state === "error") {
    return "It failed " + (Number(sensor.failures) === 1 ? "once" : count(sensor.failures) + " times in a row") + " and is not tried again until you reset it: " + said;
  }
  if (sensor.state === "backoff") {
    return "It failed and is tried again in " + duration(Number(sensor.next_in_ms) / 1000) + ": " + said;
  }
  if (!sensor.enabled) {
    return "It is disabled: no rule starts it.";
  }
  return sensor.pid || Number(sensor.active_rules) > 0 ? "" : "No enabled rule wants it.";
}

function levelOf(sensor) {
  return isBad(sensor) ? (sensor.state === "backoff" ? "warn" : "bad") : "";
}

function rowShow(row, sensor) {
  [stateOf(sensor), sensor.trigger, count(sensor.active_rules), sensor.pid || "–",
    Number(sensor.uptime_ms) > 0 ? duration(Number(sensor.uptime_ms) / 1000) : "–", count(sensor.starts), count(sensor.crashes)]
    .forEach((text, i) => setText(row.cells[i + 1], text));
  row.cells[1].classList.toggle("soon", isBad(sensor));
  setText(row.why, whyOf(sensor));
  row.dataset.level = levelOf(sensor);
}

export async function showSensors() {
  const reply = await get("/v1/sensors?count=" + PAGE);
  const list = $("sensors").tBodies[0];
  const bad = reply.sensors.filter(isBad);
  const seen = new Set();
  [...bad, ...reply.sensors.filter((sensor) => !isBad(sensor))].forEach((sensor, i) => { // those in trouble come first
    const row = rows.get(sensor.ref) || rowMake(sensor.ref);
    rows.set(sensor.ref, row);
    seen.add(sensor.ref);
    rowShow(row, sensor);
    if (list.rows[i] !== row) {
      list.insertBefore(row, list.rows[i] || null);
    }
  });
  for (const [ref, row] of rows) {
    if (!seen.has(ref)) {
      row.remove();
      rows.delete(ref);
    }
  }
  $("sensors-box").hidden = rows.size === 0;
  const may = mayUse("pools", "sensors");
  buttons($("sensors-act"), may ? [button("Add a sensor …", "admin", sensorAdd),
    button("Add a rule …", "operator", () => ruleAdd(""))] : []);
  $("sensors-empty").hidden = rows.size > 0 || !may;
  setText($("sensors-note"), !may ? "You may not see them." : rows.size === 0 ? "" : count(rows.size) + (bad.length > 0 ? ", " + count(bad.length) + " in trouble" : "") + (String(reply.cursor) !== "0" ? " shown, there are more" : ""));
}

// ---- One sensor ----

let logOf = "";
let logPosition = "";

async function showLog(ref, still) {
  if (!mayDo("operator") || !mayUse("holders", "sensor/" + ref)) {
    setText($("sensor-log-note"), "You may not read it.");
    return;
  }
  if (logOf !== ref) {
    logOf = ref;
    logPosition = "";
    $("sensor-log").replaceChildren();
  }
  const page = await tryGet(pathOf("sensors", ref, "logs") + (logPosition ? "?after=" + logPosition : ""));
  const box = $("sensor-log");
  if (page === null || !still()) {
    setText($("sensor-log-note"), box.textContent === "" ? "No output yet." : "");
    return;
  }
  logPosition = page.next;
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  if (page.output !== "") {
    const output = page.output.replaceAll("\t", "    ").replace(/\x1b\[[0-9;]*m|\r/g, "");
    box.textContent = (box.textContent + plain(output)).slice(-LOG_KEPT);
    if (atEnd) {
      box.scrollTop = box.scrollHeight;
    }
  }
  setText($("sensor-log-note"), box.textContent === "" ? "No output yet."
    : atEnd ? "the newest lines, as they come" : "scroll to the end to follow it");
  if (page.more) {
    await showLog(ref, still);
  }
}

async function showRules(trigger, still) {
  const found = [];
  let cursor = "0";
  for (let i = 0; i < 10; i++) {
    const page = await tryGet("/v1/rules?count=1000&cursor=" + cursor);
    if (page === null) {
      break;
    }
    found.push(...page.rules.filter((rule) => rule.trigger === trigger));
    cursor = String(page.cursor);
    if (cursor === "0") {
      break;
    }
  }
  if (!still()) {
    return;
  }
  setText($("sensor-rules-note"), found.length === 0 ? "No rule wants it: it does not run." : "");
  const key = mayDo("operator") + found.map((rule) => rule.id + rule.enabled).join();
  const list = $("sensor-rules");
  if (list.dataset.key === trigger + key) {
    return;
  }
  list.dataset.key = trigger + key;
  list.replaceChildren(...found.map((rule) => {
    const item = element("li");
    item.append(element("bdi", "", rule.id), rule.enabled ? " " : " (disabled) ",
      ...[button(rule.enabled ? "Disable …" : "Enable …", "operator", () => ruleAct(rule.id, rule.enabled ? "disable" : "enable")),
        button("Delete …", "operator", () => ruleAct(rule.id, "delete"))].filter((e) => e));
    return item;
  }));
}

export async function showSensor(ref, still) {
  const [status, info] = await Promise.all([get(pathOf("sensors", ref, "status")),
    mayDo("operator") ? tryGet(pathOf("sensors", ref)) : null]);
  if (!still()) {
    return;
  }
  const exit = status.last_exit_signal ? "signal " + status.last_exit_signal
    : status.last_exit_code !== null ? "code " + status.last_exit_code : "–";
  setText($("sensor-why"), whyOf(status));
  $("sensor-why").className = {bad: "soon", warn: "warned"}[levelOf(status)] || "dim";
  factsShow($("sensor-facts"), [
    ["State", stateOf(status)],
    ["Trigger", status.trigger],
    ["Enabled rules", count(status.active_rules)],
    ["Process", status.pid ? String(status.pid) : "–"],
    ["Proof of death by", status.proof || "–"],
    ["Lease", status.lease ? link(status.lease, "lease", status.lease) : "–"],
    ["Runs since", when(status.started)],
    ["Next start in", status.next_in_ms ? duration(Number(status.next_in_ms) / 1000) : "–"],
    ["Starts", count(status.starts)],
    ["Crashes", count(status.crashes)],
    ["Failures in a row", count(status.failures)],
    ["Last exit", exit],
    ["Last reason", status.last_reason || "–"],
    ["Last error", status.last_error || "–", true],
    ...(info && info.spec ? [["Description", element("pre", "", JSON.stringify(info.spec, null, 2)), true]] : []),
  ]);
  const wanted = Number(status.active_rules) > 0;
  const may = mayUse("holders", "sensor/" + ref);
  buttons($("sensor-act"), [
    may && !status.enabled && button("Start (enable) …", "operator", () => sensorAct(ref, "enable", wanted
      ? "It is enabled, and started for its " + count(status.active_rules) + " enabled rules."
      : "It is enabled. It runs as soon as an enabled rule wants " + status.trigger + ".")),
    status.enabled && !wanted && button("Start …", "operator", () => ruleAdd(status.trigger, "page." + ref)),
    may && status.enabled && button("Stop (disable) …", "operator", () => sensorAct(ref, "disable",
      (status.pid ? "The run is stopped, and no rule" : "No rule") + " starts it until it is enabled.")),
    may && status.pid && button("Restart …", "operator", () => sensorAct(ref, "restart", "The run is stopped and started again, with a new token.")),
    may && isBad(status) && button("Reset …", "operator", () => sensorAct(ref, "reset",
      "Its failures are forgotten and it is tried again at once. If its run is unproven, you confirm that it is dead.")),
    button("Add a rule …", "operator", () => ruleAdd(status.trigger)),
    info && info.spec && button("Change …", "admin", () => sensorChange(ref, status.trigger, info.spec, !status.enabled)),
    may && button("Delete …", "operator", () => sensorDelete(ref, status)),
  ]);
  showLife("sensor-life", {kind: "sensor.", text: ref}, still, 0, (event) => event.name === ref);
  await Promise.all([showRules(status.trigger, still), showLog(ref, still)]);
}
