// A trainer's clients of the parameter servers, and the servers' answers to them.
//
// Invariants
//   Q1. At most `pushesMax` batches of a sender have unconfirmed pushes, always its last batches: a
//       server may forget the numbers of older pushes (P1 of sparse-server.ts).

import type { OptimizerStep } from "../embedding/tables/row-rule.ts";
import type { Shard } from "../embedding/tables/shards.ts";
import { FrameCorruptError } from "../errors/errors.ts";
import {
  frameOf,
  headerWords,
  noFloats,
  noInts,
  type ParameterFrame,
  partWords,
} from "./frames.ts";
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
  /**
   * Pulls the current weights of rows. `take` receives the vectors of some rows of `group`, the
   * first of which is row `at` of the group's list.
   */
  pull<Group extends ShardRows>(
    wanted: readonly Group[],
    take: (group: Group, at: number, vectors: Float32Array) => void,
  ): Promise<void>;
  /** Sends gradients as push `number` of this sender, without waiting for the confirmation. */
  push(number: number, at: OptimizerStep, gradients: readonly ShardVectors[]): void;
  /** Resolves when at most `most` batches have unconfirmed pushes. Throws the error of a push. */
  settled(most: number): Promise<void>;
}

/** Room in a frame for its headers. */
const headerBytes = 1024;

/**
 * `shards`: all shards of the job, by their index; the device of a shard is its server. `note`
 * receives the number of batches with unconfirmed pushes, and the time of the first such push.
 */
export function createSparseClient(
  link: ServerLink,
  shards: readonly Shard[],
  sender: number,
  note: (batches: number, sinceMs: number) => void = () => {},
): SparseClient {
  const flights: Promise<unknown>[] = [];
  /** Time of the push of each batch that is not confirmed, by the batch's number. */
  const unconfirmed = new Map<number, number>();
  const noteLag = () => {
    const [sinceMs = 0] = unconfirmed.values();
    note(unconfirmed.size, sinceMs);
  };
  const columnsOf = ({ shard }: ShardRows) => shards[shard]?.columns ?? 0;
  const room = Math.floor((link.transport.frameBytesMax - headerBytes) / 4) - headerWords;
  /** Sends each server the requests for its rows, split so that each fits into a frame. */
  const askAbout = <Group extends ShardRows>(
    groups: readonly Group[],
    requestOf: (runs: readonly Run<Group>[], piece: number) => ParameterFrame,
    take: (runs: readonly Run<Group>[], answer: ParameterFrame, server: number) => void,
  ): Promise<unknown> => {
    const byServer = new Map<number, Group[]>();
    for (const group of groups) {
      const server = Number(shards[group.shard]?.device);
      const own = byServer.get(server);
      if (own === undefined) byServer.set(server, [group]);
      else own.push(group);
    }
    const asking = [...byServer].flatMap(([index, own]) =>
      [...piecesOf(own, columnsOf, room)].map(async (runs, piece) => {
        const server = { role: "sparse", index } as const;
        take(runs, await askServer(link, server, requestOf(runs, piece)), index);
      }),
    );
    return Promise.all(asking);
  };
  return {
    async pull(wanted, take) {
      await askAbout(
        wanted,
        (runs) => {
          const parts = runs.map(({ group: { shard, rows }, from, to }) => {
            return { id: shard, ints: rows.subarray(from, to), floats: noFloats };
          });
          return frameOf("pull", { sender, parts });
        },
        (runs, { parts }, server) => {
          for (const [i, { group, from, to }] of runs.entries()) {
            const { floats = noFloats } = parts[i] ?? {};
            if (floats.length !== (to - from) * columnsOf(group)) {
              const name = shards[group.shard]?.name;
              const found = `${floats.length} floats for ${to - from} rows of \`${name}\``;
              throw new FrameCorruptError(`sparse:${server}`, found);
            }
            take(group, from, floats);
          }
        },
      );
    },
    push(number, { step, plateau }, gradients) {
      const flight = askAbout(
        gradients,
        (runs, piece) => {
          const parts = runs.map(({ group, from, to }) => {
            const [columns, ints] = [columnsOf(group), group.rows.subarray(from, to)];
            const floats = group.vectors.subarray(from * columns, to * columns);
            return { id: group.shard, ints, floats };
          });
          return frameOf("push", { sender, number, piece, step, plateau, parts });
        },
        () => {},
      );
      unconfirmed.set(number, link.clock.date().getTime());
      noteLag();
      flight.then(
        () => {
          unconfirmed.delete(number);
          noteLag();
        },
        () => {}, // `settled` throws it.
      );
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

/** The rows `from` to `to` - 1 of a group. */
interface Run<Group extends ShardRows> {
  readonly group: Group;
  readonly from: number;
  readonly to: number;
}

/**
 * Splits the rows of groups into pieces of at most `room` words, vectors included, so that each
 * fits into a frame: a larger payload would travel in chunks, which costs hashes and copies.
 */
function* piecesOf<Group extends ShardRows>(
  groups: readonly Group[],
  columnsOf: (group: Group) => number,
  room: number,
): Generator<Run<Group>[]> {
  let piece: Run<Group>[] = [];
  let left = room;
  for (const group of groups) {
    const words = 1 + columnsOf(group);
    for (let from = 0; from < group.rows.length; ) {
      const fitting = Math.floor((left - partWords) / words);
      if (fitting < 1 && piece.length > 0) {
        yield piece;
        [piece, left] = [[], room];
        continue;
      }
      const to = Math.min(group.rows.length, from + Math.max(1, fitting));
      piece.push({ group, from, to });
      left -= partWords + (to - from) * words;
      from = to;
    }
  }
  if (piece.length > 0) yield piece;
}

/**
 * Carries out a request to a sparse server; returns the parts of its response. @throws
 * FrameCorruptError
 */
export function answerOfSparse(
  server: SparseServer,
  { kind, sender, number, piece, step, plateau, parts }: ParameterFrame,
): ParameterFrame["parts"] {
  const groups = parts.map(({ id, ints, floats }) => ({ shard: id, rows: ints, vectors: floats }));
  if (kind === "pull") {
    return server.pull(groups).map(({ shard, vectors }) => {
      return { id: shard, ints: noInts, floats: vectors };
    });
  }
  if (kind !== "push") throw new FrameCorruptError("rows", `a sparse server has no \`${kind}\``);
  server.push({ sender, number, piece }, { step, plateau }, groups);
  return [];
}

/** A trainer's client of the dense server. */
export interface DenseClient {
  /**
   * Exchanges a trainer's weights with the center; returns the difference to subtract from them.
   */
  exchange(number: number, weights: Float32Array): Promise<Float32Array>;
  center(): Promise<Center>;
  /** Stores the optimizer state on the server, for the next checkpoint. */
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

/**
 * Carries out a request to the dense server; returns the parts of its response. @throws
 * FrameCorruptError
 */
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
