// The server: reads, writes, the current user, and whether the server answers.
import {$, setText} from "./show.js";

const CREDENTIALS = "tenure-credentials"; // in the storage of this tab, which is deleted with the tab
const RANKS = ["none", "reader", "holder", "operator", "admin"];

const CERTIFIED = location.protocol === "https:" ? "same-origin" : "omit";
const ROLE_MS = 60000; // until the role is asked for again: it may have changed

const PATIENCE_MS = 15000; // for an answer
const SLOW_MS = 4000; // then the page says so
const SILENCE_MS = 40000; // of a stream, which sends something every 15 seconds

let away = false;
let me = null; // the reply of WHOAMI; null: not asked yet
let meAt = 0; // when it was asked; 0: ask again
let onRefused = () => {};

// Called when the server requires a user and a secret, or refuses the given ones.
export function whenRefused(call) {
  onRefused = call;
}

function setAway(now, why) {
  if (now !== away) {
    away = now;
    $("offline").hidden = !now;
    setText($("h-state"), now ? "disconnected" : "connected");
  }
  if (now) {
    setText($("offline"), "Disconnected, retrying. " + why);
  }
}

function headers(more) {
  const credentials = sessionStorage.getItem(CREDENTIALS);
  return credentials ? {...more, Authorization: credentials} : more;
}

export function loggedIn() {
  return sessionStorage.getItem(CREDENTIALS) !== null;
}

export function logIn(name, secret) {
  const bytes = new TextEncoder().encode(name + ":" + secret);
  sessionStorage.setItem(CREDENTIALS, "Basic " + btoa(String.fromCharCode(...bytes)));
  me = null;
}

export function logOut() {
  sessionStorage.removeItem(CREDENTIALS);
  me = null;
}

async function problemOf(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch (error) {
    // The body is a proxy's own text: only the status is usable.
  }
  const error = new Error(problem.detail || problem.title || response.statusText);
  error.status = response.status;
  error.result = problem.result;
  return error;
}

// A follower redirects writes to the owner of the log, which is another origin: a browser may not follow the
// redirect. So the error has the address of the same view on the owner's page, if the owner is known.
async function elsewhere() {
  const error = new Error("This node follows the owner of the log, which alone can do this.");
  error.status = 307;
  error.link = await ownerPage().catch(() => null);
  return error;
}

// The address of this view on the page of the node that owns the log; null: this node owns it, or no node does.
export async function ownerPage() {
  const {nodes} = await get("/v1/cluster/nodes");
  const owner = nodes.find((node) => node.role === "owner" && !node.self);
  if (!owner || !owner.http) {
    return null;
  }
  const origin = owner.http.includes("://") ? owner.http : location.protocol + "//" + owner.http;
  const known = origin.startsWith("http://") || origin.startsWith("https://");
  return known ? origin + (origin.endsWith("/") ? "" : "/") + location.hash : null;
}

// Without TLS a request has none of the browser's own credentials. With TLS they include its certificate, which the
// server may require. A refusal of credentials that have been replaced meanwhile is ignored.
async function ask(path, options) {
  const sentAs = sessionStorage.getItem(CREDENTIALS);
  let response;
  const why = "The server does not answer; what is shown may be old. If its process has ended, see its log: a failed disk stops it.";
  const slow = setTimeout(() => setAway(true, why), SLOW_MS);
  try {
    response = await fetch(path, {credentials: CERTIFIED, cache: "no-store", redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE_MS), ...options});
  } catch (error) {
    if (error.name !== "AbortError") {
      setAway(true, why);
    }
    throw error;
  } finally {
    clearTimeout(slow);
  }
  setAway(false);
  if (response.type === "opaqueredirect") {
    throw await elsewhere();
  }
  if (!response.ok) {
    const error = await problemOf(response);
    if (response.status === 403) {
      meAt = 0;
    }
    if (response.status === 401 && sentAs === sessionStorage.getItem(CREDENTIALS)) {
      onRefused(error);
    }
    throw error;
  }
  return response;
}

// A refusal is an Error with `status`; an unreachable server is an Error without it.
export async function get(path, type) {
  // A follower shows its own state: a browser may not follow a redirect to the owner.
  const response = await ask(path, {
    headers: headers({Accept: type || "application/json", "Tenure-Read": "stale"}),
  });
  return type ? response.text() : response.json();
}

// As get, but null instead of a refusal.
export async function tryGet(path) {
  try {
    return await get(path);
  } catch (error) {
    if (error.status === undefined) {
      throw error;
    }
    return null;
  }
}

// `key`: a repeat of the same request with the same key has no second effect.
export async function send(method, path, body, key) {
  const more = {"Idempotency-Key": key, ...(body !== undefined && {"Content-Type": "application/json"})};
  const response = await ask(path, {
    method,
    headers: headers({Accept: "application/json", ...more}),
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return response.json();
}

// Server-sent events. Calls seen({event, id, data}) for each, whose data is JSON that is not parsed yet: of a flood
// only the last ones are drawn. Returns when the stream has ended or is silent.
export async function listen(path, control, opened, seen) {
  let quiet = setTimeout(() => control.abort(), SILENCE_MS);
  try {
    await listenTo(path, control.signal, opened, seen, () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => control.abort(), SILENCE_MS);
    });
  } finally {
    clearTimeout(quiet);
  }
}

async function listenTo(path, signal, opened, seen, heard) {
  const response = await ask(path, {headers: headers({Accept: "text/event-stream"}), signal});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  opened();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) {
      return;
    }
    heard();
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon), line.slice(colon + 2)];
      }));
      if (fields.data !== undefined) {
        seen(fields);
      }
    }
  }
}

// ---- The current user ----

// {name, role}; asked again until the server has answered, after a refusal, and each minute.
export async function whoAmI() {
  const now = Date.now();
  if (me === null || now - meAt > ROLE_MS) {
    me = await get("/v1/whoami");
    meAt = now;
  }
  return me;
}

// The name to log in with; "": nobody has logged in here.
export function loginName() {
  return loggedIn() && me !== null ? me.name || "" : "";
}

// Administrators define programs; who has no name may not.
export function mayDo(role) {
  return me !== null && RANKS.indexOf(me.role) >= RANKS.indexOf(role) && (role !== "admin" || Boolean(me.name));
}

export function isMe(user) {
  return me !== null && (me.name || "") === (user || "");
}

// `kind`: "pools" or "holders". Without a name: all of them.
export function mayUse(kind, name) {
  return me !== null && (!me[kind] || (name !== undefined && me[kind].split(/\s+/).some((pattern) =>
    new RegExp("^" + pattern.replace(/[.+$(){}|]|\[(?![^\]]*\])/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".") + "$").test(name))));
}

export function pathOf(...parts) {
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}
