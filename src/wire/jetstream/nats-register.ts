// A register in a key of a NATS key-value bucket, over a connection of its own. JetStream may
// forget data that it acknowledged (law 6), so users of a register must cope with an empty one.

import { type KV, Kvm } from "@nats-io/kv";
import { RequestFailedError } from "../../errors/errors.ts";
import { type ConnectOptions, dialNats } from "../transports/nats-transport.ts";

/**
 * The bucket of all clusters' leases. With a clustered server, an operator may make it beforehand,
 * with replicas.
 */
const bucket = "osiris-leases";

/** The error code of a late change: the last sequence is another. */
const wrongSequence = 10_071;

/**
 * Opens the register of this key. Undefined where the server has no JetStream.
 * @throws as `connectNats`
 */
export async function openNatsRegister(
  options: ConnectOptions & { readonly key: string; readonly timeoutMs: number },
): Promise<Register | undefined> {
  const { key, timeoutMs } = options;
  const connection = await dialNats(options);
  if (connection.info?.jetstream !== true) {
    await connection.close();
    return undefined;
  }
  const buckets = new Kvm(connection);
  let opened: KV | undefined;
  /**
   * A server that was restarted empty has no bucket: after a failure the bucket is opened again.
   */
  const attempt = async <Result>(run: (kv: KV) => Promise<Result>): Promise<Result> => {
    try {
      opened ??= await buckets.create(bucket, { history: 1, timeout: timeoutMs });
      return await run(opened);
    } catch (error) {
      if (isTooLate(error)) throw error;
      opened = undefined;
      const reason = error instanceof Error ? error.message : String(error);
      throw new RequestFailedError(`${bucket}.${key}`, reason, { cause: error });
    }
  };
  return {
    read: () =>
      attempt(async (kv) => {
        const entry = await kv.get(key);
        if (entry === null || entry.operation !== "PUT") return undefined;
        return { value: entry.value, revision: entry.revision };
      }),
    async compareAndSet(value, revision) {
      try {
        return await attempt((kv) =>
          revision === 0 ? kv.create(key, value) : kv.update(key, value, revision, timeoutMs),
        );
      } catch (error) {
        if (isTooLate(error)) return undefined;
        throw error;
      }
    },
    close: () => connection.close(),
  };
}

function isTooLate(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === wrongSequence;
}

// A register: one value that several processes change by compare-and-set: a change succeeds only if
// no other change came in between. NATS has registers if it has JetStream (nats-register.ts).

/** A value, and the count of its changes. */
export interface Registered {
  readonly value: Uint8Array;
  readonly revision: number;
}

export interface Register {
  /** Undefined: the register never had a value, or forgot it. Rejects when disconnected. */
  read(): Promise<Registered | undefined>;
  /**
   * Sets the value if its revision is still `revision`; 0: if there is no value. Resolves to the
   * new revision, or to undefined where the revision is another. Rejects where the outcome is
   * unknown.
   */
  compareAndSet(value: Uint8Array, revision: number): Promise<number | undefined>;
  close(): Promise<void>;
}
