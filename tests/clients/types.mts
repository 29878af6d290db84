// Checked by tools/lint.sh, never run: what index.d.ts promises, and that the implementation fits it.
import { Client, LeaseLost, ResultError, settled } from "../../clients/node/index.js";
import type * as api from "../../clients/node/index.js";
import { Client as Implementation } from "../../clients/node/lib/client.js";
import type { Follower } from "../../clients/node/lib/follow.js";
import type { Held } from "../../clients/node/lib/hold.js";

// Every method exists, with parameters that can be called as promised.
type Public<T> = { [K in keyof T]: T[K] };
const client: Public<Omit<Client, "hold" | "holdBundle" | "follow">> = new Implementation("localhost");
declare const held: Held;
export const asHeld: Public<api.Held> = held;
declare const follower: Follower;
export const events: Public<Omit<api.Follower, typeof Symbol.asyncIterator>> = follower;

// An answer is told by its result.
const answer = await settled(client.alloc("ports", "job/42", { wait: "30s" }));
switch (answer.result) {
  case "OK":
    answer.values.join();
    break;
  case "EXHAUSTED":
    answer.retryAt?.toFixed();
    // @ts-expect-error: a refusal has no values
    answer.values;
    break;
}
if (answer instanceof ResultError) answer.outcome satisfies "committed" | "rejected" | "unknown";

// @ts-expect-error: a reservation needs a ttl
client.reserve("job/42", { ports: 1 }, {});
// @ts-expect-error: not a state of a lease
client.leases({ state: "cooling" });

const public_ = new Client();
const mine = await public_.hold("ports", "job/42", { ttl: 30 });
mine.signal.aborted satisfies boolean;
for await (const event of await public_.follow({ after: "0" })) event.kind satisfies string;
new LeaseLost("0-1", "x").lease satisfies string;
