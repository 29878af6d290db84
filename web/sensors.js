// Sensors: which there are, which run, and how they fare.
import {get, pathOf} from "./api.js";
import {$, count, duration, element, setText} from "./show.js";

const PAGE = 100; // as many as are shown: each is asked for its state

const rows = new Map(); // ref -> its row

function rowMake(ref) {
  const row = element("tr");
  const head = row.appendChild(element("th"));
  head.scope = "row";
  setText(head, ref);
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

function rowShow(row, sensor, status) {
  const cells = row.cells_of;
  const state = status.proof === "none" ? status.state + ", unproven" : status.state;
  const words = sensor.enabled ? state : state + ", disabled";
  setText(cells.state, words);
  cells.state.classList.toggle("soon", status.proof === "none" || ["error", "backoff"].includes(status.state));
  cells.state.title = status.last_error || "";
  setText(cells.trigger, sensor.trigger);
  setText(cells.rules, count(sensor.active_rules));
  setText(cells.pid, status.pid ? String(status.pid) : "–");
  setText(cells.uptime, Number(status.uptime_ms) > 0 ? duration(Number(status.uptime_ms) / 1000) : "–");
  setText(cells.starts, count(status.starts));
  setText(cells.crashes, count(status.crashes));
}

export async function showSensors() {
  const reply = await get("/v1/sensors?count=" + PAGE);
  const seen = new Set();
  const states = await Promise.allSettled(
    reply.sensors.map((sensor) => get(pathOf("sensors", sensor.ref, "status"))));
  reply.sensors.forEach((sensor, i) => {
    if (states[i].status === "rejected") {
      return; // deleted meanwhile
    }
    seen.add(sensor.ref);
    if (!rows.has(sensor.ref)) {
      rows.set(sensor.ref, $("sensors").tBodies[0].appendChild(rowMake(sensor.ref)));
    }
    rowShow(rows.get(sensor.ref), sensor, states[i].value);
  });
  for (const [ref, row] of rows) {
    if (!seen.has(ref)) {
      row.remove();
      rows.delete(ref);
    }
  }
  $("sensors-box").hidden = rows.size === 0;
  setText($("sensors-note"), rows.size === 0 ? "There are none: see tenure help sensor set"
    : count(rows.size) + (String(reply.cursor) !== "0" ? " shown, there are more" : ""));
}
