// One pool: its figures, history, map, line of waiters and policy.
import {button, buttons} from "./act.js";
import {addMembers, alterPool, dropPool, removeMembers} from "./actions.js";
import {get, pathOf, tryGet} from "./api.js";
import {chartShow} from "./chart.js";
import {barMake, barShow, poolKnown, trouble} from "./pools.js";
import {$, count, duration, element, factsShow, link, momentAndDistance, rate, setText} from "./show.js";

const HISTORY_MS = 30000; // between two looks at the history
const MAP_SPANS = 400;
const WAITERS = 20;

const poolBar = barMake();
$("pool-bar").append(poolBar);

let historyOf = ""; // the pool and step that the charts show
let historyAt = 0;

function numbers(list) {
  return list.map(Number);
}

function chartsShow(history, pool) {
  const times = numbers(history.time);
  const series = (...names) => names.map(([name, style, key]) => ({name, style, values: numbers(history[key || name])}));
  chartShow($("chart-used"), {
    title: "Values by state", times, stacked: true, limit: Math.min(Number(pool.size), 1e15),
    series: series(["active", "active"], ["reserved", "reserved"], ["offline", "offline"],
      ["revoking", "revoking"], ["cooling", "cooling"]),
  });
  chartShow($("chart-flow"), {
    title: history.step === "hour" ? "Each hour" : "Each minute", times,
    series: series(["given", "active"], ["ended", "offline"], ["refused", "revoking"], ["waiting", "cooling"]),
  });
  const adaptive = pool.options.sticky === "yes";
  $("chart-lease").hidden = !adaptive;
  if (adaptive) {
    chartShow($("chart-lease"), {
      title: "Lease of a newcomer", times, unit: duration,
      series: series(["lease", "reserved"]), marks: history.force_zero.map((flag) => Number(flag) === 1),
      markName: "force-zero",
    });
    chartShow($("chart-rate"), {
      title: "Newcomers an hour", times,
      series: [...series(["rate", "active", "rate_per_hour"]),
        ...["high_rate_threshold_per_hour", "ultra_rate_threshold_per_hour"].filter((name) => Number(pool.options[name]) > 0)
          .map((name) => ({name: name.split("_")[0] + " threshold", style: "revoking",
            values: times.map(() => Number(pool.options[name]))}))],
      marks: history.ultra.map((flag) => Number(flag) === 1), markName: "ultra rate",
    });
  }
  $("chart-rate").hidden = !adaptive;
}

async function showHistory(pool, still) {
  const step = $("history-step").value;
  const key = pool.pool + " " + step;
  if (historyOf === key && Date.now() - historyAt < HISTORY_MS) {
    return;
  }
  historyOf = key;
  historyAt = Date.now();
  const history = await tryGet(pathOf("pools", pool.pool, "history") + "?step=" + step);
  if (history && still()) {
    setText($("history-note"), history.kept ? "" : "The server keeps no history of this pool yet.");
    chartsShow(history, pool);
  }
}

// ---- The map: spans of values with their states ----

async function showMap(pool, still) {
  const page = await tryGet(pathOf("pools", pool.pool, "values") + "?count=" + MAP_SPANS);
  if (!still()) {
    return;
  }
  const box = $("pool-map");
  $("map-box").hidden = page === null || page.values.length === 0;
  if (page === null) {
    return;
  }
  const key = page.values.map((span) => span.value + span.state + span.count).join();
  if (box.dataset.key === pool.pool + key) {
    return;
  }
  box.dataset.key = pool.pool + key;
  box.replaceChildren(...page.values.map((span) => {
    const many = Number(span.count) > 1;
    const words = span.value + (many ? "–" + span.last + " (" + count(span.count) + ")" : "") + ": " + span.state
      + (span.holder ? ", " + span.holder : "");
    const cell = many ? element("span", "cell s-" + span.state) : link("", "value", pool.pool, span.value);
    cell.className = "cell s-" + span.state;
    cell.title = words;
    cell.setAttribute("aria-label", words);
    cell.style.flexGrow = String(1 + Math.log2(Number(span.count)));
    if (many) {
      cell.setAttribute("role", "img");
    }
    return cell;
  }));
  setText($("map-note"), page.cursor !== "0" ? "the first " + count(page.values.length) + " spans" : "");
}

// ---- The line of waiters ----

async function showLine(pool, still) {
  const waiting = Number(pool.waiting) > 0
    ? await tryGet("/v1/leases?" + new URLSearchParams({pool: pool.pool, state: "waiting", count: WAITERS})) : null;
  if (!still()) {
    return;
  }
  const leases = waiting === null ? [] : waiting.leases;
  leases.sort((a, b) => Number(a.created) - Number(b.created));
  $("line-box").hidden = leases.length === 0;
  $("line").replaceChildren(...leases.map((lease) => {
    const item = element("li");
    item.append(link(lease.holder, "holder", lease.holder), " since " + momentAndDistance(lease.created));
    return item;
  }));
}

export async function showPool(name, still) {
  const pool = await get(pathOf("pools", name));
  if (!still()) {
    return;
  }
  const known = poolKnown(pool);
  const rates = known.rates;
  const worry = trouble(known, pool);
  poolBar.hidden = false;
  barShow(poolBar, pool);
  setText($("pool-why"), worry.why);
  $("pool-why").className = worry.level === "bad" ? "soon" : worry.level === "warn" ? "warned" : "dim";
  factsShow($("pool-facts"), [
    ["Free", count(pool.free)],
    ["Full in", worry.text],
    ["Given", rates.short > 0 ? rate(rates.given / rates.short) : "–"],
    ["Ended", rates.short > 0 ? rate(rates.ended / rates.short) : "–"],
    ["Waiting", count(pool.waiting)],
    ["Excluded", count(pool.excluded)],
    ["Next free by itself", momentAndDistance(pool.next_free)],
    ...(pool.overdue_since ? [["Counts are older than", momentAndDistance(pool.overdue_since)]] : []),
    ["Lease of a newcomer", Number(pool.effective_lease) > 0 ? duration(Number(pool.effective_lease))
      : pool.options.sticky === "yes" && Number(pool.options.lease) > 0 ? "0 s (force-zero)" : "no end"],
    ["Given in all", count(pool.allocated_total)],
    ...(pool.options.sticky === "yes" ? [["Returned to sticky holders", count(pool.returned_total)]] : []),
    ["Released", count(pool.released_total)],
    ["Expired", count(pool.expired_total)],
    ["Revoked", count(pool.revoked_total)],
    ...(pool.options.scoped === "yes" ? [["Scopes", count(pool.scopes)]] : []),
  ]);
  factsShow($("pool-options"), Object.entries(pool.options).map(([k, v]) => [k, v === "" ? "–" : v]));
  const set = pool.options.kind === "set";
  buttons($("pool-act"), [
    button("Change …", "operator", () => alterPool(pool)),
    set && button("Add members …", "operator", () => addMembers(pool)),
    set && button("Remove members …", "operator", () => removeMembers(pool)),
    button("Drop …", "operator", () => dropPool(pool)),
  ]);
  await Promise.all([showHistory(pool, still), showMap(pool, still), showLine(pool, still)]);
}

// Another pool is shown: nothing of the one before stays.
export function poolForget() {
  historyOf = "";
  $("pool-map").dataset.key = "";
  $("pool-map").replaceChildren();
  $("map-box").hidden = $("line-box").hidden = true;
  poolBar.hidden = true;
  for (const box of ["chart-used", "chart-flow", "chart-lease", "chart-rate"]) {
    $(box).replaceChildren();
  }
}
