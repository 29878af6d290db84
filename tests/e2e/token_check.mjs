// Tokens through an independent implementation. Reads {url, seed, cases: [{what, token, claims}]} on
// standard input, fetches the key set from the server, and prints for each case what jose says of it:
// {ok: true, payload, header} or {ok: false, code}. With a case {what: "sign", seed, kid, claims} it
// signs instead: {token}.
//
//   node token_check.mjs NODE_MODULES
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(process.argv[2] + "/");
const { createRemoteJWKSet, jwtVerify, SignJWT, importJWK, calculateJwkThumbprint } =
  await import(require.resolve("jose"));

const { url, cases } = JSON.parse(readFileSync(0, "utf8"));
const keys = createRemoteJWKSet(new URL(url), { timeoutDuration: 60000 });

async function verify({ token, issuer }) {
  try {
    const { payload, protectedHeader } = await jwtVerify(token, keys,
      { algorithms: ["EdDSA"], issuer: issuer ?? "tenure", typ: "JWT" });
    return { ok: true, payload, header: protectedHeader };
  } catch (error) {
    return { ok: false, code: error.code };
  }
}

async function sign({ jwk, claims }) {
  const key = await importJWK(jwk, "EdDSA");
  return { token: await new SignJWT(claims)
    .setProtectedHeader({ alg: "EdDSA", typ: "JWT", kid: jwk.kid }).sign(key) };
}

async function thumbprints() {
  const set = await (await fetch(url)).json();
  return Promise.all(set.keys.map((key) => calculateJwkThumbprint(key)));
}

const answers = [];
for (const one of cases) {
  answers.push(one.what === "sign" ? await sign(one)
    : one.what === "thumbprints" ? await thumbprints() : await verify(one));
}
console.log(JSON.stringify(answers));
