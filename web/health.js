// How the server is, from its metrics.
import {get} from "./api.js";
import {$, bytes, count, duration, rate, setText} from "./show.js";

// Samples by name, or by name{labels}, as they are written.
function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const space = line.lastIndexOf(" ");
    if (line !== "" && line[0] !== "#") {
      samples.set(line.slice(0, space), Number(line.slice(space + 1)));
    }
  }
  return samples;
}

let lastCommands = null;

function commandRate(samples) {
  let sum = 0;
  for (const [name, value] of samples) {
    sum += name.startsWith("tenure_server_commands_total{") ? value : 0;
  }
  const now = performance.now();
  const before = lastCommands;
  lastCommands = {sum, now};
  return before && sum >= before.sum && now > before.now
    ? (sum - before.sum) / (now - before.now) * 1000 : null;
}

function sumOf(samples, prefix) {
  let sum = 0;
  for (const [name, value] of samples) {
    sum += name.startsWith(prefix) ? value : 0;
  }
  return sum;
}

export async function showHealth() {
  const samples = parseMetrics(await get("/metrics?pools=no", "text/plain"));
  const value = (name) => samples.get(name);
  const halted = value("tenure_engine_halted") === 1;
  $("halted").hidden = !halted;
  setText($("halted"), halted ? "The engine has halted: storage failed. Nothing is served until the "
    + "server is started again; see its log." : "");
  // A deadline that the log has not recorded for this long: the disk is full, or does not answer.
  const overdue = value("tenure_engine_overdue_seconds") > 5;
  setText($("h-state"), halted ? "halted" : overdue ? "log is late" : "serving");
  const ahead = value("tenure_log_ahead_seconds");
  $("h-ahead-tile").hidden = !(ahead >= 1);
  setText($("h-ahead"), duration(ahead));
  setText($("h-lsn"), count(value("tenure_engine_lsn")));
  setText($("h-sync"), duration(value("tenure_engine_last_sync_seconds")));
  const perSecond = commandRate(samples);
  setText($("h-rate"), perSecond === null ? "–" : rate(perSecond));
  setText($("h-queue"), count(value("tenure_engine_queue_commands")));
  const leases = value('tenure_table_entries{table="leases"}');
  setText($("h-leases"), leases === undefined ? "–" : count(leases));
  setText($("h-clients"), count(sumOf(samples, "tenure_server_connections{")));
  setText($("h-memory"), bytes(value("process_resident_memory_bytes")));
}
