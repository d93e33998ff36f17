// The program of a parameter server's thread: restores its rows, or the center of the dense
// weights, and answers trainers over its own connection until the command `end`.
//
// Takes  save { cut } · end
// Emits  ready · saved

import { answerOfDense, answerOfSparse } from "../../../src/asynchronous/clients.ts";
import { createDenseServer } from "../../../src/asynchronous/dense-server.ts";
import type { ParameterFrame } from "../../../src/asynchronous/frames.ts";
import type { Center, ServerCommand } from "../../../src/asynchronous/parameter-servers.ts";
import { serveParameters } from "../../../src/asynchronous/requests.ts";
import { serversOf, shardsOnServers } from "../../../src/asynchronous/row-shards.ts";
import { addUpdates, type ServerMemory } from "../../../src/asynchronous/server-memory.ts";
import { createSparseServer } from "../../../src/asynchronous/sparse-server.ts";
import type { Shard } from "../../../src/embedding/tables/shards.ts";
import { ArithmeticMismatchError } from "../../../src/errors/errors.ts";
import { createAtomicCells } from "../../../src/exchange/atomic-cells.ts";
import { nobody } from "../../../src/exchange/cells.ts";
import { asynchronousOf } from "../../../src/job/check-asynchronous.ts";
import type { Kernels } from "../../../src/kernels/contract/kernels.ts";
import { createDenseState } from "../../../src/model/dense-optimizer.ts";
import { initParameters } from "../../../src/model/graph/parameters.ts";
import { keyOf } from "../../../src/ports/random.ts";
import { densePart, tableOfPart } from "../../../src/training/checkpoint/part-names.ts";
import { type CutPart, decodeDense } from "../../../src/training/checkpoint/parts.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { openParts, type PartStore } from "../../../storage/checkpoints/store/open-parts.ts";
import { openExistingStore } from "../../../storage/checkpoints/store/open-store.ts";
import { createSaving, type SavedPart } from "../../../storage/checkpoints/store/part-writer.ts";
import type { Connection } from "../../runtime/mailbox.ts";
import { type GenerationMemory, specIn } from "../generation-memory.ts";
import type { GenerationSpec, SpecHead } from "../generation-spec.ts";
import type { ThreadPorts } from "../thread-ports.ts";
import { trainerShapeOf } from "./trainer-shape.ts";

/** The task of a parameter server's thread. */
export interface ServerTask {
  readonly program: "sparse" | "dense";
  readonly spec: SpecHead;
  readonly memory: ServerMemory & Pick<GenerationMemory, "spec">;
  /** Index among the servers of its kind. */
  readonly index: number;
  /**
   * Dense weights of live trainers: the center begins with their mean. Left out: it begins with the
   * weights of the checkpoint.
   */
  readonly starts?: readonly SharedArrayBuffer[] | undefined;
  readonly cluster: string;
  readonly connection: Connection;
}

export type ServerReport =
  /** `cut`: of the checkpoint that it has restored; 0: none. `storeBytes`: read of it. */
  | {
      readonly type: "ready";
      readonly arithmetic: string;
      readonly cut: number;
      readonly storeBytes: number;
    }
  | { readonly type: "saved"; readonly cut: number; readonly parts: readonly SavedPart[] };

export interface ServerPorts extends Pick<ThreadPorts, "clock" | "disk" | "sleepTurning" | "dial"> {
  readonly kernels: Kernels;
  take(): ServerCommand | undefined;
  report(report: ServerReport): void;
}

/** Longest pause between two polls for a command, which may come without ringing the doorbell. */
export const commandPollMs = 50;

/** The operations of a server of either kind. */
interface Served {
  answer(request: ParameterFrame): ParameterFrame["parts"];
  cut(): CutPart[];
  readonly updates: number;
  readonly storeBytes: number;
}

export async function runServer(task: ServerTask, ports: ServerPorts): Promise<void> {
  const { program: role, index, memory, cluster, connection } = task;
  const { kernels, clock, disk, take, report } = ports;
  const spec = specIn(memory);
  const { run, generation } = spec;
  const store = openParts(spec.job.checkpoint.directory, disk);
  const manifest = newestOf(spec, ports);
  if (manifest !== undefined && manifest.arithmetic !== kernels.arithmetic) {
    throw new ArithmeticMismatchError(manifest.arithmetic, kernels.arithmetic);
  }
  const open = role === "sparse" ? openSparse : openDense;
  const served = await open(task, spec, ports, { store, manifest });
  const transport = await ports.dial(connection, `osiris-${cluster}-${role}`);
  let failure: { readonly error: unknown } | undefined;
  let counted = 0;
  const place = { transport, place: { cluster, run, generation }, server: { role, index } };
  const onError = (error: unknown) => {
    failure ??= { error };
  };
  serveParameters({ ...place, onError }, (request) => {
    const parts = served.answer(request);
    addUpdates(memory, served.updates - counted);
    counted = served.updates;
    return parts;
  });
  try {
    await transport.flush();
    const { storeBytes } = served;
    const { arithmetic } = kernels;
    report({ type: "ready", arithmetic, cut: manifest?.cut ?? 0, storeBytes });
    const cells = createAtomicCells({
      ...{
        words: new Int32Array(memory.words),
        participants: 1,
        participant: 0,
        generation,
        clock,
      },
      deadlineMs: Number.POSITIVE_INFINITY,
      sleep: (words, at, seen, ms) => {
        return ports.sleepTurning(words, at, seen, Math.min(ms, commandPollMs));
      },
    });
    for (;;) {
      let command: ServerCommand | undefined;
      const what = () => "a command";
      const isThere = () => {
        command ??= take();
        return command !== undefined || failure !== undefined;
      };
      await cells.waitUntil(what, isThere, nobody);
      if (failure !== undefined) throw failure.error;
      if (command?.type !== "save") return;
      const owner = role === "dense" ? "c" : `s${index}`;
      const { cut } = command;
      report({ type: "saved", cut, parts: await save(store, { generation, cut, owner }, served) });
    }
  } finally {
    store.close();
    await transport.close();
  }
}

/**
 * The checkpoint from which a server begins: the newest of its generation, if the server takes the
 * place of one that was lost, else the one that the generation continues from.
 */
function newestOf(spec: GenerationSpec, { disk }: ServerPorts): Manifest | undefined {
  const { directory } = spec.job.checkpoint;
  const latest = openExistingStore(directory, disk).latest();
  return latest?.generation === spec.generation ? latest : spec.manifest;
}

interface Saved {
  readonly store: PartStore;
  readonly manifest: Manifest | undefined;
}

/** A sparse server, with the rows of the checkpoint. */
async function openSparse(
  { index }: ServerTask,
  { job, hosts, devices }: GenerationSpec,
  { kernels }: ServerPorts,
  { store, manifest }: Saved,
): Promise<Served> {
  const { tables } = job.model;
  const servers = serversOf(asynchronousOf(job), hosts.length, devices);
  const shards = shardsOnServers(tables, servers).filter(({ device }) => device === index);
  const { optimizer, seed } = job;
  const pushesMax = asynchronousOf(job).pushes;
  const recipe = { optimizer, seed };
  const server = createSparseServer({ kernels, tables, shards, recipe, pushesMax });
  const own = new Map<number, Shard[]>();
  for (const shard of shards) own.set(shard.table, [...(own.get(shard.table) ?? []), shard]);
  let storeBytes = 0;
  for (const { name, bytes } of manifest?.parts ?? []) {
    const part = tableOfPart(name, tables);
    const meets = ({ firstBlock, blocks }: Shard) =>
      part !== undefined &&
      firstBlock < part.firstBlock + part.blocks &&
      part.firstBlock < firstBlock + blocks;
    if (manifest === undefined || own.get(part?.table ?? -1)?.some(meets) !== true) continue;
    await server.restore(name, store.readFiles(manifest, name));
    storeBytes += bytes;
  }
  return {
    answer: (request) => answerOfSparse(server, request),
    cut: () => server.cut(),
    get updates() {
      return server.counts.updates;
    },
    storeBytes,
  };
}

/** The dense server, with given weights, those of the checkpoint, or initial ones. */
async function openDense(
  { starts = [] }: ServerTask,
  spec: GenerationSpec,
  { kernels }: ServerPorts,
  { store, manifest }: Saved,
): Promise<Served> {
  const { job } = spec;
  const { topology } = trainerShapeOf(spec);
  const { layout } = topology.graph;
  const initial = (): Center => {
    const flat = kernels.tensor([layout.length]);
    initParameters(kernels, flat, layout, keyOf(job.seed));
    const { slots } = createDenseState(kernels, job.optimizer.dense, layout.length);
    return { weights: kernels.read(flat), slots: slots.map((slot) => kernels.read(slot)) };
  };
  let start: Center;
  let storeBytes = 0;
  if (manifest === undefined) {
    start = initial();
  } else {
    const pieces = store.readFiles(manifest, densePart).flatMap((file) => {
      return Array.from(file, (piece) => Uint8Array.from(piece));
    });
    const bytes = Buffer.concat(pieces);
    storeBytes = bytes.length;
    const [weights, ...slots] = decodeDense(bytes, densePart);
    start = { weights: weights ?? new Float32Array(0), slots };
  }
  if (starts.length > 0) start = { ...start, weights: meanOf(starts) };
  const { share = 0.5 / spec.devices } = asynchronousOf(job).elastic;
  const server = createDenseServer({ start, elasticity: share });
  return {
    answer: (request) => answerOfDense(server, request),
    cut: () => server.cut(),
    get updates() {
      return server.exchanges;
    },
    storeBytes,
  };
}

function meanOf(weights: readonly SharedArrayBuffer[]): Float32Array {
  const all = weights.map((one) => new Float32Array(one));
  return Float32Array.from(all[0] ?? [], (_, i) => {
    return all.reduce((sum, one) => sum + (one[i] ?? 0), 0) / all.length;
  });
}

async function save(
  store: PartStore,
  { cut, ...about }: { generation: number; cut: number; owner: string },
  served: Served,
) {
  const saving = createSaving({ store, ...about, differential: "none", manifest: undefined });
  for (const part of served.cut()) {
    saving.begin(cut, part.name, true);
    for await (const bytes of part.bytes()) saving.write(bytes);
    saving.end(await part.leaves());
  }
  return saving.finish();
}
