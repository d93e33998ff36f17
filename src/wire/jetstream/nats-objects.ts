// An object store in a key-value bucket of JetStream, over a connection of its own: for a lease and
// a journal of runs, whose objects are small. JetStream may forget what it acknowledged (law 6).
//
//   key of an object   0, its bytes                      if they fit in a message
//                      1, { parts: 3, bytes: 2500000 }   else; the parts have keys of their own
//
// Invariants
//   N1. Reads go to the stream's leader: a follower, which a direct read may reach, may be late.
//   N2. Parts are written before their object, under a name of their own, so that no reader sees an
//       object of two writers.
//   N3. A request that fails or is not answered is repeated until `patienceMs`. `create` compares
//       bytes then, as the first request may have succeeded.

import { randomUUID } from "node:crypto";
import { JetStreamApiCodes, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { type KV, Kvm } from "@nats-io/kv";
import { z } from "zod";
import { InputUnusableError, StoreFailedError } from "../../errors/errors.ts";
import { realClock } from "../../ports/clock.ts";
import type { ObjectStore, Upload } from "../../ports/object-store.ts";
import { type ConnectOptions, dialNats } from "../transports/nats-transport.ts";

export interface NatsObjectsOptions extends ConnectOptions {
  /** Name of the bucket, which is made if it does not exist. */
  readonly bucket: string;
  /** Longest wait for one answer. */
  readonly timeoutMs: number;
}

/** Room for the headers of a message. */
const headerBytes = 1024;
/** Attempts of a request, each of which waits for at most `timeoutMs`. */
const attemptsMax = 3;
const pauseMs = 50;

/** The value of an object that is stored in parts, in place of its bytes. */
const partsSchema = z.object({ name: z.string(), parts: z.int(), bytes: z.int() });

/**
 * Opens a bucket of the server.
 * @throws as `dialNats`; InputUnusableError where the server has no JetStream
 */
export async function openNatsObjects(options: NatsObjectsOptions): Promise<ObjectStore> {
  const connection = await dialNats(options);
  if (connection.info?.jetstream !== true) {
    const address = connection.getServer();
    await connection.close();
    const message = `The server ${address} has no JetStream: start it with \`-js\``;
    throw new InputUnusableError(address, message);
  }
  const { bucket: name, timeoutMs: timeout, clock = realClock } = options;
  const partBytes = connection.info.max_payload - headerBytes;
  const address = `nats bucket ${name}`;
  const placeOf = (key: string) => `${address}, key ${key}`;
  const buckets = new Kvm(jetstream(connection, { timeout }));
  let opened: KV | undefined;

  /** Repeats a request, after which the bucket is made again: the server may have lost it. N3 */
  const attempt = async <Result>(
    action: string,
    key: string,
    run: (kv: KV) => Promise<Result>,
  ): Promise<Result> => {
    for (let attempts = 1; ; attempts++) {
      try {
        opened ??= await buckets.create(name, { history: 1, timeout, allow_direct: false }); // N1
        return await run(opened);
      } catch (error) {
        opened = undefined;
        if (attempts === attemptsMax) {
          throw new StoreFailedError(action, placeOf(key), { cause: error });
        }
      }
      await new Promise<void>((resume) => clock.after(pauseMs * attempts, resume));
    }
  };
  const storedAt = (key: string) =>
    attempt("read", key, async (kv) => {
      const entry = await kv.get(nameOf(key));
      return entry === null || entry.operation !== "PUT" ? undefined : entry.value;
    });
  /** The value of an object, after its parts are written. N2 */
  const valueFor = async (key: string, bytes: Uint8Array): Promise<Uint8Array> => {
    if (bytes.length < partBytes) return Buffer.concat([Uint8Array.of(0), bytes]);
    const parts = Math.ceil(bytes.length / partBytes);
    const own = { name: randomUUID(), parts, bytes: bytes.length };
    for (let part = 0; part < parts; part++) {
      const piece = bytes.subarray(part * partBytes, (part + 1) * partBytes);
      await attempt("write", key, (kv) => kv.put(nameOf(partKey(key, own.name, part)), piece));
    }
    return Buffer.concat([Uint8Array.of(1), new TextEncoder().encode(JSON.stringify(own))]);
  };
  const get = async (key: string): Promise<Uint8Array | undefined> => {
    const value = await storedAt(key);
    if (value === undefined || value[0] === 0) return value?.slice(1);
    const own = partsIn(value);
    const found: Uint8Array[] = [];
    for (let part = 0; part < own.parts; part++) {
      const piece = await storedAt(partKey(key, own.name, part));
      if (piece === undefined) {
        const cause = new Error(`part ${part} of ${own.parts} is missing`);
        throw new StoreFailedError("read", placeOf(key), { cause });
      }
      found.push(piece);
    }
    return Buffer.concat(found);
  };
  const purge = async (key: string) => {
    // Without a delete marker, as markers would never be removed.
    const manager = await jetstreamManager(connection, { timeout, checkAPI: false });
    await manager.streams.purge(`KV_${name}`, { filter: `$KV.${name}.${nameOf(key)}` });
  };
  const list = (prefix: string) =>
    attempt("list", prefix, async (kv) => {
      const keys: string[] = [];
      for await (const found of await kv.keys()) keys.push(keyOf(found));
      return keys.filter((key) => key.startsWith(prefix)).sort();
    });
  const store: ObjectStore = {
    address,
    async get(key, range) {
      const bytes = await get(key);
      if (bytes === undefined || range === undefined) return bytes;
      const end = range.from + range.bytes;
      if (end <= bytes.length) return bytes.subarray(range.from, end);
      const cause = new Error(`it has ${bytes.length} bytes, expected ${end} or more`);
      throw new StoreFailedError("read", placeOf(key), { cause });
    },
    async size(key) {
      const value = await storedAt(key);
      if (value === undefined || value[0] === 0) return value && value.length - 1;
      return partsIn(value).bytes;
    },
    async put(key, bytes) {
      const value = await valueFor(key, bytes);
      await attempt("write", key, (kv) => kv.put(nameOf(key), value));
    },
    async create(key, bytes) {
      const value = await valueFor(key, bytes);
      return await attempt("write", key, async (kv) => {
        try {
          await kv.create(nameOf(key), value);
          return true;
        } catch (error) {
          if (!isTaken(error)) throw error;
          const found = await kv.get(nameOf(key));
          return Buffer.from(value).equals(found?.value ?? new Uint8Array(0)); // N3
        }
      });
    },
    upload: (key) => uploadTo(store, key),
    list: async (prefix) => (await list(prefix)).filter((key) => !partName.test(key)),
    async remove(keys) {
      const gone = new Set(keys);
      const parts = (await list("")).filter((key) => gone.has(key.replace(partName, "")));
      for (const key of new Set([...keys, ...parts])) {
        await attempt("remove", key, () => purge(key));
      }
    },
    close: () => connection.close(),
  };
  return store;
}

/** Collects an object and writes it at the end: objects of JetStream are small. */
function uploadTo(store: ObjectStore, key: string): Upload {
  const written: Uint8Array[] = [];
  return {
    write: async (bytes) => void written.push(bytes.slice()),
    finish: () => store.put(key, Buffer.concat(written)),
    discard: async () => void written.splice(0),
  };
}

const partName = /\.part-[0-9a-f-]{36}-\d+$/;

function partKey(key: string, name: string, part: number): string {
  return `${key}.part-${name}-${part}`;
}

function partsIn(value: Uint8Array): z.output<typeof partsSchema> {
  return partsSchema.parse(JSON.parse(new TextDecoder().decode(value.subarray(1))));
}

/** The name of a key in a bucket, which allows fewer characters. */
function nameOf(key: string): string {
  return key.replace(/[^\w./-]/g, (character) => `=${Buffer.from(character).toString("hex")}=`);
}

function keyOf(name: string): string {
  return name.replace(/=([0-9a-f]+)=/g, (_, hex: string) => Buffer.from(hex, "hex").toString());
}

function isTaken(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return (
    code === JetStreamApiCodes.StreamWrongLastSequence ||
    code === JetStreamApiCodes.StreamWrongLastSequenceUnknown
  );
}
