// Addresses: host:port, tenure://user:password@a:7411,b:7411, tenures://, redis://, rediss://, unix://.
import { readFileSync } from "node:fs";

const DEFAULT_PORT = 7411;
const TLS_SCHEMES = ["tenures", "rediss"];
const SCHEMES = ["tenure", "redis", "unix", ...TLS_SCHEMES];

/**
 * @typedef {{host: string, port: number, path?: string, username?: string, password?: string,
 *            name?: string, tls?: import("node:tls").ConnectionOptions}} Address
 */

/** @param {string} text */
function addressError(text) {
  const shown = text.includes("@") ? "the address" : JSON.stringify(text); // it may have a password
  return new TypeError(`${shown} is not tenure://HOST:PORT, tenures://HOST:PORT or unix://PATH`);
}

/**
 * The scheme in lower case; "": none. An unknown one must not mean plain text.
 * @param {string} text
 */
function schemeOf(text) {
  const at = text.indexOf("://");
  const scheme = at < 0 ? "" : text.slice(0, at).toLowerCase();
  if (at >= 0 && !SCHEMES.includes(scheme)) throw addressError(text);
  return scheme;
}

function fromEnvironment() {
  const env = process.env;
  if (env.TENURE_SOCKET) return "unix://" + env.TENURE_SOCKET;
  if (env.TENURE_URL) return env.TENURE_URL;
  const host = env.TENURE_HOST ?? "127.0.0.1";
  return `${host.includes(":") ? `[${host}]` : host}:${env.TENURE_PORT ?? DEFAULT_PORT}`;
}

/**
 * @param {string} text the whole address, for messages
 * @param {string} host
 */
function hostAndPort(text, host) {
  const found = /^(?:\[([^\]]+)\]|([^:/?#\s]+))(?::(\d{1,5}))?$/.exec(host.trim());
  const port = Number(found?.[3] ?? DEFAULT_PORT);
  if (!found || port < 1 || port > 65535) throw addressError(text);
  return { host: found[1] ?? found[2], port };
}

/**
 * The nodes of an address.
 * @param {string} text
 * @returns {Address[]}
 */
export function parseAddress(text) {
  const scheme = schemeOf(text);
  const rest = scheme === "" ? text : text.slice(scheme.length + 3);
  if (scheme === "unix") return [{ host: "", port: 0, path: rest }];
  const at = rest.lastIndexOf("@");
  const hosts = rest.slice(at + 1).replace(/\/$/, "").split(",").filter((host) => host.trim() !== "");
  if (hosts.length === 0) throw addressError(text);
  /** @type {{username?: string, password?: string}} */
  const login = {};
  if (at >= 0) {
    const [username, ...password] = rest.slice(0, at).split(":");
    if (username !== "") login.username = decodeURIComponent(username);
    if (password.length > 0) login.password = decodeURIComponent(password.join(":"));
  }
  return hosts.map((host) => ({ ...hostAndPort(text, host), ...login }));
}

/**
 * @param {string} text
 * @param {boolean | undefined} tls
 */
function wantsTls(text, tls) {
  const said = process.env.TENURE_TLS || "no";
  if (said !== "yes" && said !== "no") throw new TypeError(`TENURE_TLS: ${said} is not yes or no`);
  const byScheme = TLS_SCHEMES.includes(schemeOf(text));
  if (tls === false && byScheme) {
    throw new TypeError(`tls: false contradicts the address, which begins with ${schemeOf(text)}://`);
  }
  return tls ?? (byScheme || said === "yes");
}

/**
 * @param {{caFile?: string, certFile?: string, keyFile?: string, insecure?: boolean}} options
 * @returns {import("node:tls").ConnectionOptions}
 */
function tlsOptions({ caFile, certFile, keyFile, insecure }) {
  const env = process.env;
  const ca = caFile ?? env.TENURE_CA_FILE;
  const cert = certFile ?? env.TENURE_CERT_FILE;
  const key = keyFile ?? (certFile === undefined ? env.TENURE_KEY_FILE : undefined) ?? cert;
  if (insecure) {
    process.emitWarning("insecure: the server's certificate is not verified; anyone on the network " +
      "can read and change the connections");
  }
  return {
    minVersion: "TLSv1.2",
    rejectUnauthorized: !insecure,
    ...(ca ? { ca: readFileSync(ca) } : {}),
    ...(cert ? { cert: readFileSync(cert), key: readFileSync(/** @type {string} */ (key)) } : {}),
  };
}

/**
 * Who logs in: this user or, without a password, that of the environment.
 * @param {string | undefined} username
 * @param {string | undefined} password
 */
function loginOf(username, password) {
  const env = process.env;
  if (password !== undefined) return { username, password };
  const secret = env.TENURE_SECRET ||
    (env.TENURE_SECRET_FILE ? readFileSync(env.TENURE_SECRET_FILE, "utf8").split(/\r?\n/, 1)[0] : "");
  return secret === "" ? { username, password } : { username: username ?? (env.TENURE_USER || undefined), password: secret };
}

/**
 * What the options and the environment name.
 * @param {string | undefined} given
 * @param {{username?: string, password?: string, name?: string, tls?: boolean, caFile?: string,
 *          certFile?: string, keyFile?: string, insecure?: boolean}} options
 * @returns {Address[]}
 */
export function addressesOf(given, options) {
  const text = given ?? fromEnvironment();
  const secure = wantsTls(text, options.tls);
  if (!secure && (options.caFile || options.certFile || options.insecure)) {
    throw new TypeError("caFile, certFile and insecure need tls: true or tenures://");
  }
  const tls = secure ? tlsOptions(options) : undefined;
  return parseAddress(text).map((address) => ({
    ...address,
    ...loginOf(options.username ?? address.username, options.password ?? address.password),
    name: options.name,
    tls,
  }));
}
