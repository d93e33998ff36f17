// Connects to a running cluster: `osiris up` on this machine, or a cluster behind a nats-server.

import { z } from "zod";
import { checkOptions } from "../../src/ports/check-options.ts";
import { realClock } from "../../src/ports/clock.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import { tenantName } from "../../src/wire/tenancy/tenants.ts";
import { credentialOptions } from "../../src/wire/transports/credentials.ts";
import { connectNats } from "../../src/wire/transports/nats-transport.ts";
import { Client } from "./client.ts";

/** The address of a cluster, and credentials. */
export const connectionOptions = z.strictObject({
  /** Address of the cluster's broker: `nats://127.0.0.1:4222`, `nats://token@host`. */
  nats: z.string().min(1),
  /** Credentials, unless the address contains them. */
  ...credentialOptions,
  /** Name of the cluster. @default "c1" */
  cluster: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, "letters, digits, - and _, at most 64")
    .default("c1"),
});

const clientOptions = connectionOptions.extend({
  /**
   * The tenant that makes the requests, if the cluster has tenants. @default the cluster's operator
   */
  tenant: tenantName.optional(),
});

/** The options of `connect`. */
export type ConnectionOptions = z.input<typeof clientOptions>;

/** Longest wait for the connection to the broker. */
const connectMs = 5000;

/**
 * Connects a client to a running cluster. Close it by `Symbol.asyncDispose`, or declare it with
 * `await using`; runs continue without it.
 * @throws InvalidOptionError, TransportLostError if the broker is unreachable or refuses the client
 */
export async function connect(given: ConnectionOptions): Promise<Client & AsyncDisposable> {
  const { transport, cluster, tenant } = await transportTo(given, "osiris-client");
  const client = new Client({ transport, cluster, tenant, clock: realClock });
  return Object.assign(client, { [Symbol.asyncDispose]: () => transport.close() });
}

/** Connects to a cluster's broker; also returns the parts of its subjects. @throws as `connect` */
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
    onError: () => {}, // Complaints of the broker also fail the request that caused them.
  });
  return { transport, cluster, tenant };
}
