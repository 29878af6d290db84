// Log-in and log-out, when the server has users.
import {logIn, logOut, loggedIn, whenRefused, whoAmI} from "./api.js";
import {$, setText} from "./show.js";

export async function showMe() {
  const me = await whoAmI().catch(() => null);
  setText($("me"), me && me.name ? me.name + " (" + me.role + ")" : "");
  $("log-out").hidden = !loggedIn();
}

// Removes what the previous user has seen: the next user may not see it.
function forget() {
  for (const list of document.querySelectorAll("main tbody, main ol, main ul, main dl.facts, main .leases, main .act")) {
    list.replaceChildren();
    delete list.dataset.key;
  }
}

function refused() {
  if (loggedIn()) {
    logOut();
    setText($("login-note"), "Wrong name or secret, or the user is no more.");
  }
  forget();
  document.body.classList.add("stranger"); // until the page is loaded again
  if (!$("login").open) {
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
  whenRefused(refused);
  $("login-form").addEventListener("submit", submit);
  $("log-out").addEventListener("click", () => {
    logOut();
    location.reload();
  });
  $("login").addEventListener("cancel", (event) => event.preventDefault());
  showMe();
}
