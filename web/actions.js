// The actions of the page: each with its text, its command and its request.
import {pathOf} from "./api.js";
import {count, numberOf, usedOf} from "./show.js";

const REASON = {name: "reason", label: "Reason, for the history", hint: "optional"};

// Leaves out empty fields.
function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== "" && value !== false));
}

function options(fields) {
  return Object.entries(given(fields)).flatMap(([name, value]) =>
    value === true ? ["--" + name] : ["--" + name.replaceAll("_", "-"), value]);
}

// The reason, for the command line and for a request.
const because = (v) => options({reason: v.reason});
const said = (v) => v.reason ? {reason: v.reason} : undefined;

// A request about the lease.
const post = (lease, verb, body) => ({method: "POST", path: pathOf("leases", lease.lease, verb), body});

const KINDS = {numbers: {}, "IPv4 addresses": {format: "ipv4"}, "MAC addresses": {format: "mac"}, "hexadecimal numbers": {format: "hex"},
  "named members (a set)": null};

function policyOf(v) {
  const kind = KINDS[v.kind];
  return given({...(kind || {}), lease: v.lease, exclude: v.exclude, cooldown: v.cooldown, max_per_holder: v.max_per_holder,
    sticky: v.sticky && "yes", scoped: v.scoped && "yes", strategy: v.strategy === "lowest" ? "" : v.strategy, reason: v.reason});
}

// How many values the range has; 0: it is no range yet.
function sizeOf(v) {
  const [first, last] = [v.first, v.last].map((text) => numberOf(text, KINDS[v.kind].format || "dec"));
  return first !== null && last !== null && last >= first ? last - first + 1n : 0;
}

export const createPool = () => ({
  title: "Create a pool",
  fields: [
    {name: "pool", label: "Name", required: true, hint: "ports"},
    {name: "kind", label: "Values", options: Object.keys(KINDS)},
    {name: "first", label: "First", hint: "30000, 10.0.0.1", required: true, only: (v) => KINDS[v.kind] !== null},
    {name: "last", label: "Last", hint: "30999, 10.0.0.254", required: true, only: (v) => KINDS[v.kind] !== null},
    {name: "exclude", label: "Never to be given", hint: "30003-30004,30010", only: (v) => KINDS[v.kind] !== null},
    {name: "lease", label: "Lease, if a client asks for none", hint: "60, 15m, 30d; empty: no end"},
    {name: "cooldown", label: "Cooldown after the end", hint: "seconds; empty: none"},
    {name: "max_per_holder", label: "Values a holder may have", hint: "empty: any number"},
    {name: "strategy", label: "Which free value is given", options: ["lowest", "random", "next", "coldest"]},
    {name: "sticky", label: "A holder gets its value back", type: "checkbox"},
    {name: "scoped", label: "A template with scopes", type: "checkbox"},
    REASON,
  ],
  what: (v) => (v.scoped ? "A template " : "A pool ") + (v.pool || "…") + (KINDS[v.kind] === null
    ? " of named members is made; it has none yet: add them next." : " of the values " + (v.first || "…") + " to "
      + (v.last || "…") + (sizeOf(v) ? ", " + count(sizeOf(v)) + " in all," : "") + " is made.") + (v.scoped ? " The first use of " + (v.pool || "…") + "@SCOPE makes a pool of its own." : ""),
  command: (v) => {
    const {reason, ...policy} = policyOf(v);
    return ["pool", "create", v.pool || "NAME", ...(KINDS[v.kind] === null ? ["set"] : ["range", v.first || "FIRST", v.last || "LAST"]),
      ...Object.entries(policy).flat(), ...options({reason: reason || ""})];
  },
  request: (v) => ({
    method: "PUT",
    path: pathOf("pools", v.pool || "NAME"),
    body: {...(KINDS[v.kind] === null ? {set: true} : {range: [v.first, v.last]}), ...policyOf(v)},
  }),
  then: (v) => ["Open it", "pool", v.pool],
});

const ALTERABLE = ["lease", "max_lease", "max_hold", "reserve_ttl_max", "grace", "cooldown", "max_per_holder", "strategy", "exclude",
  "adaptive_enabled", "high_rate_threshold_per_hour", "ultra_rate_threshold_per_hour", "ultra_rate_sustain_seconds",
  "ultra_force_release", "high_rate_min_factor", "min_lease_seconds", "rate_window_seconds"];
const CHOICES = {strategy: ["lowest", "random", "next", "coldest"], adaptive_enabled: ["yes", "no"], ultra_force_release: ["yes", "no"]};
const SECONDS = ["lease", "max_lease", "max_hold", "reserve_ttl_max", "grace", "cooldown", "ultra_rate_sustain_seconds", "min_lease_seconds",
  "rate_window_seconds"];

// A span or more of a range, as an alter wants them: 1-9,20-29 are [1, 9, 20, 29].
function spansOf(text) {
  return text.split(",").flatMap((span) => {
    const [lo, hi] = span.trim().split(/\s*-\s*/);
    return [lo, hi === undefined ? lo : hi];
  });
}

export const alterPool = (pool) => ({
  title: "Change the policy",
  fields: [...(pool.options.kind === "range" && !pool.pool.includes("@")
    ? [{name: "range", label: "range", value: pool.options.range, hint: "30000-30999,31500-31999"}] : []),
  ...ALTERABLE.filter((name) => pool.options[name] !== undefined).map((name) =>
    ({name, label: name + (SECONDS.includes(name) && !name.endsWith("seconds") ? ", seconds" : ""), value: String(pool.options[name]),
      options: CHOICES[name]})), REASON],
  what: (v) => {
    const changed = changes(pool, v);
    return Object.keys(changed).length === 0 ? "Nothing changes yet."
      : "For " + pool.pool + ": " + Object.entries(changed).map(([name, value]) => name + " becomes "
        + (value || "empty") + ", it was " + (pool.options[name] || "empty")).join("; ")
        + ". The " + count(pool.active) + " active values keep their deadlines.";
  },
  command: (v) => {
    const {range, ...changed} = changes(pool, v);
    return ["pool", "alter", pool.pool, ...(range === undefined ? [] : ["range", ...spansOf(range)]), ...Object.entries(changed).flat(),
      ...because(v)];
  },
  request: (v) => {
    const {range, ...changed} = changes(pool, v);
    return {method: "PATCH", path: pathOf("pools", pool.pool), body: {...(range === undefined ? {} : {range: spansOf(range)}), ...changed,
      ...said(v)}};
  },
});

function changes(pool, v) {
  return Object.fromEntries(["range", ...ALTERABLE].filter((name) => v[name] !== undefined
    && v[name] !== String(pool.options[name])).map((name) => [name, v[name]]));
}

export const dropPool = (pool) => ({
  title: "Drop the pool",
  danger: true,
  fields: [REASON],
  what: () => "The pool " + pool.pool + " goes with its policy. The server refuses while any of its values is "
    + "in use: now " + count(usedOf(pool)) + ".",
  command: (v) => ["pool", "drop", pool.pool, ...because(v)],
  request: (v) => ({method: "DELETE", path: pathOf("pools", pool.pool), body: said(v)}),
});

const members = (title, verb, method, what) => (pool) => ({
  title,
  danger: method === "DELETE",
  fields: [{name: "members", label: "Names, separated by blanks", required: true}, REASON],
  what: (v) => count(words(v.members).length) + " members " + what.replace("SET", pool.pool),
  command: (v) => ["pool", verb, pool.pool, ...words(v.members), ...because(v)],
  request: (v) => ({method, path: pathOf("pools", pool.pool, "resources"), body: {names: words(v.members), ...said(v)}}),
});

export const addMembers = members("Add members", "add", "POST", "join the set SET.");
export const removeMembers = members("Remove members", "remove", "DELETE",
  "leave the set SET; the server refuses while one of them is in use.");

function words(text) {
  return (text || "").split(/\s+/).filter((word) => word !== "");
}

function valuesOf(lease) {
  const total = Number(lease.value_count || lease.values.length);
  return total === 1 ? "its value" : "its " + count(total) + " values";
}

export const revokeLease = (lease) => ({
  title: "Revoke",
  danger: true,
  fields: [{name: "after", label: "Free the values after", hint: "0, 30, 5m; empty: when the holder acknowledges", value: "0"},
    REASON],
  what: (v) => v.after === "0" ? lease.holder + " loses " + valuesOf(lease) + " at once. Its token stops verifying."
    : "The token of " + lease.holder + " stops verifying now. " + (v.after === ""
      ? "Its values stay blocked until it acknowledges, or you reclaim the lease."
      : "Its values are free after " + v.after + ", or earlier if it acknowledges."),
  command: (v) => ["revoke", lease.lease, ...options({after: v.after, reason: v.reason})],
  request: (v) => post(lease, "revoke", given(v)),
});

export const reclaimLease = (lease) => ({
  title: "Reclaim",
  danger: true,
  fields: [REASON],
  what: () => "The revoked lease of " + lease.holder + " ends without its acknowledgment, and " + valuesOf(lease)
    + " can be given to others. Do it only if you know that the holder has stopped.",
  command: (v) => ["reclaim", lease.lease, ...because(v)],
  request: (v) => post(lease, "reclaim", given(v)),
});

export const releaseLease = (lease) => ({
  title: "Release",
  danger: true,
  fields: [{name: "now", label: "Do not keep a sticky value", type: "checkbox"}, REASON],
  what: (v) => "The lease ends as if " + lease.holder + " had released it" + (v.now ? "."
    : "; a sticky pool keeps the value for it for a while."),
  command: (v) => ["release", lease.lease, lease.holder, lease.epoch, ...options({now: v.now, reason: v.reason})],
  request: (v) => post(lease, "release", {holder: lease.holder, epoch: lease.epoch, ...given(v)}),
});

export const rekeyLease = (lease) => ({
  title: "Give to another holder",
  fields: [{name: "holder", label: "New holder", required: true}, REASON],
  what: (v) => (v.holder || "…") + " holds " + valuesOf(lease) + " from now on; the token of " + lease.holder
    + " stops verifying.",
  command: (v) => ["rekey", lease.lease, lease.epoch, v.holder || "HOLDER", ...because(v)],
  request: (v) => post(lease, "rekey", {epoch: lease.epoch, ...given(v)}),
});

export const disownHolder = (holder, leases) => ({
  title: "Disown",
  danger: true,
  fields: [{name: "pool", label: "Only in the pool", hint: "empty: in all pools"}, REASON],
  what: (v) => "All leases of " + holder + (v.pool ? " in " + v.pool : ", " + leases + ",")
    + " end now, and their values are not kept for it. Leases in revoking stay until they are acknowledged.",
  command: (v) => ["disown", holder, ...options({pool: v.pool, reason: v.reason})],
  request: (v) => ({method: "POST", path: pathOf("holders", holder, "disown"), body: given(v)}),
});

export const sensorAct = (ref, verb, words_) => ({
  title: {enable: "Start", disable: "Stop"}[verb] || verb[0].toUpperCase() + verb.slice(1),
  danger: verb === "disable",
  what: () => words_,
  command: () => ["sensor", verb, ref],
  request: () => ({method: "POST", path: pathOf("sensors", ref, verb), body: {}}),
});

// A description that is typed as JSON; one that is not yet whole is shown and sent as it is.
function specOf(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    return text;
  }
}

export const sensorAdd = () => ({
  title: "Add a sensor",
  fields: [{name: "ref", label: "Name", required: true, hint: "core.timer"},
    {name: "trigger", label: "Trigger", required: true, hint: "core.tick"},
    {name: "program", label: "Program and arguments, separated by blanks", required: true, hint: "/usr/bin/timer --every 5"},
    REASON],
  what: (v) => "The sensor " + (v.ref || "…") + " is defined. The server runs its program while an enabled rule wants "
    + (v.trigger || "…") + ".",
  command: (v) => ["sensor", "set", v.ref || "NAME", v.trigger || "TRIGGER", JSON.stringify({command: words(v.program)}),
    ...because(v)],
  request: (v) => ({
    method: "PUT",
    path: pathOf("sensors", v.ref || "NAME"),
    body: given({trigger: v.trigger, spec: {command: words(v.program)}, reason: v.reason}),
  }),
  then: (v) => ["Open it", "sensor", v.ref],
});

export const sensorChange = (ref, trigger, spec, disabled) => ({
  title: "Change the sensor",
  fields: [{name: "trigger", label: "Trigger", value: trigger, required: true},
    {name: "spec", label: "Description", type: "textarea", value: JSON.stringify(spec, null, 2), required: true}, REASON],
  what: (v) => typeof specOf(v.spec) === "object" ? "The sensor " + ref + " gets this description. If it runs, it is restarted with it."
    : "This is not JSON yet.",
  command: (v) => ["sensor", "set", ref, v.trigger, JSON.stringify(specOf(v.spec)), ...options({disabled, reason: v.reason})],
  request: (v) => ({method: "PUT", path: pathOf("sensors", ref), body: given({trigger: v.trigger, spec: specOf(v.spec), disabled,
    reason: v.reason})}),
});

export const sensorDelete = (ref, status) => ({
  title: "Delete the sensor",
  danger: true,
  fields: [REASON],
  what: () => "The sensor " + ref + " is forgotten" + (status.pid ? ", and its run is stopped." : ".") + " Its rules stay.",
  command: (v) => ["sensor", "delete", ref, ...because(v)],
  request: (v) => ({method: "DELETE", path: pathOf("sensors", ref), body: said(v)}),
});

export const ruleAct = (id, verb) => ({
  title: verb === "delete" ? "Delete the rule" : verb === "enable" ? "Enable the rule" : "Disable the rule",
  danger: verb !== "enable",
  what: () => verb === "enable" ? "The rule " + id + " counts again: its sensor starts."
    : "The rule " + id + " counts no more. A sensor stops when no enabled rule is left.",
  command: () => ["rule", verb, id],
  request: () => verb === "delete" ? {method: "DELETE", path: pathOf("rules", id), body: undefined}
    : {method: "POST", path: pathOf("rules", id, verb), body: {}},
});

export const ruleAdd = (trigger, id) => ({
  title: id ? "Start" : "Add a rule",
  fields: [{name: "id", label: id ? "Id of a rule that wants it" : "Id", value: id, required: true}, {name: "trigger", label: "Trigger", value: trigger, required: true},
    REASON],
  what: (v) => "The rule " + (v.id || "…") + " wants " + (v.trigger || "…") + ": a sensor of this trigger starts.",
  command: (v) => ["rule", "set", v.id || "ID", v.trigger || "TRIGGER", ...because(v)],
  request: (v) => ({method: "PUT", path: pathOf("rules", v.id || "ID"), body: given({trigger: v.trigger, reason: v.reason})}),
});
