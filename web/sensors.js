// Sensors: which there are, which run, why, and how they fare; and one of them with its output.
import {button, buttons} from "./act.js";
import {ruleAct, ruleAdd, sensorAct, sensorAdd, sensorDelete} from "./actions.js";
import {get, mayDo, pathOf, tryGet} from "./api.js";
import {showLife} from "./events.js";
import {$, count, duration, element, factsShow, link, momentAndDistance, setText} from "./show.js";

const PAGE = 1000; // as many as are shown
const LOG_KEPT = 65536; // characters

const rows = new Map(); // ref -> its row

function rowMake(ref) {
  const row = element("tr");
  const head = row.appendChild(element("th"));
  head.scope = "row";
  head.append(link(ref, "sensor", ref));
  row.why = head.appendChild(element("div", "why"));
  row.cells_of = {};
  for (const [name, title, figure] of [["state", "state", false], ["trigger", "trigger", false],
    ["rules", "rules", true], ["pid", "process", true], ["uptime", "runs for", true],
    ["starts", "starts", true], ["crashes", "crashes", true]]) {
    const cell = row.appendChild(element("td", figure ? "n" : ""));
    cell.dataset.title = title;
    row.cells_of[name] = cell;
  }
  return row;
}

function stateOf(sensor) {
  const state = sensor.proof === "none" ? sensor.state + ", unproven" : sensor.state;
  return sensor.enabled ? state : state + ", disabled";
}

function isBad(sensor) {
  return sensor.proof === "none" || ["error", "backoff"].includes(sensor.state);
}

// Why it is in the state that it is in, and what helps.
function whyOf(sensor) {
  const said = sensor.last_error || sensor.last_reason || "";
  if (sensor.proof === "none") {
    return "Nothing proves that its last run is dead. Check it, then reset the sensor. " + said;
  }
  if (sensor.state === "error") {
    return "It failed " + count(sensor.failures) + " times in a row and is not tried again until you reset it: " + said;
  }
  if (sensor.state === "backoff") {
    return "It failed and is tried again in " + duration(Number(sensor.next_in_ms) / 1000) + ": " + said;
  }
  return "";
}

function rowShow(row, sensor) {
  const cells = row.cells_of;
  setText(cells.state, stateOf(sensor));
  cells.state.classList.toggle("soon", isBad(sensor));
  setText(row.why, whyOf(sensor));
  setText(cells.trigger, sensor.trigger);
  setText(cells.rules, count(sensor.active_rules));
  setText(cells.pid, sensor.pid ? String(sensor.pid) : "–");
  setText(cells.uptime, Number(sensor.uptime_ms) > 0 ? duration(Number(sensor.uptime_ms) / 1000) : "–");
  setText(cells.starts, count(sensor.starts));
  setText(cells.crashes, count(sensor.crashes));
}

export async function showSensors() {
  const reply = await get("/v1/sensors?count=" + PAGE);
  const seen = new Set();
  for (const sensor of reply.sensors) {
    seen.add(sensor.ref);
    if (!rows.has(sensor.ref)) {
      rows.set(sensor.ref, $("sensors").tBodies[0].appendChild(rowMake(sensor.ref)));
    }
    rowShow(rows.get(sensor.ref), sensor);
  }
  for (const [ref, row] of rows) {
    if (!seen.has(ref)) {
      row.remove();
      rows.delete(ref);
    }
  }
  $("sensors-box").hidden = rows.size === 0;
  buttons($("sensors-act"), [button("Add a sensor …", "admin", sensorAdd),
    button("Add a rule …", "operator", () => ruleAdd(""))]);
  setText($("sensors-note"), rows.size === 0 ? "There are none: see tenure help sensor set"
    : count(rows.size) + (String(reply.cursor) !== "0" ? " shown, there are more" : ""));
}

// ---- One sensor ----

let logOf = "";
let logPosition = "";

async function showLog(ref, still) {
  if (!mayDo("operator")) {
    setText($("sensor-log-note"), "Only operators may read it.");
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
    box.textContent = (box.textContent + page.output).slice(-LOG_KEPT);
    if (atEnd) {
      box.scrollTop = box.scrollHeight;
    }
  }
  setText($("sensor-log-note"), box.textContent === "" ? "No output yet." : "");
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
    item.append(rule.id + (rule.enabled ? " " : " (disabled) "),
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
  factsShow($("sensor-facts"), [
    ["State", stateOf(status)],
    ["Trigger", status.trigger],
    ["Enabled rules", count(status.active_rules)],
    ["Process", status.pid ? String(status.pid) : "–"],
    ["Proof of death by", status.proof || "–"],
    ["Lease", status.lease ? link(status.lease, "lease", status.lease) : "–"],
    ["Runs since", momentAndDistance(status.started)],
    ["Next start in", status.next_in_ms ? duration(Number(status.next_in_ms) / 1000) : "–"],
    ["Starts", count(status.starts)],
    ["Crashes", count(status.crashes)],
    ["Failures in a row", count(status.failures)],
    ["Last exit", exit],
    ["Last reason", status.last_reason || "–"],
    ["Last error", status.last_error || "–", true],
    ...(info && info.spec ? [["Description", element("pre", "", JSON.stringify(info.spec, null, 2)), true]] : []),
  ]);
  buttons($("sensor-act"), [
    button("Restart …", "operator", () => sensorAct(ref, "restart", "The run is stopped and started again, with a new token.")),
    button("Reset …", "operator", () => sensorAct(ref, "reset",
      "Its failures are forgotten and it is tried again at once. If its run is unproven, you confirm that it is dead.")),
    status.enabled ? button("Disable …", "operator", () => sensorAct(ref, "disable", "The run is stopped, and no rule starts it."))
      : button("Enable …", "operator", () => sensorAct(ref, "enable", "Rules start it again.")),
    button("Add a rule …", "operator", () => ruleAdd(status.trigger)),
    button("Delete …", "operator", () => sensorDelete(ref, status)),
  ]);
  showLife("sensor-life", {kind: "sensor.", text: ref}, still);
  await Promise.all([showRules(status.trigger, still), showLog(ref, still)]);
}
