// Time, in seconds.
import { readFileSync } from "node:fs";

/** For timeouts: does not jump. */
export function monotonic() {
  return performance.now() / 1000;
}

/** For leases: also counts while the machine is suspended, where the system tells. */
export function boottime() {
  try {
    return Number(readFileSync("/proc/uptime", "latin1").split(" ", 1)[0]);
  } catch {
    return monotonic();
  }
}

/** Of what boottime() answers. */
export const BOOTTIME_STEP = 0.01;

/**
 * @param {number} seconds
 * @returns {Promise<void>}
 */
export function sleep(seconds) {
  return new Promise((resolve) => setTimeout(resolve, Math.max(seconds, 0) * 1000));
}

/** Growing delays with jitter, so that not all clients reconnect at once. */
export class Pause {
  #next = 0.01;

  seconds() {
    const now = this.#next * (0.5 + Math.random() / 2);
    this.#next = Math.min(this.#next * 2, 1);
    return now;
  }

  reset() {
    this.#next = 0.01;
  }
}
