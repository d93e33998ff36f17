// The parts of a checkpoint: a device writes them at a cut, and reads them after a failure. A part
// belongs to the job (the dense network, a tile of a table), never to a device, so that any number
// of devices can load it under any plan.
//
//   dense:  "OSRD" | version u32 | n u32 | slots u32 | w f32*n | slot f32*n …      (device 0)
//   table-00003:  rows-part.ts                                (its device; copies: device 0)
//   ids-00003:  ids-part.ts                                   (its device)
//   residuals-4.2:  residuals-part.ts                         (its device)

import { createHash } from "node:crypto";
import { encodeIds, idLeavesOf, restoreIds } from "../../embedding/checkpoint/ids-part.ts";
import type { Slab } from "../../embedding/rows/slab.ts";
import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import { rowStateWidth } from "../../embedding/tables/row-state.ts";
import { CheckpointCorruptError } from "../../errors/errors.ts";
import { packedBytes } from "../../kernels/contract/precision.ts";
import type { SliceRun } from "../../planner/placement.ts";
import type { DeviceState } from "../step/device-state.ts";
import { residualLengths } from "../topology/gradient-trees.ts";
import type { HeldShard } from "../topology/held-shard.ts";
import { shardsOn } from "../topology/private-memory.ts";
import { type Topology, tableOf } from "../topology/topology.ts";
import type { CheckpointSpec } from "./checkpoint-options.ts";
import { densePart, idsOfPart, idsPartNameOf, residualsOfPart, tableOfPart } from "./part-names.ts";
import { residualsBytes, residualsParts, restoreResiduals } from "./residuals-part.ts";
import { placesIn, placesOf, restoreRows, rowsPartsOf } from "./table-parts.ts";

/** A part as it is written: its bytes in chunks, and the hashes of their logical content. */
export interface Part {
  readonly name: string;
  /**
   * Hashes of the logical content, independent of placement and of chunking: the sha256 of the
   * dense part, the leaves of a tile (digest.ts).
   */
  leaves(): Promise<string[]>;
  bytes(): AsyncIterable<Uint8Array>;
}

/** A part of a cut. Its bytes are read first, and only once; then its leaves. */
export interface CutPart extends Part {
  /**
   * Whether the part has all rows. Otherwise it has only changed rows, and a restore also needs the
   * earlier parts that it is an increment of.
   */
  readonly isWhole: boolean;
}

/** Returns the parts that this device writes. */
export function partsOf(device: DeviceState): Part[] {
  return survivingParts(device, device.rank === 0);
}

/**
 * Returns the parts that this device writes in partial recovery; `isFirst`: whether it is the
 * survivor that writes the parts all devices share.
 */
export function survivingParts(device: DeviceState, isFirst: boolean): Part[] {
  const rows = ownSlabs(device).flatMap((slab) => rowsParts(device, slab));
  const parts = [...rows, ...idsParts(device), ...residualsParts(device)];
  if (!isFirst) return parts;
  return [denseOf(device), ...parts, ...rowsParts(device, device.replicas)];
}

/**
 * Creates the function that takes the cuts of a device that has just been restored from the parts
 * `restored`, or newly initialised. The function returns the parts of a cut, each to be read before
 * the next; `isBaseline`: all of them whole.
 */
export function createCutter(
  device: DeviceState,
  options: {
    readonly differential: CheckpointSpec["differential"];
    readonly restored: readonly { readonly name: string }[];
    /**
     * Shards with rows that were kept instead of restored: their changes since a cut are unknown.
     */
    readonly kept?: ReadonlySet<number>;
    /** Shards whose hashes and marks are in place, as of the cut (row-keeper.ts). */
    readonly inPlace?: ReadonlySet<number>;
  },
): (isBaseline: boolean) => CutPart[] {
  const since = options.differential === "consecutive" ? "sinceCut" : "sinceBaseline";
  /** Names of the parts whose unchanged rows an earlier checkpoint holds. */
  const known = new Set<string>();
  const restored = new Set(options.restored.map(({ name }) => name));
  const own = [...ownSlabs(device), ...(device.rank === 0 ? [device.replicas] : [])];
  const parts = own.flatMap((slab) =>
    rowsParts(device, slab).map((part, at) => ({ ...part, slab, at })),
  );
  if (options.differential !== "none") {
    // The next cut must be whole for kept shards, and for tiles that `restored` cuts otherwise.
    for (const { name, slab, at } of parts) {
      const shard = slab.shards[at]?.shard ?? -1;
      if (!restored.has(name) || options.kept?.has(shard) === true) continue;
      if (options.inPlace?.has(shard) !== true) slab.resume(at);
      known.add(name);
    }
  }
  const dense = device.rank === 0 ? [denseOf(device)] : [];
  return (isBaseline) => [
    ...[...dense, ...idsParts(device), ...residualsParts(device)].map((part) => ({
      ...part,
      isWhole: true,
    })),
    ...parts.map(({ name, encode, slab, at }): CutPart => {
      const isWhole = isBaseline || !known.has(name);
      known.add(name);
      return {
        name,
        isWhole,
        bytes: () => encode(slab.cut(at, isWhole ? "whole" : since)),
        leaves: async () => slab.leaves(at),
      };
    }),
  ];
}

/** Upper bound of the bytes that a device saves at a cut, framing included. */
export function savedBytesMax(
  topology: Topology,
  rank: number,
  optimizer: SparseOptimizerSpec,
): number {
  const { heldBy, distinctBy, replicated, graph, input } = topology;
  const own = [heldBy[rank] ?? [], distinctBy[rank] ?? [], rank === 0 ? replicated : []].flat();
  const bytes = own.map(({ table, rows, columns }) => {
    const { precision, dynamic } = tableOf(input.model.tables, table);
    const record = packedBytes(1, columns, precision) + 4 * rowStateWidth(optimizer, columns);
    const lookups = input.batchSize * (topology.idsMaxOf[table] ?? 0);
    // Ids with rows, and candidates seen since the eviction step before the last.
    const ids = dynamic === undefined ? 0 : 20 * rows + 16 * lookups * 2 * dynamic.everySteps;
    return rows * (4 + record) * 1.01 + 4096 + ids;
  });
  const dense = rank === 0 ? 4 * graph.layout.length * (1 + denseSlotsMax) : 0;
  const residuals = residualsBytes(residualLengths(topology, rank));
  return Math.ceil(bytes.reduce((sum, one) => sum + one, dense + residuals + 65_536));
}

/** Maximum of the optimizer's dense tensors: two of Adam or LAMB, and a moving average. */
const denseSlotsMax = 3;

/**
 * Returns the parts of a checkpoint that overlap this device's shards, except rows of `kept`
 * shards, which are in place. They are in the order of restoring: a table's ids before its rows.
 */
export function partsNeeded(
  device: DeviceState,
  names: readonly string[],
  kept: ReadonlySet<number> = new Set(),
): string[] {
  const { topology, rank, exchange } = device;
  const runs =
    exchange.gradients.residuals.length > 0 ? topology.sliceRuns.slice(rank, rank + 1) : [];
  return partsOfShards(topology, { shards: shardsOn(topology, rank), runs }, names, kept);
}

/**
 * Returns the parts of a checkpoint that overlap the given shards and slices, on whichever devices
 * these are; see `partsNeeded`.
 */
export function partsOfShards(
  { input }: Topology,
  { shards, runs }: { readonly shards: readonly HeldShard[]; readonly runs: readonly SliceRun[] },
  names: readonly string[],
  kept: ReadonlySet<number> = new Set(),
): string[] {
  const { tables } = input.model;
  const places = placesOf(shards);
  const meets = (first: number, count: number, ownFirst: number, ownCount: number) =>
    first < ownFirst + ownCount && ownFirst < first + count;
  const needed: { readonly ids: string[]; readonly others: string[] } = { ids: [], others: [] };
  for (const name of names) {
    const ids = idsOfPart(name, tables);
    const part = tableOfPart(name, tables);
    const isNeeded = (places.get((ids ?? part)?.table ?? -1) ?? []).some((at) => {
      const own = shards[at];
      if (own === undefined) return false;
      if (ids !== undefined) return meets(ids.firstBlock, ids.blocks, own.firstBlock, own.blocks);
      if (part === undefined || kept.has(own.shard)) return false;
      return (
        meets(part.firstBlock, part.blocks, own.firstBlock, own.blocks) &&
        meets(part.firstQuantum, part.quanta, own.firstQuantum, own.quanta)
      );
    });
    const residuals = residualsOfPart(name);
    const isKept = runs.some(({ firstSlice, slices }) => {
      return residuals && meets(residuals.first, residuals.count, firstSlice, slices);
    });
    if (isNeeded || isKept || name === densePart)
      (ids === undefined ? needed.others : needed.ids).push(name);
  }
  return [...needed.ids, ...needed.others];
}

/**
 * Restores a part; its rows go into all shards but the `kept` ones. `layers` has the bytes of its
 * files in pieces; reading a piece overwrites the one before. The newest file comes first, and wins
 * for the rows that it has; the last file is whole. In a table with dynamic ids only rows that an
 * id owns are restored: the ids of the other rows were evicted after the layer was written.
 * `withElements`: whether the part has the optimizer's state of elements; if not, it is 0.
 * @throws CheckpointCorruptError
 */
export async function restorePart(
  device: DeviceState,
  name: string,
  layers: readonly Iterable<Uint8Array>[],
  kept: ReadonlySet<number> = new Set(),
  withElements = true,
): Promise<void> {
  const { tables } = device.topology.input.model;
  const ids = idsOfPart(name, tables);
  if (ids !== undefined) {
    const own = placesIn(device.slab, ids.table).flatMap((at) => device.ids[at] ?? []);
    for (const layer of layers) restoreIds(own, layer, name);
    return;
  }
  if (residualsOfPart(name) !== undefined) {
    for (const layer of layers) restoreResiduals(device, wholeOf(layer), name);
    return;
  }
  const part = tableOfPart(name, tables);
  if (part === undefined) {
    for (const layer of layers) restoreDense(device, wholeOf(layer), name);
    return;
  }
  const { sparse } = device.recipe.optimizer;
  const slabs = [...ownSlabs(device), device.replicas];
  const isOwned = (slab: Slab, at: number) => {
    const own = slab === device.slab ? device.ids[at] : undefined;
    return own && ((row: number) => own.hasRow(row));
  };
  await restoreRows({ tables, sparse, slabs, isOwned }, name, layers, kept, withElements);
}

/** Slabs of the shards that only this device has. */
function ownSlabs({ slab, distinct }: DeviceState): Slab[] {
  return [slab, ...distinct.slabs];
}

function rowsParts(device: DeviceState, slab: Slab) {
  const { tables } = device.topology.input.model;
  return rowsPartsOf({ tables, sparse: device.recipe.optimizer.sparse }, slab);
}

/** The parts with the map from dynamic ids to rows, and the candidate ids without a row. */
function idsParts({ ids, topology }: DeviceState): Part[] {
  return ids.flatMap((own) => {
    if (own === undefined) return [];
    return {
      name: idsPartNameOf(own.shard, topology.input.model.tables),
      leaves: async () => idLeavesOf(own),
      bytes: async function* () {
        yield* encodeIds(own);
      },
    };
  });
}

const magic = 0x4452_534f;
const version = 1;
/** Size of the header before the tensors of the dense part. */
export const denseHeaderBytes = 16;

function denseOf(device: DeviceState): Part {
  const { kernels, network, denseState } = device;
  const tensors = [network.flat, ...denseState.slots];
  const length = device.topology.graph.layout.length;
  return {
    name: densePart,
    async leaves() {
      const hash = createHash("sha256");
      for (const tensor of tensors) hash.update(bytesOf(kernels.read(tensor)));
      return [hash.digest("hex")];
    },
    async *bytes() {
      yield headerOf(length, denseState.slots.length);
      for (const tensor of tensors) yield bytesOf(kernels.read(tensor));
    },
  };
}

/** The bytes of the dense part: parameters (n), then optimizer slots (n) each. */
export function* encodeDense(
  flat: Float32Array,
  slots: readonly Float32Array[],
): Generator<Uint8Array> {
  yield headerOf(flat.length, slots.length);
  for (const tensor of [flat, ...slots]) yield bytesOf(tensor);
}

function headerOf(length: number, slots: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(magic, version, length, slots).buffer);
}

function wholeOf(pieces: Iterable<Uint8Array>): Uint8Array {
  return Buffer.concat(Array.from(pieces, (piece) => Uint8Array.from(piece)));
}

function restoreDense(device: DeviceState, bytes: Uint8Array, name: string): void {
  const { kernels, network, denseState } = device;
  for (const [i, values] of decodeDense(bytes, name).entries()) {
    const tensor = i === 0 ? network.flat : denseState.slots[i - 1];
    if (tensor === undefined || values.length !== (tensor.shape[0] ?? 0)) {
      throw new CheckpointCorruptError(name, "it holds another model or optimizer");
    }
    kernels.write(tensor, values);
  }
}

/** Returns the parameters, then the optimizer slots, each flat. @throws CheckpointCorruptError */
export function decodeDense(bytes: Uint8Array, name: string): Float32Array[] {
  const aligned = new Uint8Array(bytes); // A copy, from the start of its buffer.
  if (aligned.byteLength < denseHeaderBytes)
    throw new CheckpointCorruptError(name, "it has no header");
  const [first, second, length = 0, slots = 0] = new Uint32Array(aligned.buffer, 0, 4);
  const wanted = denseHeaderBytes + 4 * length * (1 + slots);
  if (first !== magic || second !== version || aligned.byteLength !== wanted) {
    throw new CheckpointCorruptError(name, `${aligned.byteLength} bytes, expected ${wanted}`);
  }
  return Array.from(
    { length: 1 + slots },
    (_, i) => new Float32Array(aligned.buffer, denseHeaderBytes + 4 * length * i, length),
  );
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
