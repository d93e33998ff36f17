// A register in a key of a NATS key-value bucket, over a connection of its own. What JetStream
// acknowledged it may still forget (law 6): whoever uses a register must bear that it is empty.

import { type KV, Kvm } from "@nats-io/kv";
import { RequestFailedError } from "../../errors/errors.ts";
import { type ConnectOptions, dialNats } from "../transports/nats-transport.ts";
import type { Register } from "./register.ts";

/** The bucket of all clusters' leases: a clustered server may have it made with replicas before. */
const bucket = "osiris-leases";

/** The code of a change that came too late: the last sequence is another. */
const wrongSequence = 10_071;

/**
 * The register of this key. Undefined where the server has no JetStream.
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
  /** A server that was restarted empty has no bucket: after a failure it is looked for again. */
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
