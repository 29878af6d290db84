// A client for Tenure, the lease server, without dependencies. index.d.ts describes it.
export { Client } from "./lib/client.js";
export { LeaseLost, ResultError, TenureError, outcomeOf, settled } from "./lib/errors.js";
export { Follower } from "./lib/follow.js";
export { Held } from "./lib/hold.js";
export { compareTokens } from "./lib/replies.js";
