// Queries a NATS server's description, and measures the round trip to it.

import { connect, type NatsConnection } from "nats";
import { TransportLostError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import { authenticationOf, type Credentials } from "./credentials.ts";
import { addressOf } from "./server-address.ts";

/** The result of a probe. */
export interface ServerProbe {
  readonly address: string;
  readonly version: string;
  readonly payloadBytesMax: number;
  readonly hasJetStream: boolean;
  readonly mustLogin: boolean;
  readonly isEncrypted: boolean;
  /** Whether the server is on this machine. */
  readonly isLocal: boolean;
  /** Time to connect, and median time of some round trips. */
  readonly connectMs: number;
  readonly roundTripMs: number;
  /** The server's clock minus ours; undefined: the server reports no time. */
  readonly aheadMs: number | undefined;
}

const roundTrips = 9;

/** Longest wait for a connection, and for each answer. */
const answerMs = 5000;

/**
 * Probes a server.
 * @throws TransportLostError where it cannot be reached or refuses the client
 * @throws InvalidOptionError, InputUnusableError where the credentials are unusable
 */
export async function probeServer(
  server: string,
  credentials: Credentials,
  clock: Clock,
): Promise<ServerProbe> {
  const servers = [server];
  const address = addressOf(servers);
  const authentication = authenticationOf(servers, credentials);
  const startMs = clock.now();
  let connection: NatsConnection;
  try {
    const options = { servers, name: "osiris-doctor", timeout: answerMs, reconnect: false };
    connection = await connect({ ...options, ...authentication });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new TransportLostError(address, reason, { cause });
  }
  try {
    const connectMs = clock.now() - startMs;
    const trips: number[] = [];
    for (let trip = 0; trip < roundTrips; trip++) {
      const sentMs = clock.now(); // The client measures whole milliseconds only.
      await connection.flush();
      trips.push(clock.now() - sentMs);
    }
    const { info } = connection;
    const hasJetStream = info?.jetstream === true;
    return {
      address,
      version: info?.version ?? "",
      payloadBytesMax: info?.max_payload ?? 0,
      hasJetStream,
      mustLogin: info?.auth_required === true,
      isEncrypted: authentication.tls !== undefined || info?.tls_required === true,
      isLocal: /^\w+:\/\/(127\.|localhost|\[::1\])/.test(address),
      connectMs,
      roundTripMs: trips.sort((a, b) => a - b)[Math.floor(roundTrips / 2)] ?? Number.NaN,
      aheadMs: hasJetStream ? await aheadOf(connection, clock) : undefined,
    };
  } finally {
    await connection.close();
  }
}

/** The server's clock, read from its list of streams. */
async function aheadOf(connection: NatsConnection, clock: Clock): Promise<number | undefined> {
  const beforeMs = clock.date().getTime();
  try {
    const answer = await connection.request("$JS.API.STREAM.LIST", undefined, {
      timeout: answerMs,
    });
    const afterMs = clock.date().getTime();
    const { streams = [] } = answer.json<{ readonly streams?: readonly { ts?: string }[] }>();
    const serverMs = Date.parse(streams[0]?.ts ?? "");
    return Number.isNaN(serverMs) ? undefined : serverMs - (beforeMs + afterMs) / 2;
  } catch {
    return undefined; // The user may not have the permission.
  }
}
