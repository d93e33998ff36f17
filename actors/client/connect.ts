// A client of a cluster that runs elsewhere: `osiris up` on this machine, or one behind a
// nats-server.

import { z } from "zod";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realClock } from "../../src/ports/clock.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { tenantName } from "../../src/wire/tenancy/tenants.ts";
import { credentialOptions } from "../../src/wire/transports/credentials.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";
import { Client } from "./client.ts";

/** Where a cluster is, and who asks. */
export const connectionOptions = z.strictObject({
  /** Where the cluster's broker listens: `nats://127.0.0.1:4222`, `nats://token@host`. */
  nats: z.string().min(1),
  /** Credentials, unless they stand in the address. */
  ...credentialOptions,
  /** Name of the cluster. @default "c1" */
  cluster: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "letters, digits, - and _, at most 64")
    .default("c1"),
});

const clientOptions = connectionOptions.extend({
  /** The tenant that asks, where a cluster has tenants. @default the cluster's operator */
  tenant: tenantName.optional(),
});

/** As a program gives it. */
export type ConnectionOptions = z.input<typeof clientOptions>;

/** Longest wait for the broker to be there. */
const connectMs = 5000;

/**
 * A client of a running cluster. Close it by `Symbol.asyncDispose`, or declare it with `await
 * using`; runs go on without it.
 * @throws InvalidOptionError, TransportLostError where the broker cannot be reached or refuses us
 */
export async function connect(given: ConnectionOptions): Promise<Client & AsyncDisposable> {
  const { transport, cluster, tenant } = await transportTo(given, "osiris-client");
  const client = new Client({ transport, cluster, tenant, clock: realClock });
  return Object.assign(client, { [Symbol.asyncDispose]: () => transport.close() });
}

/** A connection to a cluster's broker, and what stands in its subjects. @throws as `connect` */
export async function transportTo(
  given: ConnectionOptions,
  name: string,
): Promise<{
  readonly transport: Transport;
  readonly cluster: string;
  readonly tenant: string | undefined;
}> {
  const { nats, cluster, tenant, ...credentials } = checkOptions(clientOptions, given);
  const transport = await connectNats({
    ...credentials,
    servers: nats,
    name,
    deadlineMs: connectMs,
    onError: () => {}, // What the broker complains of comes back as a request that failed.
  });
  return { transport, cluster, tenant };
}
