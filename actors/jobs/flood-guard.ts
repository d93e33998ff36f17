// The flood guard: a circuit breaker for each tenant's requests. Refusing a request costs as much
// as answering it. A tenant that floods therefore trips its circuit: the service unsubscribes from
// the tenant's requests, the broker answers "no responders", and no other tenant is delayed.
//
//   listening ──more than `floodFactor` times its rate, within a second──▶ tripped
//   tripped ──a second; twice as long each time it floods again at once──▶ listening

import type { Clock } from "../../src/ports/clock.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Subscription } from "../../src/wire/messages/transport.ts";
import type { Tenants } from "../../src/wire/tenancy/tenants.ts";

const floodFactor = 10;
/** Least requests per second that can trip a circuit. */
const arrivalsMin = 100;
const secondMs = 1000;
const shutMsMax = 16_000;
/** A flood this long after the circuit listens again counts as a new flood. */
const calmMs = 5000;

/** Subscribes to a tenant's requests; calls `arrived` for every frame before it is decoded. */
export type Hear = (tenant: string, arrived: () => void) => readonly Subscription[];

/** Opens the circuits of all tenants. */
export function openFloodGuard(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  tenants: Tenants,
  hear: Hear,
): { close(): void } {
  const circuits = Object.entries(tenants).map(([tenant, { requestsPerSecond }]) => {
    const most = Math.max(arrivalsMin, floodFactor * requestsPerSecond);
    const asked = `it asked more than ${most} times in one second`;
    return new TenantCircuit({
      clock,
      hear: (arrived) => hear(tenant, arrived),
      most,
      tell: (forMs) =>
        log.write("warn", `Tenant ${tenant} is not heard for ${forMs} ms: ${asked}`, { tenant }),
    });
  });
  return {
    close() {
      for (const circuit of circuits) circuit.close();
    },
  };
}

interface TenantCircuitOptions {
  readonly clock: Clock;
  readonly hear: (arrived: () => void) => readonly Subscription[];
  /** Most arrivals within a second before the circuit trips. */
  readonly most: number;
  readonly tell: (forMs: number) => void;
}

class TenantCircuit {
  readonly #options: TenantCircuitOptions;
  #heard: readonly Subscription[] = [];
  #arrived = 0;
  #sinceMs: number;
  #shutMs = secondMs;
  /** Until then, another flood counts as the same flood. */
  #calmAtMs = 0;
  #cancel = () => {};

  constructor(options: TenantCircuitOptions) {
    this.#options = options;
    this.#sinceMs = options.clock.now();
    this.#open();
  }

  close(): void {
    this.#cancel();
    for (const subscription of this.#heard) subscription.unsubscribe();
    this.#heard = [];
  }

  #open(): void {
    this.#heard = this.#options.hear(() => this.#count());
  }

  #count(): void {
    const { clock, most, tell } = this.#options;
    const nowMs = clock.now();
    if (nowMs - this.#sinceMs >= secondMs) {
      this.#sinceMs = nowMs;
      this.#arrived = 0;
    }
    if (++this.#arrived <= most || this.#heard.length === 0) return;
    this.close();
    const isAgain = nowMs < this.#calmAtMs;
    this.#shutMs = isAgain ? Math.min(2 * this.#shutMs, shutMsMax) : secondMs;
    this.#calmAtMs = nowMs + this.#shutMs + calmMs;
    tell(this.#shutMs);
    this.#cancel = clock.after(this.#shutMs, () => this.#open());
  }
}
