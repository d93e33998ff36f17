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
const quietMs = 5000;

/** Subscribes to a tenant's requests; calls `arrived` for every frame before it is decoded. */
export type SubscribeTenant = (tenant: string, arrived: () => void) => readonly Subscription[];

/** Opens the circuits of all tenants. */
export function openFloodGuard(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  tenants: Tenants,
  subscribe: SubscribeTenant,
): { close(): void } {
  const circuits = Object.entries(tenants).map(([tenant, { requestsPerSecond }]) => {
    const most = Math.max(arrivalsMin, floodFactor * requestsPerSecond);
    const reason = `it sent more than ${most} requests in one second`;
    return new TenantCircuit({
      clock,
      subscribe: (arrived) => subscribe(tenant, arrived),
      most,
      onTrip: (forMs) =>
        log.write("warn", `Requests of tenant ${tenant} are ignored for ${forMs} ms: ${reason}`, {
          tenant,
        }),
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
  readonly subscribe: (arrived: () => void) => readonly Subscription[];
  /** Most arrivals within a second before the circuit trips. */
  readonly most: number;
  readonly onTrip: (forMs: number) => void;
}

class TenantCircuit {
  readonly #options: TenantCircuitOptions;
  #subscriptions: readonly Subscription[] = [];
  #arrived = 0;
  #sinceMs: number;
  #shutMs = secondMs;
  /** Until then, another flood counts as the same flood. */
  #quietUntilMs = 0;
  #cancel = () => {};

  constructor(options: TenantCircuitOptions) {
    this.#options = options;
    this.#sinceMs = options.clock.now();
    this.#open();
  }

  close(): void {
    this.#cancel();
    for (const subscription of this.#subscriptions) subscription.unsubscribe();
    this.#subscriptions = [];
  }

  #open(): void {
    this.#subscriptions = this.#options.subscribe(() => this.#count());
  }

  #count(): void {
    const { clock, most, onTrip } = this.#options;
    const nowMs = clock.now();
    if (nowMs - this.#sinceMs >= secondMs) {
      this.#sinceMs = nowMs;
      this.#arrived = 0;
    }
    if (++this.#arrived <= most || this.#subscriptions.length === 0) return;
    this.close();
    const isAgain = nowMs < this.#quietUntilMs;
    this.#shutMs = isAgain ? Math.min(2 * this.#shutMs, shutMsMax) : secondMs;
    this.#quietUntilMs = nowMs + this.#shutMs + quietMs;
    onTrip(this.#shutMs);
    this.#cancel = clock.after(this.#shutMs, () => this.#open());
  }
}
