// An operator at the page: a real browser with a real pointer and keyboard, against a real server.
//
//   node operator_test.mjs NODE_MODULES CHROMIUM ORIGIN TURN [NAME SECRET [WORDS]]
//
// TURN is one of the functions at the end. Any error on the console, any exception and any violation of the policy
// fail it.
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {resolve} from "node:path";

const [modules, chromium, origin, turn, name, secret, ...given] = process.argv.slice(2);
const playwright = createRequire(resolve(modules, "x.js"))("playwright-core");

const PATIENCE_MS = Number(process.env.OPERATOR_PATIENCE_MS || 120000);
const complaints = [];

function watch(page) {
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("pageerror", (error) => complaints.push(String(error.stack)));
  page.on("console", (message) => {
    // An answer other than 200 is no complaint: the turns bring them about.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) {
      complaints.push(message.text());
    }
  });
}

// Waits until the element that is to be seen has the text.
async function see(page, selector, text) {
  await page.locator(selector).filter({hasText: text, visible: true}).first().waitFor().catch(async (error) => {
    const shown = await page.locator(selector).allInnerTexts();
    throw new Error(`no ${text} in ${selector}: ${JSON.stringify(shown).slice(0, 600)}\n${error.message.split("\n")[0]}`);
  });
}

const become = (page, script, ...given) => page.waitForFunction(script, ...given);

async function open(page, view) {
  await page.goto("about:blank");
  await page.goto(origin + "/" + view);
}

async function logIn(page, who, word) {
  await page.locator("#login[open]").waitFor();
  await page.fill("#login-name", who);
  await page.fill("#login-secret", word);
  await page.keyboard.press("Enter");
}

// Waits until the page has asked the server n times from now on.
async function refreshes(page, n) {
  const before = await page.evaluate(() => Number(document.body.dataset.refreshed || 0));
  await become(page, (least) => Number(document.body.dataset.refreshed) >= least, before + n);
}

// Opens a view and waits until it shows what the server said. A page that becomes visible asks at once; events
// come by a stream of their own, so a view with events is given the time of two regular questions.
async function visit(page, view) {
  await page.evaluate((hash) => { location.hash = hash; }, view);
  if (view === "#/" || view.startsWith("#/events")) {
    return refreshes(page, 2);
  }
  for (let i = 0; i < 2; i++) {
    const asked = refreshes(page, 1);
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await asked;
  }
}

// Presses a button of the view, fills in the dialog and confirms: the dialog's sentence, commands and result.
async function act(page, button, fields, confirmed = "Done, at log position") {
  await page.getByRole("button", {name: button, exact: true}).first().click();
  for (const [field, value] of Object.entries(fields)) {
    const input = page.locator("#act-" + field);
    if (value === true) {
      await input.check();
    } else if (await input.evaluate((e) => e.tagName === "SELECT")) {
      await input.selectOption(value);
    } else {
      await input.fill(value);
    }
  }
  const what = await page.innerText("#act-what");
  const [command, curl] = (await page.innerText("#act-command")).split("\n");
  await page.click("#act-go");
  await see(page, "#act-result", confirmed);
  const result = await page.innerText("#act-result");
  await page.keyboard.press("Escape");
  await page.locator("#act[open]").waitFor({state: "detached"});
  return {what, command, curl, result};
}

const turns = {
  // Sorting by every column with the pointer, colors, the parts of the bar, folding with the keyboard.
  async pools(page) {
    await page.clock.install();
    await page.route(/\/history\?count=60/, (route) => route.fulfill({json: {peak: ["1", "2", "9"], given: ["0", "7", "0"]}}));
    await open(page, "#/");
    await see(page, "#pools", "growing");
    await page.locator("#pools tr:has-text('growing') .spark polyline").nth(1).waitFor({state: "attached"});
    assert.deepEqual(await page.locator("#pools tr:has-text('growing') .spark polyline").evaluateAll((all) =>
      all.map((e) => e.getAttribute("points"))), ["0.0,18.8 40.0,18.6 80.0,17.4", "0.0,19.0 40.0,1.0 80.0,19.0"]);
    for (let i = 0; i < 2; i++) { // it grows by 45 in a minute
      await page.evaluate(() => fetch("/v1/pools/growing/leases", {method: "POST", headers: {"Content-Type": "application/json"},
        body: JSON.stringify({holder: "more", count: 22})}));
      const asked = refreshes(page, 1);
      await page.clock.fastForward(30000);
      await asked;
    }
    await see(page, "#pools tr[data-level=bad]", /growing\s*Full in [\d.]+ min at the rate of the last 3 minutes\./);
    const names = () => page.locator("#pools tbody tr th a").allInnerTexts();
    await see(page, "#pools tr[data-level=bad]", "Nothing is free, and one waits.");
    await see(page, "#pools tr[data-level=warn]", "92 % are in use.");
    assert.deepEqual((await names()).slice(0, 2), ["full", "almost"]);
    const parts = await page.locator("#pools tr", {hasText: "mixed"}).locator(".bar i").evaluateAll((all) =>
      Object.fromEntries(all.map((e) => [e.className, e.getBoundingClientRect().width])));
    for (const state of ["active", "reserved", "revoking", "cooling", "excluded"]) {
      assert(parts["s-" + state] > 0, state + " has no part of the bar");
    }
    const line = page.locator("#pools tr", {hasText: "Nothing is free"}).locator("i.s-waiting");
    assert(await line.evaluate((e) => e.getBoundingClientRect().width) > 5, "the line has no part");
    for (const key of ["name", "full", "hour", "free", "waiting", "given", "ended", "soon"]) {
      await page.click(`#pools th[data-sort=${key}] button`);
      const first = await page.getAttribute(`#pools th[data-sort=${key}]`, "aria-sort");
      await page.click(`#pools th[data-sort=${key}] button`);
      const second = await page.getAttribute(`#pools th[data-sort=${key}]`, "aria-sort");
      assert.deepEqual([first, second].sort(), ["ascending", "descending"], key);
    }
    await page.click("#pools th[data-sort=waiting] button");
    await become(page, () => document.querySelector("#pools tbody th a").textContent === "full");
    await page.click("#pools th[data-sort=name] button");
    const folded = await names();
    assert.deepEqual(folded, [...folded].sort());
    await page.locator("button.fold:visible").focus();
    await page.keyboard.press("Enter");
    await see(page, "#pools tr.scope", "nets@blue");
    await see(page, "#pools tr", "3 active"); // the sums of the scopes
    await page.keyboard.press("Enter");
    await page.locator("#pools tr.scope").first().waitFor({state: "detached"});
  },

  // Charts with a crosshair for pointer and keys, the history as a file, the map by pages, the line.
  async pool(page) {
    const times = Array.from({length: 60}, (_, i) => 1794842640000 + 60000 * i);
    const series = (value) => times.map((_, i) => String(value(i)));
    await page.route(/\/history\?/, (route) => route.fulfill({json: {pool: "kept", step: "minute", kept: true, time: times.map(String),
      size: series(() => 900), reserved: series(() => 0), active: series((i) => 10 * i), offline: series(() => 5),
      revoking: series(() => 0), cooling: series(() => 0), waiting: series(() => 0), peak: series((i) => 10 * i), given: series(() => 10),
      ended: series(() => 0), refused: series(() => 0), lease: series((i) => i < 40 ? 2592000 : 0), rate_per_hour: series((i) => 5 * i),
      ultra: series((i) => Number(i >= 36)), force_zero: series((i) => Number(i >= 40))}}));
    await open(page, "#/pool/kept");
    await see(page, "#chart-used .chart-note", "active 590");
    await see(page, "#chart-rate .legend", "ultra threshold");
    await see(page, "#chart-lease .legend", "force-zero");
    await see(page, "#chart-lease svg text", "15 d"); // half of the axis, as a duration
    for (const id of ["used", "flow", "rate", "lease"]) { // the words of an axis have their size
      const size = await page.locator(`#chart-${id} svg`).evaluate((e) => e.getBoundingClientRect().width / e.viewBox.baseVal.width);
      assert(Math.abs(size - 1) < 0.05, `${id} is drawn ${size} times as large`);
    }
    const marks = page.locator("#chart-lease .mark");
    assert.equal(await marks.count(), 1);
    const chart = page.locator("#chart-used svg");
    const box = await chart.boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const pointed = await page.innerText("#chart-used .chart-note");
    assert.notEqual(pointed.match(/active (\d+)/)[1], "590");
    assert.equal(await page.getAttribute("#chart-used .hair", "visibility"), "visible");
    await refreshes(page, 2);
    assert.equal(await page.innerText("#chart-used .chart-note"), pointed); // a look at the server does not take it away
    await page.mouse.move(0, 0);
    await chart.focus();
    await page.keyboard.press("ArrowLeft");
    await see(page, "#chart-used .chart-note", "active 580");
    await page.keyboard.press("Home");
    await see(page, "#chart-used .chart-note", "active 0");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("#history-save")]);
    assert.equal(JSON.parse(readFileSync(await download.path(), "utf8")).time.length, 60);
    await page.locator("#chart-used summary").click();
    assert.equal(await page.locator("#chart-used tbody tr:visible").count(), 20);

    await page.unroute(/\/history\?/);
    await open(page, "#/pool/scattered");
    await see(page, "#map-note", "from 1 to 400");
    await page.getByRole("button", {name: "Higher values"}).click();
    await see(page, "#map-note", "from 401 to 800");
    await page.getByRole("button", {name: "Lower values"}).click();
    await see(page, "#map-note", "from 1 to 400");
    await page.locator("#pool-map a").first().click();
    await see(page, "#t-value", "scattered/1");
    await page.goBack();
    await see(page, "#t-pool", "scattered");

    await open(page, "#/pool/full");
    await see(page, "#line li", "patient has waited since");
    await page.locator("#line a").first().click();
    await see(page, "#t-holder", "patient");
    await open(page, "#/pool/no-such-pool");
    await see(page, "#pool-why", "no such pool");
    assert.equal(await page.locator("#pool-body").isVisible(), false);
  },

  // A value, a lease and a holder tell what happened; times tick, and hostile names stay names.
  async lives(page) {
    await open(page, "#/value/full/1");
    await see(page, "#value-note", /Held by owner since .+ \(.+ ago\), without an end\./);
    await page.locator("#value-note time[title]").first().waitFor();
    const before = await page.innerText("#value-note time");
    await become(page, (text) => document.querySelector("#value-note time").innerText !== text, before);
    await see(page, "#value-life", "lease.active");
    await page.locator("#value-note a").click();
    await see(page, "#t-holder", "owner");
    await see(page, "#holder-note", "1 live lease of 4 values.");
    await open(page, "#/value/mixed/5");
    await see(page, "#value-note", "It is free, last held by leaver, until");
    await open(page, "#/value/churned/1"); // two events of each of 150 leases: its whole history, in parts
    await page.getByRole("button", {name: "Older events"}).click();
    await become(page, () => document.querySelectorAll("#value-life li").length === 300);
    await open(page, "#/value/almost/1");
    await page.locator("#value-facts a", {hasText: "-"}).click();
    await become(page, () => document.querySelectorAll("#lease-facts a[href^='#/value/']").length === 92); // all its values

    const evil = "\u202egnp.exe";
    await open(page, "#/holder/" + encodeURIComponent(evil));
    await see(page, "#t-holder", "⟨202E⟩gnp.exe");
    await see(page, "#holder-life", "⟨202E⟩gnp.exe");
    await page.locator("#view-holder .leases th a").click();
    await see(page, "#lease-facts", "⟨202E⟩gnp.exe");
    await see(page, "#lease-facts", "\\u0007"); // in its metadata
    assert.equal(await page.evaluate(() => /[\u202e\u0007]/.test(document.body.innerText)), false);
    await page.getByRole("button", {name: "Give to another holder …"}).click();
    await page.fill("#act-holder", "a\u202eb'c");
    assert.match(await page.innerText("#act-command"), /\$'a\\u202eb\\'c'/); // to be pasted, and to be seen
    await page.keyboard.press("Escape");
    await open(page, "#/holder/many");
    await see(page, "#holder-note", "more than 50 live leases");
    await page.getByRole("button", {name: "More leases"}).click();
    await see(page, "#holder-note", "60 live leases of 60 values.");
  },

  // Only with the keyboard: /, words, arrows, Enter; and what is found.
  async search(page) {
    await open(page, "#/");
    await see(page, "#pools", "addresses");
    for (const [text, found] of [["mixed/5", "value, free; last held by leaver until"], ["mixed/29", "value, free; not held before"],
      ["full/1", "value, active, owner"], ["10.0.0.7", "addresses/10.0.0.7"], ["own", "owner holder"], ["ALMO", "almost pool"],
      ["gpu-2", "gpus/gpu-2"], ["zzz", "Nothing begins with this"]]) {
      await page.keyboard.press("Escape");
      await page.locator("#main").focus();
      await page.keyboard.press("/");
      await page.keyboard.press("Control+A");
      await page.keyboard.type(text);
      await see(page, "#found", found);
    }
    await page.keyboard.press("Control+A");
    await page.keyboard.type("mixed/5");
    await see(page, "#found", "mixed/5");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await see(page, "#t-value", "mixed/5");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.keyboard.press("?");
    await see(page, "#help", "walk through");
    await page.keyboard.press("Escape");
    await page.keyboard.press("p");
    await see(page, "#pools", "almost");
    await page.keyboard.press("ArrowDown"); // no row has the focus yet: it scrolls
    await page.keyboard.press("j");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator("#view-pool:visible").waitFor();
    await page.goBack();
    await page.locator("#view-pools:visible").waitFor();
  },

  // Filters in the address, a pause without loss, the view as a file, the way back.
  async events(page) {
    await open(page, "#/events?pool=told&kind=lease.active");
    await see(page, "#event-filtered", "Filter (2)");
    await see(page, "#events", "told/1");
    assert.equal(await page.locator("#events", {hasText: "pool.created"}).count(), 0);
    await page.fill("#event-holder", "second");
    await page.keyboard.press("Tab");
    await become(page, () => location.hash.includes("holder=second"));
    await become(page, () => document.querySelectorAll("#events li").length === 1);
    await page.reload();
    await become(page, () => document.querySelectorAll("#events li").length === 1);
    assert.equal(await page.inputValue("#event-holder"), "second");
    await page.locator("#events a", {hasText: "told/2"}).click();
    await see(page, "#t-value", "told/2");
    await page.goBack();
    await become(page, () => document.querySelectorAll("#events li").length === 1);
    assert.equal(await page.inputValue("#event-holder"), "second");
    await page.getByRole("link", {name: "Events", exact: true}).click();
    await see(page, "#event-filtered", /^Filter$/);
    await see(page, "#events", "lease.waiting");
    await see(page, "#event-note", "live");
    await page.getByRole("button", {name: "Pause"}).click();
    await see(page, "#event-note", "paused");
    const alloc = (holder) => page.evaluate((h) => fetch("/v1/pools/told/leases", {method: "POST", headers: {
      "Content-Type": "application/json"}, body: JSON.stringify({holder: h})}).then((r) => r.status), holder);
    for (let i = 0; i < 20; i++) {
      assert.equal(await alloc("while-paused-" + i), 201);
    }
    assert.equal((await page.innerText("#events")).includes("while-paused"), false);
    await page.getByRole("button", {name: "Resume"}).click();
    await become(page, () => Array.from({length: 20}, (_, i) => i).every((i) =>
      [...document.querySelectorAll("#events a")].some((a) => a.textContent === "while-paused-" + i)));
    const shown = await page.locator("#events li").count();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", {name: "Export as JSON lines"}).click()]);
    const lines = readFileSync(await download.path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(lines.length, shown);
    assert.deepEqual(lines.map((event) => Number(event.id.split(".")[0])), lines.map((event) => Number(event.id.split(".")[0])).sort((a, b) => a - b));
    await page.fill("#event-time", "2020-01-01T00:00:00");
    await see(page, "#event-note", "paused");
    await see(page, "#events li:last-child", "pool.created");
  },

  async health(page) {
    await open(page, "#/health");
    await become(page, () => document.body.dataset.refreshed === "1");
    assert(await page.locator("#health-facts div").count() > 10); // at once
    await page.locator("#health-facts div", {hasText: "Newest snapshot"}).locator("time").waitFor();
    await see(page, "#health-facts div:has-text('Free on the disk')", "iB");
    await see(page, "#health-sync", "≤");
    await see(page, "#health-batches", "≤ 1");
    await see(page, "#health-tables", "leases");
    assert.equal(await page.locator("#health-cluster").isVisible(), false);
  },

  // All that an administrator can do; returns what the dialogs said.
  async acts(page) {
    await open(page, "#/");
    await logIn(page, name, secret);
    const made = await act(page, "Create a pool …", {pool: "made", kind: "IPv4 addresses", first: "10.9.0.1", last: "10.9.0.9",
      lease: "1h", exclude: "10.9.0.3", reason: "a new rack"});
    assert.match(made.what, /A pool made of the values 10\.9\.0\.1 to 10\.9\.0\.9, 9 in all, is made/);
    await act(page, "Create a pool …", {pool: "crew", kind: "named members (a set)"});
    await open(page, "#/pool/crew");
    assert.match((await act(page, "Add members …", {members: "ann bob eve"})).what, /3 members join/);
    await act(page, "Remove members …", {members: "eve"});
    await become(page, () => document.getElementById("pool-bar").innerText.includes("of 2"));
    await open(page, "#/pool/made");
    const altered = await act(page, "Change …", {range: "10.9.0.1-10.9.0.20", lease: "1200", strategy: "coldest"});
    assert.match(altered.what, /lease becomes 1200, it was 3600/);
    await see(page, "#pool-bar", "of 19");

    const post = (path, body) => page.evaluate(async ([at, sent]) => {
      const reply = await fetch(at, {method: "POST", headers: {"Content-Type": "application/json",
        Authorization: sessionStorage.getItem("tenure-credentials")}, body: JSON.stringify(sent)});
      return reply.json();
    }, [path, body]);
    const lease = async (holder) => (await post("/v1/pools/made/leases", {holder})).lease;
    const [first, second] = [await lease("one"), await lease("two")];
    await open(page, "#/lease/" + first);
    assert.match((await act(page, "Give to another holder …", {holder: "three", reason: "moved"})).what, /three holds its value/);
    await see(page, "#lease-facts", "three");
    assert.match((await act(page, "Revoke …", {after: "30m", reason: "maintenance"})).what, /free after 30m/);
    await see(page, "#lease-life", "maintenance");
    await see(page, "#lease-facts", "It is revoked: its values are free at this moment");
    await act(page, "Reclaim …", {reason: "it is off"});
    await see(page, "#lease-facts", "Ended");
    await open(page, "#/value/made/10.9.0.2");
    await act(page, "Release …", {reason: "done"});
    await see(page, "#value-note", "last held by two");
    await lease("leaver");
    await lease("leaver");
    await open(page, "#/holder/leaver");
    await see(page, "#holder-note", "2 live leases of 2 values");
    assert.match((await act(page, "Disown …", {}, "Done")).what, /All leases of leaver, 2 live leases/);
    await see(page, "#holder-note", "It holds nothing now.");
    assert(second);

    await open(page, "#/sensors");
    await see(page, "#sensors-empty", "No sensors yet");
    await act(page, "Add a sensor …", {ref: "clock", trigger: "tick", program: "/bin/sleep 100000"});
    await page.getByRole("link", {name: "clock"}).click();
    await see(page, "#sensor-why", "No enabled rule wants it.");
    await act(page, "Start …", {});
    await see(page, "#sensor-facts", "running");
    await see(page, "#sensor-rules", "page.clock");
    await act(page, "Restart …", {}, "Done");
    await act(page, "Stop (disable) …", {});
    await see(page, "#sensor-why", "It is disabled");
    await act(page, "Start (enable) …", {});
    await see(page, "#sensor-facts", "running");
    await act(page, "Change …", {spec: '{"command": ["/bin/sleep", "200000"], "settle_seconds": 0}'});
    await see(page, "#sensor-facts", "200000");
    assert.equal(await page.getByRole("button", {name: "Reset …"}).count(), 0); // there is nothing to reset
    await act(page, "Disable …", {}); // the rule
    await see(page, "#sensor-rules", "(disabled)");
    await act(page, "Enable …", {});
    await act(page, "Change …", {spec: '{"command": ["/no/such/program"], "settle_seconds": 0, "max_restarts": 0}'});
    await see(page, "#sensor-why", "is not tried again until you reset it: cannot start it");
    await act(page, "Reset …", {}, "Done");
    await act(page, "Delete …", {}); // the sensor: its button is the first of this name
    await open(page, "#/pool/crew");
    await act(page, "Drop …", {});
    return [made.command, made.curl];
  },

  // No button in any view; the server refuses what a page without scruples sends.
  async reads(page) {
    await open(page, "#/");
    await logIn(page, name, "not the secret");
    await see(page, "#login-note", "Wrong name or secret");
    await logIn(page, name, secret);
    await see(page, "#me", name + " (reader)");
    const allowed = ["Find", "Log out", "Pause", "Pool", "Occupancy", "Last hour", "Free", "Waiting", "Given", "Ended", "Full in",
      "Export as JSON lines", "Save as JSON", "First page", "Next page", "Higher values", "Lower values", "▸", "▾"];
    for (const [view, ready] of [["#/", "#pools"], ["#/pool/guarded", "#pool-facts"], ["#/value/guarded/1", "#value-facts"],
      ["#/holder/tenant", "#holder-life"], ["#/sensors", "#sensors"], ["#/sensor/guard", "#sensor-facts"], ["#/events", "#events"]]) {
      await visit(page, view).catch((error) => {
        throw new Error(`${view} is not refreshed: ${error.message}`);
      });
      await page.locator(ready + ":visible").first().waitFor();
      const found = await page.locator("button:visible").allInnerTexts();
      assert.deepEqual(found.filter((text) => !allowed.includes(text.trim())), [], view);
    }
    const statuses = await page.evaluate(async () => {
      const sent = [];
      for (const [method, path, body] of [["PUT", "/v1/pools/mine", {range: [1, 2]}], ["PATCH", "/v1/pools/guarded", {lease: 1}],
        ["DELETE", "/v1/pools/guarded", undefined], ["POST", "/v1/holders/tenant/disown", {}], ["POST", "/v1/sensors/guard/disable", {}],
        ["PUT", "/v1/rules/r", {trigger: "t"}]]) {
        const reply = await fetch(path, {method, headers: {"Content-Type": "application/json",
          Authorization: sessionStorage.getItem("tenure-credentials")}, body: body && JSON.stringify(body)});
        sent.push(reply.status);
      }
      return sent;
    });
    assert.deepEqual(statuses, [403, 403, 403, 403, 403, 403]);
    await page.reload(); // it is still logged in
    await see(page, "#me", name + " (reader)");
  },

  // What a user gets to see: in each view its buttons and its words, and what the search finds.
  async sees(page) {
    await open(page, "#/");
    await logIn(page, name, secret);
    await see(page, "#me", name);
    const found = {};
    for (const view of given[0].split(" ")) {
      await visit(page, view);
      found[view] = await page.locator("main").evaluate((main) => {
        const seen = [...main.querySelectorAll(".act button, #sensor-rules button")].filter((e) => e.getClientRects().length > 0);
        return {buttons: seen.map((e) => e.textContent), text: main.innerText};
      });
    }
    for (const words of given[1].split(" ")) {
      await page.fill("#query", words);
      await become(page, () => document.getElementById("found").hidden === false);
      found[words] = await page.innerText("#found");
      await page.fill("#query", "");
      await become(page, () => document.getElementById("found").hidden);
    }
    return found;
  },

  // One action: VIEW BUTTON FIELDS, and what is to be seen then.
  async does(page) {
    const [view, press, fields, where, what] = given;
    await open(page, view);
    await logIn(page, name, secret);
    await act(page, press, JSON.parse(fields), where === "#act-result" ? what : undefined);
    if (where !== "#act-result") {
      await see(page, where, what);
    }
  },

  // The server stops, as a machine without memory does, or is gone: two tabs say so, ask no more than before, and go on
  // by themselves.
  async stalls(page) {
    const other = await page.context().newPage();
    watch(other);
    const tabs = [page, other];
    let [asked, failed] = [0, 0];
    for (const tab of tabs) {
      await open(tab, "#/");
      await see(tab, "#h-state", "serving");
      await see(tab, "#event-note", "live");
      tab.on("request", () => asked++);
      tab.on("requestfinished", () => asked--);
      tab.on("requestfailed", () => [asked--, failed++]);
    }
    console.log("stop");
    for (const tab of tabs) {
      await tab.bringToFront(); // one that nobody sees does not ask
      await see(tab, "#offline", "The server does not answer");
      assert.equal(await tab.innerText("#h-state"), "disconnected");
    }
    assert.equal(failed, 0); // it is said before the patience ends
    assert(asked < 20, asked + " requests wait");
    console.log("go on");
    for (const after of ["kill", "done"]) {
      for (const tab of tabs) {
        await tab.bringToFront();
        await see(tab, "#h-state", "serving");
        await tab.locator("#offline").waitFor({state: "hidden"});
        await see(tab, "#event-note", "live");
      }
      console.log(after);
      for (const tab of after === "kill" ? tabs : []) {
        await tab.bringToFront();
        await see(tab, "#offline", "Disconnected, retrying.");
      }
      if (after === "kill") {
        console.log("start");
      }
    }
  },

  // A page on a node that follows leads to the owner; after a fail-over the same page acts.
  async follows(page) {
    const [owner, follower, ownerPage] = given;
    await open(page, "#/health");
    await see(page, "#follows", "This node follows");
    const row = (node) => `#health-nodes tr:has(th:text-matches("^${node}"))`;
    await see(page, row(follower) + " th", "(this one)");
    await see(page, row(owner) + " td", "owner");
    await see(page, row(follower) + " td:last-child", /^0$/);
    await page.evaluate(() => { location.hash = "#/pool/before"; });
    await see(page, "#pool-facts", "Free");
    await page.getByRole("button", {name: "Change …"}).click();
    await page.fill("#act-cooldown", "7");
    await page.click("#act-go");
    await see(page, "#act-result", "This node follows the owner of the log");
    await page.click("#act-result a");
    await page.waitForURL(ownerPage + "/#/pool/before");
    await see(page, "#pool-facts", "Free");
    await page.locator("#follows").waitFor({state: "hidden"});
    await open(page, "#/pool/before");
    await page.click("#follows a");
    await page.waitForURL(ownerPage + "/#/pool/before");
    await open(page, "#/health");
    await see(page, row(owner) + " td", "owner");
    console.log("kill");
    await see(page, row(follower) + " td", "owner");
    await page.locator("#follows").waitFor({state: "hidden"});
    await page.evaluate(() => { location.hash = "#/pool/before"; });
    assert.match((await act(page, "Change …", {cooldown: "7"})).what, /cooldown becomes 7/);
    await page.evaluate(() => { location.hash = "#/"; });
    await act(page, "Create a pool …", {pool: "after", first: "1", last: "9"});
    await see(page, "#pools", "after");
  },

  // The session of a user that is deleted ends by itself, and nothing that it saw stays.
  async dies(page) {
    await open(page, "#/pool/guarded");
    await logIn(page, name, secret);
    await see(page, "#pool-facts", "Free");
    console.log("ready"); // now the user is deleted
    await see(page, "#login-note", "the user is no more");
    assert.equal(await page.locator("#pool-facts").isVisible(), false);
    assert.equal((await page.textContent("#pool-facts")).includes("Free"), false);
  },

  // A view begins at its top with the focus there, and the way back leads to where one was.
  async places(page) {
    await page.setViewportSize({width: 1000, height: 500});
    await open(page, "#/");
    await page.locator("#pools tbody tr").nth(30).waitFor();
    await page.locator("#pools tbody tr").nth(30).scrollIntoViewIfNeeded();
    const from = await page.evaluate(() => scrollY);
    assert(from > 200);
    await page.locator("#pools tbody tr th a").nth(30).click();
    await page.locator("#pool-body:visible").waitFor();
    assert.equal(await page.evaluate(() => scrollY), 0);
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.goBack();
    await become(page, (y) => Math.abs(scrollY - y) < 40, from);
  },
};

const browser = await playwright.chromium.launch({executablePath: chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]});
try {
  const page = await (await browser.newContext({viewport: {width: 1280, height: 900}})).newPage();
  watch(page);
  const said = await turns[turn](page);
  assert.deepEqual(complaints, []);
  console.log(JSON.stringify(said ?? null));
} finally {
  await browser.close();
}
