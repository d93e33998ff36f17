// The object stores that a simulated machine opens over a bucket in memory. After a crash of the
// machine, calls of its stores throw, until it is restarted.

import { blockingStoreOf } from "../../src/objects/blocking-store.ts";
import {
  bytesMaxOf,
  noAnswer,
  type StoreAnswer,
  type StoreRequest,
} from "../../src/objects/requests.ts";
import { type StoreLimits, usualStoreLimits } from "../../src/objects/rules.ts";
import { s3Parts } from "../../src/objects/s3-address.ts";
import { SimulatedClock } from "../../src/ports/clock.ts";
import type { BlockingObjectStore } from "../../src/ports/object-store.ts";
import { SimulatedCrash } from "../../src/ports/simulated-disk.ts";
import type { MemoryBucket } from "./memory-bucket.ts";

/** Callbacks of the stores of a machine. */
export interface MachineHooks {
  /** Called before each request. May throw, as for a process that has ended. */
  readonly before?: (request: StoreRequest) => void;
  /** Called after each request that the bucket has carried out, even if its response is lost. */
  readonly after?: (request: StoreRequest) => void;
  /** Receives the time of waits: before another attempt, and for slow responses. */
  readonly spend?: (ms: number) => void;
  readonly limits?: StoreLimits;
}

export class BucketMachine {
  readonly #bucket: MemoryBucket;
  readonly #hooks: MachineHooks;
  #requests = 0;
  #crash = { at: Number.POSITIVE_INFINITY, isAfter: false };
  #isDown = false;

  constructor(bucket: MemoryBucket, hooks: MachineHooks = {}) {
    [this.#bucket, this.#hooks] = [bucket, hooks];
  }

  /** Requests of this machine so far. */
  get requests(): number {
    return this.#requests;
  }

  /** Crashes in the `request`-th request from now (1 is the next), before or after its effect. */
  crashAt(request: number, when: "before" | "after"): void {
    this.#crash = { at: this.#requests + request, isAfter: when === "after" };
  }

  /** Starts the machine again. */
  restart(): void {
    this.#isDown = false;
    this.#crash = { at: Number.POSITIVE_INFINITY, isAfter: false };
  }

  /** Opens a store; serves as `Disk.objects`. */
  readonly objects = (address: string): BlockingObjectStore => {
    const { bucket, key } = s3Parts(address);
    const { limits = usualStoreLimits, spend = () => {} } = this.#hooks;
    const prefix = key === "" ? "" : `${key}/`;
    const place = {
      ...{ address, prefix, limits, endpoint: "a bucket in memory", clock: new SimulatedClock() },
      newBytes: (count: number) => new Uint8Array(count),
      newName: () => `name-${this.#bucket.requests}`,
    };
    return blockingStoreOf(place, {
      send: (request) => {
        const answer = this.#ask(bucket, request, limits);
        return () => answer;
      },
      pause: spend,
      close: () => {},
    });
  };

  #ask(bucket: string, request: StoreRequest, limits: StoreLimits): StoreAnswer {
    if (this.#isDown) throw new SimulatedCrash("the machine is down");
    this.#hooks.before?.(request);
    const isLast = ++this.#requests >= this.#crash.at;
    const die = () => {
      this.#isDown = true;
      throw new SimulatedCrash(`the machine crashed in request ${this.#requests}`);
    };
    if (isLast && !this.#crash.isAfter) die();
    if (bucket !== this.#bucket.name) {
      const body = Buffer.from("<Error><Code>NoSuchBucket</Code></Error>");
      return { status: 404, headers: {}, body };
    }
    const { afterMs, ...answer } = this.#bucket.answer(request);
    this.#hooks.after?.(request);
    if (isLast) die();
    this.#hooks.spend?.(Math.min(afterMs, limits.attemptMs));
    if (afterMs > limits.attemptMs) return noAnswer(`no answer within ${limits.attemptMs} ms`);
    const most = bytesMaxOf(request, answer.status);
    if (answer.body.length > most) return noAnswer(`an answer is longer than ${most} bytes`);
    return answer;
  }
}
