// Log-in and log-out, when the server has users.
import {logIn, logOut, loggedIn, whenRefused, whoAmI} from "./api.js";
import {$, setText} from "./show.js";

let again = () => {};

async function show() {
  const me = await whoAmI().catch(() => null);
  setText($("me"), me && me.name ? me.name + " (" + me.role + ")" : "");
  $("log-out").hidden = !loggedIn();
}

function refused() {
  if (loggedIn()) {
    logOut();
    setText($("login-note"), "Wrong name or secret, or the user is no more.");
  }
  if (!$("login").open) {
    $("login").showModal();
  }
}

async function submit(event) {
  event.preventDefault();
  setText($("login-note"), "");
  logIn($("login-name").value, $("login-secret").value);
  $("login-secret").value = "";
  $("login").close();
  await show();
  again();
}

// `fresh` is called when somebody else looks at the page from now on.
export function loginStart(fresh) {
  again = fresh;
  whenRefused(refused);
  $("login-form").addEventListener("submit", (event) => submit(event));
  $("log-out").addEventListener("click", async () => {
    logOut();
    await show();
    again();
  });
  show();
}
