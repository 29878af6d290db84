// The server: reading from it, and whether it is there.
import {$, setText} from "./show.js";

let away = false;

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

// A refusal is an Error with `status`; a server that is not there one without.
export async function get(path, type) {
  let response;
  try {
    // A node that follows the owner of the log shows what it has: a browser may not follow the way to the owner.
    response = await fetch(path, {
      headers: {Accept: type || "application/json", "Tenure-Read": "stale"},
      cache: "no-store",
    });
  } catch (error) {
    setAway(true, "The server does not answer; what is shown may be old.");
    throw error;
  }
  setAway(false);
  if (!response.ok) {
    let problem = {};
    try {
      problem = await response.json();
    } catch (error) {
      // A proxy's own words: the status has to do.
    }
    const error = new Error(problem.detail || problem.title || response.statusText);
    error.status = response.status;
    throw error;
  }
  return type ? response.text() : response.json();
}

export function pathOf(...parts) {
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}
