// Writes a large checkpoint without training: rows in every precision, all of them stored, split
// into tiles as several devices split them, and a table that was never trained. The rows repeat one
// chunk of drawn numbers, so that disk and hashes dominate the work; the digest is right.

import { decodeRows, encodeRows } from "../../src/embedding/checkpoint/rows-part.ts";
import { addSum, leavesOfSums, rowHashing } from "../../src/embedding/rows/digest.ts";
import { quantaOf } from "../../src/embedding/rows/slab.ts";
import { rowStateOf } from "../../src/embedding/tables/row-state.ts";
import { extentOf } from "../../src/embedding/tables/shards.ts";
import { type JobSpec, jobIdentity, resolveJob } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import type { Tile } from "../../src/planner/shards.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { densePart, digestOf, partNameOf } from "../../src/training/checkpoint/part-names.ts";
import { type Part, partsOf } from "../../src/training/checkpoint/parts.ts";
import { createSoloDevice } from "../../src/training/loop/inference-device.ts";
import type {
  CheckpointStore,
  PartRecord,
} from "../../storage/checkpoints/store/checkpoint-store.ts";
import { openStore } from "../../storage/checkpoints/store/open-store.ts";

const dim = 64;
const chunkRows = 4096;

/** Each table's share of the exported bytes, and the tiles that its rows are split into. */
const cuts = [
  { name: "unseen", share: 10 / 24, precision: "float32", tiles: [] },
  {
    name: "columns",
    share: 2 / 24,
    precision: "float32",
    tiles: [
      [0, 2, 0, 1],
      [0, 2, 1, 1],
      [2, 2, 0, 2],
    ],
  },
  {
    name: "half",
    share: 4 / 24,
    precision: "float16",
    tiles: [
      [0, 1, 0, 2],
      [1, 1, 0, 2],
      [2, 2, 0, 2],
    ],
  },
  { name: "byte", share: 8 / 24, precision: "int8", tiles: [[0, 4, 0, 2]] },
] as const;

function jobOf(directory: string, rowsOf: (share: number) => number) {
  const tables = cuts.map(({ name, share, precision }) => {
    return { name, rows: rowsOf(share), dim, precision, rowBlocks: 4 as const };
  });
  return resolveJob({
    model: { kind: "dlrm", dense: 13, tables, bottom: [64], top: [64, 1] },
    data: { kind: "synthetic", samples: 64, dense: 13, batchSize: 64 },
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
    checkpoint: { directory },
  });
}

/** Writes a checkpoint whose tables have `bytes` as float32. Returns the bytes of its files. */
export async function drawCheckpoint(directory: string, bytes: number): Promise<number> {
  const job = jobOf(directory, (share) => 4 * Math.ceil((share * bytes) / (16 * dim)));
  const identity = { jobIdentity: jobIdentity(job), jobText: JSON.stringify(job) };
  const store = openStore({ directory, ...identity });
  const { generation } = store.beginGeneration();
  const leaves = new Map<string, readonly string[]>();
  const parts: PartRecord[] = [];
  const dense = denseOf(directory);
  const writer = store.packWriter(generation, 1, "drawn");
  const write = async (part: Part) => {
    writer.begin(part.name);
    for await (const piece of part.bytes()) writer.write(piece);
    parts.push(writer.end());
    leaves.set(part.name, await part.leaves());
  };
  await write(dense);
  for (const [table, { tiles }] of cuts.entries()) {
    const whole = [[0, 4, 0, quantaOf(dim)]] as const;
    for (const cut of tiles.length === 0 ? whole : tiles) {
      const [firstBlock, blocks, firstQuantum, quanta] = cut;
      const tile = { firstBlock, blocks, firstQuantum, quanta };
      await write(await drawnPart(job, table, tile, tiles.length === 0));
    }
  }
  writer.finish();
  const modelDigest = digestOf(leaves, job.model.tables);
  commit(store, { generation, parts, modelDigest });
  return parts.reduce((sum, part) => sum + part.bytes, 0);
}

function commit(
  store: CheckpointStore,
  made: { generation: number; parts: PartRecord[]; modelDigest: string },
): void {
  const about = { run: "drawn", metrics: null, position: null, best: false };
  const { arithmetic } = openKernels("auto");
  store.commit({ ...about, ...made, cut: 1, arithmetic, createdBy: "a bench" });
}

/** The dense part, made by a device of the same network with small tables. */
function denseOf(directory: string): Part {
  const { model, slices, optimizer, seed } = jobOf(directory, () => 4);
  const idsMax = model.tables.map(() => 1);
  const input = { model, slices, idsMax, weighted: idsMax.map(() => false), batchSize: 4 };
  const device = createSoloDevice({
    input,
    recipe: { optimizer, seed },
    kernels: openKernels("auto"),
  });
  const found = partsOf(device).find(({ name }) => name === densePart);
  if (found === undefined) throw new RangeError("no dense part");
  return found;
}

/** A part with all rows of a tile, or with none. Its leaves are known once its bytes were read. */
async function drawnPart(job: JobSpec, table: number, tile: Tile, isEmpty: boolean): Promise<Part> {
  const spec = job.model.tables[table];
  if (spec === undefined) throw new RangeError(`no table ${table}`);
  const { firstRow, rows: count, columns } = extentOf(spec, tile);
  const state = rowStateOf(job.optimizer.sparse);
  const width = state.perElement * columns + state.perRow;
  const hashing = rowHashing({ ...tile, columns }, spec.dim, state);
  const sums = new Uint32Array(hashing.words);
  const stream = new RandomStream(7, 1, 100 + table);
  const draw = (length: number, scale: number) =>
    Float32Array.from({ length }, () => (stream.uniform() - 0.5) * scale);
  const drawn = {
    rows: Int32Array.from({ length: chunkRows }, (_, i) => i),
    weights: draw(chunkRows * columns, 0.1),
    // Tiles side by side have the same state of their rows.
    state: Float32Array.from({ length: chunkRows * width }, (_, i) => 1 + i / chunkRows),
  };
  const encoded: Uint8Array[] = [];
  for await (const piece of encodeRows(columns, width, [drawn], spec.precision))
    encoded.push(piece);
  const expect = { dim: columns, width, path: spec.name };
  const [stored] = [...decodeRows(Buffer.concat(encoded), expect)];
  if (stored === undefined) throw new RangeError("no rows");
  const name = partNameOf({ ...tile, table }, job.model.tables);
  return {
    name,
    leaves: async () => leavesOfSums(sums),
    async *bytes() {
      const [header = new Uint8Array()] = encoded;
      yield header;
      for (let first = firstRow; first < firstRow + (isEmpty ? 0 : count); first += chunkRows) {
        const n = Math.min(chunkRows, firstRow + count - first);
        const rows = Int32Array.from({ length: n }, (_, i) => first + i);
        const records = { ...stored, rows };
        for (let i = 0; i < n; i++) addSum(sums, hashing.of(records, i));
        if (n === chunkRows) {
          const [, number, , weights, states] = encoded;
          for (const piece of [number, new Uint8Array(rows.buffer), weights, states]) {
            yield piece ?? new Uint8Array();
          }
          continue;
        }
        const last = {
          rows,
          weights: stored.weights.subarray(0, n * columns),
          state: stored.state.subarray(0, n * width),
        };
        const pieces: Uint8Array[] = [];
        for await (const piece of encodeRows(columns, width, [last], spec.precision))
          pieces.push(piece);
        yield* pieces.slice(1, -1);
      }
      yield new Uint8Array(4);
    },
  };
}
