// Log-in and log-out, when the server has users.
import {logIn, logOut, loggedIn, whenRefused, whoAmI} from "./api.js";
import {$, setText} from "./show.js";

export async function showMe() {
  const me = await whoAmI().catch(() => null);
  setText($("me"), me && me.name ? me.name + " (" + me.role + ")" : "");
  $("log-out").hidden = !loggedIn();
}

const ENDED = "tenure-ended"; // why the page was loaded again: for the log-in
let ended = null;

// Loads the page again, once, so that nothing remains of what the user before has seen.
function refused() {
  if ($("login").open) {
    return; // with what the user has typed
  }
  if (ended === null && (loggedIn() || Number(document.body.dataset.refreshed) > 0)) {
    ended = loggedIn() ? "Wrong name or secret, or the user is no more." : "";
    sessionStorage.setItem(ENDED, ended);
    logOut();
    location.reload();
  } else {
    document.body.classList.add("stranger"); // until the page is loaded again
    setText($("login-note"), ended || "");
    $("login").showModal();
  }
}

// Loads the page again, so that nothing of the previous user remains.
function submit(event) {
  event.preventDefault();
  logIn($("login-name").value, $("login-secret").value);
  $("login-secret").value = "";
  location.reload();
}

export function loginStart() {
  ended = sessionStorage.getItem(ENDED);
  sessionStorage.removeItem(ENDED);
  whenRefused(refused);
  $("login-form").addEventListener("submit", submit);
  $("log-out").addEventListener("click", () => {
    logOut();
    location.reload();
  });
  $("login").addEventListener("cancel", (event) => event.preventDefault());
  showMe();
}
