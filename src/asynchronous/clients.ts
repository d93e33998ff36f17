// A trainer's clients of the parameter servers, and the servers' answers to them.
//
// Invariants
//   Q1. At most `pushesMax` batches of a sender have pushes in flight, and these are its last ones:
//       a server need not remember the numbers of older pushes (P1 of sparse-server.ts).

import type { OptimizerStep } from "../embedding/tables/row-rule.ts";
import type { Shard } from "../embedding/tables/shards.ts";
import { FrameCorruptError } from "../errors/errors.ts";
import { frameOf, noFloats, noInts, type ParameterFrame } from "./frames.ts";
import type {
  Center,
  DenseServer,
  ShardRows,
  ShardVectors,
  SparseServer,
} from "./parameter-servers.ts";
import { askServer, type ServerLink } from "./requests.ts";

/** The rows on all sparse servers. */
export interface SparseClient {
  /** The current weights of rows, in the order in which they are asked for. */
  pull(wanted: readonly ShardRows[]): Promise<ShardVectors[]>;
  /** Sends gradients, as push `number` of this sender, without waiting. */
  push(number: number, at: OptimizerStep, gradients: readonly ShardVectors[]): void;
  /** Resolves when at most `most` batches have pushes in flight. Throws what a push has thrown. */
  settled(most: number): Promise<void>;
}

/** `shards`: all shards of the job, by their index; the device of each is its server. */
export function createSparseClient(
  link: ServerLink,
  shards: readonly Shard[],
  sender: number,
): SparseClient {
  const flights: Promise<unknown>[] = [];
  const byServer = <Group extends ShardRows>(groups: readonly Group[]): Map<number, Group[]> => {
    const found = new Map<number, Group[]>();
    for (const group of groups) {
      const server = Number(shards[group.shard]?.device);
      const own = found.get(server);
      if (own === undefined) found.set(server, [group]);
      else own.push(group);
    }
    return found;
  };
  const ask = (server: number, request: ParameterFrame) =>
    askServer(link, { role: "sparse", index: server }, request);
  return {
    async pull(wanted) {
      const vectors = new Map<ShardRows, Float32Array>();
      const asking = [...byServer(wanted)].map(async ([server, groups]) => {
        const parts = groups.map(({ shard, rows }) => ({
          id: shard,
          ints: rows,
          floats: noFloats,
        }));
        const answer = await ask(server, frameOf("pull", { sender, parts }));
        for (const [i, group] of groups.entries()) {
          const { floats = noFloats } = answer.parts[i] ?? {};
          const { name, columns = 0 } = shards[group.shard] ?? {};
          if (floats.length !== group.rows.length * columns) {
            const found = `${floats.length} floats for ${group.rows.length} rows of \`${name}\``;
            throw new FrameCorruptError(`sparse:${server}`, found);
          }
          vectors.set(group, floats);
        }
      });
      await Promise.all(asking);
      return wanted.map((group) => ({ ...group, vectors: vectors.get(group) ?? noFloats }));
    },
    push(number, { step, plateau }, gradients) {
      const pushing = [...byServer(gradients)].map(([server, groups]) => {
        const parts = groups.map(({ shard, rows, vectors }) => {
          return { id: shard, ints: rows, floats: vectors };
        });
        return ask(server, frameOf("push", { sender, number, step, plateau, parts }));
      });
      const flight = Promise.all(pushing);
      flight.catch(() => {}); // `settled` throws it.
      flights.push(flight);
    },
    async settled(most) {
      while (flights.length > most) {
        await flights[0];
        flights.shift();
      }
    },
  };
}

/** The answer of a sparse server to a request. @throws FrameCorruptError */
export function answerOfSparse(
  server: SparseServer,
  { kind, sender, number, step, plateau, parts }: ParameterFrame,
): ParameterFrame["parts"] {
  const groups = parts.map(({ id, ints, floats }) => ({ shard: id, rows: ints, vectors: floats }));
  if (kind === "pull") {
    return server.pull(groups).map(({ shard, vectors }) => {
      return { id: shard, ints: noInts, floats: vectors };
    });
  }
  if (kind !== "push") throw new FrameCorruptError("rows", `a sparse server has no \`${kind}\``);
  server.push({ sender, number }, { step, plateau }, groups);
  return [];
}

/** The dense server. */
export interface DenseClient {
  /** The difference that a trainer with these weights takes off them. */
  exchange(number: number, weights: Float32Array): Promise<Float32Array>;
  center(): Promise<Center>;
  /** Keeps optimizer state for the next checkpoint. */
  keep(slots: readonly Float32Array[]): Promise<void>;
}

export function createDenseClient(link: ServerLink, trainer: number): DenseClient {
  const ask = (request: ParameterFrame) => askServer(link, { role: "dense", index: 0 }, request);
  return {
    async exchange(number, weights) {
      const parts = tensorParts([weights]);
      const answer = await ask(frameOf("exchange", { sender: trainer, number, parts }));
      const { floats = noFloats } = answer.parts[0] ?? {};
      if (floats.length === weights.length) return floats;
      throw new FrameCorruptError("dense:0", `${floats.length} floats for ${weights.length}`);
    },
    async center() {
      const [weights = noFloats, ...slots] = (await ask(frameOf("center"))).parts.map(
        ({ floats }) => floats,
      );
      return { weights, slots };
    },
    async keep(slots) {
      await ask(frameOf("state", { sender: trainer, parts: tensorParts(slots) }));
    },
  };
}

/** The answer of the dense server to a request. @throws FrameCorruptError */
export function answerOfDense(
  server: DenseServer,
  { kind, sender, number, parts }: ParameterFrame,
): ParameterFrame["parts"] {
  const tensors = parts.map(({ floats }) => floats);
  switch (kind) {
    case "exchange":
      return tensorParts([server.exchange(sender, number, tensors[0] ?? noFloats)]);
    case "center":
      return tensorParts([server.center.weights, ...server.center.slots]);
    case "state":
      server.keep(tensors);
      return [];
    default:
      throw new FrameCorruptError("weights", `the dense server has no \`${kind}\``);
  }
}

function tensorParts(tensors: readonly Float32Array[]): ParameterFrame["parts"] {
  return tensors.map((floats, id) => ({ id, ints: noInts, floats }));
}
