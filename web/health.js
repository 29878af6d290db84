// The health of the server, from its metrics.
import {get, ownerPage, tryGet} from "./api.js";
import {$, bytes, count, duration, element, factsShow, rate, setText, when} from "./show.js";

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
  const sum = sumOf(samples, "tenure_server_commands_total{");
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

// Buckets of a histogram without labels: [[upper bound, count], ...]; the counts are not cumulative.
function buckets(samples, name) {
  const found = [];
  let before = 0;
  for (const [key, value] of samples) {
    const match = key.startsWith(name + "_bucket{") && /le="([^"]+)"/.exec(key);
    if (match) {
      found.push([match[1] === "+Inf" ? Infinity : Number(match[1]), value - before]);
      before = value;
    }
  }
  return found;
}

// From the first to the last bucket that has something.
function histogramShow(table, rows, unit) {
  const most = Math.max(...rows.map(([, n]) => n), 1);
  const filled = rows.map(([, n], i) => n > 0 ? i : -1).filter((i) => i >= 0);
  const shown = filled.length === 0 ? [] : rows.slice(filled[0], filled[filled.length - 1] + 1);
  const body = element("tbody");
  for (const [bound, n] of shown) {
    const row = body.insertRow();
    row.appendChild(element("th", "n", bound === Infinity ? "more" : "≤ " + unit(bound))).scope = "row";
    const cell = row.appendChild(element("td"));
    const bar = cell.appendChild(element("div", "bar"));
    bar.appendChild(element("i", "s-active")).style.width = 100 * n / most + "%";
    row.append(element("td", "n", count(n)));
  }
  if (shown.length === 0) {
    body.insertRow().append(element("td", "dim", "None yet."));
  }
  table.replaceChildren(body);
}

let last = null; // the samples of the last refresh
let reading = null; // the request for them

// The health view: everything that the tiles have no room for.
export async function showHealthView(still) {
  const [nodes] = await Promise.all([tryGet("/v1/cluster/nodes"), reading]);
  if (!still()) {
    return;
  }
  const value = (name) => last.get(name);
  const rows = [
    ["Version", [...last.keys()].filter((key) => key.startsWith("tenure_build_info{")).map((key) =>
      (/version="([^"]*)"/.exec(key) || [])[1]).join() || "–"],
    ["Log position", count(value("tenure_engine_lsn"))],
    ["Commands a batch", value("tenure_engine_batches_total") > 0
      ? (value("tenure_engine_commands_total") / value("tenure_engine_batches_total")).toFixed(1) + ", at most "
        + count(value("tenure_engine_batch_commands_max")) : "–"],
    ["Newest snapshot", value("tenure_snapshot_lsn") > 0 ? when(1000 * value("tenure_snapshot_time_seconds")) : "none yet"],
    ["Its size and position", value("tenure_snapshot_lsn") > 0 ? bytes(value("tenure_snapshot_bytes")) + ", "
      + count(value("tenure_snapshot_lsn")) : "–"],
    ["Snapshots failed", count(value("tenure_snapshots_failed_total"))],
    ["Log since then", bytes(value("tenure_log_bytes_since_snapshot"))],
    ["Log files", bytes(value("tenure_log_bytes"))],
    ["Free on the disk", value("tenure_disk_free_bytes") === undefined ? "–" : bytes(value("tenure_disk_free_bytes"))],
    ["Queue", count(value("tenure_engine_queue_commands"))],
    ["Memory", bytes(value("process_resident_memory_bytes"))],
    ["Memory of clients", bytes(sumOf(last, "tenure_server_client_memory_bytes"))],
    ["Open files", count(value("process_open_fds")) + " of " + count(value("process_max_fds"))],
    ["Connections", count(sumOf(last, "tenure_server_connections{")) + " of " + count(value("tenure_server_connections_limit"))],
    ["Running since", when(1000 * value("process_start_time_seconds"))],
  ];
  const tables = [];
  for (const [key, n] of last) {
    const match = /^tenure_table_entries\{table="([a-z_]+)"\}$/.exec(key);
    if (match) {
      const most = value('tenure_table_entries_limit{table="' + match[1] + '"}');
      tables.push([match[1].replace("_", " "), count(n) + (most ? " of " + count(most) + (n > 0.8 * most ? ": almost full" : "") : "")]);
    }
  }
  factsShow($("health-tables"), tables);
  factsShow($("health-facts"), rows);
  histogramShow($("health-sync"), buckets(last, "tenure_engine_append_duration_seconds"), duration);
  histogramShow($("health-batches"), buckets(last, "tenure_engine_batch_commands"), count);
  const many = nodes !== null && nodes.nodes.length > 1;
  $("health-cluster").hidden = !many;
  if (many) {
    const owner = nodes.nodes.find((node) => node.role === "owner");
    const body = element("tbody");
    for (const node of nodes.nodes) {
      const row = body.insertRow();
      row.appendChild(element("th", "", node.name + (node.self ? " (this one)" : ""))).scope = "row";
      row.append(element("td", "", node.role), element("td", "", node.address), element("td", "n", count(node.lsn)),
        element("td", "n", owner ? count(Math.max(Number(owner.lsn) - Number(node.lsn), 0)) : "–"));
    }
    $("health-nodes").tBodies[0].replaceWith(body);
  }
}

// A follower shows its own state; actions need the owner's page.
async function showFollower(follows) {
  const banner = $("follows");
  const page = follows ? await ownerPage().catch(() => null) : null;
  banner.hidden = !follows;
  const key = String(page);
  if (follows && banner.dataset.key !== key) {
    banner.dataset.key = key;
    banner.replaceChildren("This node follows: what it shows may be a moment old, and it changes nothing. ");
    if (page) {
      const a = banner.appendChild(element("a", "", "Open this view on the owner’s page"));
      a.href = page;
    }
  }
}

export async function showHealth() {
  reading = get("/metrics?pools=no", "text/plain");
  const samples = parseMetrics(await reading);
  last = samples;
  const value = (name) => samples.get(name);
  const halted = value("tenure_engine_halted") === 1;
  await showFollower(value("tenure_owner") === 0);
  $("halted").hidden = !halted;
  setText($("halted"), halted ? "The engine has halted: storage failed. Nothing is served until the "
    + "server is started again. See its log, free space or replace the disk, run tenure check, then start it." : "");
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
