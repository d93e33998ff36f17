// The native kernels: the contract of kernels.ts, implemented by the addon
// (native/bindings/addon.cc). Most calls follow from the table of kernels (src/kernels/table). This
// file has the calls whose arguments must be computed, and the kernels that both implementations
// share. Tensors are typed arrays in JavaScript's memory, as in the reference kernels. The addon
// accesses them only during a call.

import { InstructionSetError } from "../../errors/errors.ts";
import { type Addon, addonOrigin, loadAddon, setOf } from "../../ports/addon.ts";
import type { Kernels, PooledPart, ProductForm, Tensor } from "../contract/kernels.ts";
import {
  createPlacedMemory,
  createRowCache,
  freeSpares,
  growPlaced,
  noSpareLeft,
  placedOf,
  releaseRows,
} from "../contract/row-cache.ts";
import { subtreesOf } from "../contract/slices.ts";
import { batchStatistics, divide, wholeBatchStatistics } from "../reference/batch-statistics.ts";
import { average, clipNorm, clipValues, swap } from "../reference/beside-updates.ts";
import { dJointLogit, jointLogit } from "../reference/exponentials.ts";
import { loss } from "../reference/loss.ts";
import { createMemory, valuesOf as data, HostTensor } from "../reference/memory.ts";
import { rowTrust } from "../reference/row-sums.ts";
import { bindKernels } from "../table/bind.ts";
import { depthOf } from "../table/conditions.ts";
import { listRules, listUndone, precisions } from "../table/lists.ts";

export type InstructionSet = "avx512bf16" | "avx512" | "avx2" | "neon" | "portable";

/** The sets of this architecture, the fastest first (`bestKernels` in native/kernels.cc). */
export const instructionSets: readonly InstructionSet[] =
  process.arch === "arm64" ? ["neon", "portable"] : ["avx512bf16", "avx512", "avx2", "portable"];

/**
 * Limits the native kernels of this thread to one instruction set. Returns false if the processor
 * lacks the set, the addon was compiled without it, or there is no addon.
 */
export function limitIsa(isa: InstructionSet): boolean {
  return loadAddon()?.limitIsa?.(isa) === true;
}

/** Lets the native kernels of this thread use the fastest set of this processor, or of `among`. */
export function resetIsa(among: readonly string[] = instructionSets): boolean {
  return instructionSets.some((isa) => among.includes(isa) && limitIsa(isa));
}

/**
 * Limits the native kernels of this thread to the instruction sets in `named`, as OSIRIS_SETS does;
 * `native`, `all` and no name limit nothing.
 * @throws InstructionSetError where this processor and its kernels have none of them
 */
export function limitTo(named: string): void {
  const names = named.split(/\s+/).filter((name) => name !== "");
  if (names.length === 0 || names.includes("native") || names.includes("all")) return;
  const origin = addonOrigin();
  if (origin === undefined || resetIsa(names)) return;
  const found = instructionSets.filter((isa) => limitIsa(isa));
  resetIsa();
  throw new InstructionSetError(named, found, origin.sets);
}

/**
 * Lets the native kernels of this thread use several threads, which end with it. Threads split the
 * samples, elements or rows of a kernel, and change no bit. Returns the number that the system
 * allowed; the reference kernels use one.
 *
 * @param partNs for tests: least estimated time of a part, in nanoseconds
 */
export function useThreads(threads: number, partNs = 0): number {
  return Number(loadAddon()?.useThreads?.(threads, partNs) ?? 1);
}

/** Whether the addon has code for an instruction set, even if the processor lacks the set. */
export function isCompiledFor(isa: InstructionSet): boolean {
  return addonOrigin()?.sets.includes(isa) === true;
}

/**
 * The native kernels of an addon, by default that of this process, with checked arguments;
 * undefined without an addon. The first call limits this thread to the sets of OSIRIS_SETS.
 * @throws InstructionSetError where OSIRIS_SETS names only sets that this processor cannot run
 */
export function createNative(addon: Addon | undefined = loadAddon()): Kernels | undefined {
  if (addon === undefined) return undefined;
  if (!isLimited) limitTo(process.env.OSIRIS_SETS ?? "");
  isLimited = true;
  const own = {
    arithmetic: String(addon.arithmetic!()),
    set: setOf(addon),
    ...createMemory((length) => aligned(addon, length)),
    rows: createMemory((length) => rowsFromRoom(addon, length)).rows,
    ...shared,
    ...computed(addon),
    ...cache(addon),
  };
  return bindKernels(own, addon);
}

/** Whether this thread has limited its kernels to the sets of OSIRIS_SETS. */
let isLimited = false;

/** The kernels that both implementations share. */
const shared = {
  loss,
  clipNorm,
  clipValues,
  average,
  swap,
  rowTrust,
  jointLogit,
  dJointLogit,
  wholeBatchStatistics,
  batchStatistics,
  divide,
  releaseRows,
  freeSpares,
};

/**
 * Zeroed elements aligned to a cache line, so that a row never spans one line more than needed. The
 * memory is on large pages if the system provides them, as the processor's prefetcher stops at a
 * page's end.
 */
function aligned(addon: Addon, length: number): Float32Array {
  const room = new Float32Array(length + 15);
  addon.useLargePages!(room);
  const first = Number(addon.skewOf!(room));
  return room.subarray(first, first + length);
}

/** Floats of a memory block that small tables share. Its untouched pages take no memory. */
const roomFloats = 2 ** 23;

/** The unused rest of the present block, by addon. */
const rooms = new WeakMap<Addon, Float32Array>();

/**
 * Allocates rows. Small tables share a block, because arrays of their own would be on small pages,
 * and each access to a row of many tables would need another address translation. All kernels of a
 * thread share it, as V8 counts a block as fully used, and collects garbage after every few blocks.
 */
function rowsFromRoom(addon: Addon, length: number): Float32Array {
  const whole = 16 * Math.ceil(length / 16);
  if (whole > roomFloats / 4) return aligned(addon, length);
  let room = rooms.get(addon);
  if (room === undefined || whole > room.length) room = aligned(addon, roomFloats);
  rooms.set(addon, room.subarray(whole));
  return room.subarray(0, length);
}

/** Outputs in a panel of packed weights, as in native/dense/packed.h. */
const packedOutputs = 64;

/** The order of `ProductForm` in native/kernels.h. */
const forms: readonly ProductForm[] = ["ab", "abT", "aTb"];

/** The kernels with arguments of the addon that must be computed. */
function computed(addon: Addon) {
  return {
    packLayer(w) {
      const [outputs = 0, inputs = 0] = w.shape;
      const panels = Math.ceil(outputs / packedOutputs);
      const packed = aligned(addon, panels * packedOutputs * inputs);
      addon.packLayer!(packed, data(w), inputs, outputs);
      return new HostTensor([outputs, inputs], packed);
    },
    dropout(x, key, purpose, step, firstSample, rate) {
      const n = data(x).length;
      const first = firstSample * (n / Math.max(1, x.shape[0]!));
      const limit = Math.floor(rate * 2 ** 32);
      addon.dropout!(data(x), n, key[0], key[1], purpose, step, first, 1 - rate, limit);
    },
    products(out, a, b, form, plus = []) {
      const [samples, rows, columns] = out.shape;
      const isShared = a.shape.length === 2;
      const numbers = [samples, rows, columns, depthOf(a, form), isShared, forms.indexOf(form)];
      addon.products!(data(out), data(a), data(b), ...numbers, plus.map(data));
    },
    foldPooled(out, outFirst, parts, blocks, columns, lengths, precision = "float32", scale = 1) {
      const all = [...withGaps(parts, blocks)];
      const froms = all.map(({ from }) => data(from ?? out));
      const numbers = all.map(({ from, first, tree }) => {
        const width = from === undefined ? 0 : widthOf(from);
        return [first, width, tree.first, tree.count];
      });
      const operands = [data(out), outFirst, widthOf(out), froms, Int32Array.from(numbers.flat())];
      const code = precisions.indexOf(precision);
      addon.foldPooled!(...operands, out.shape[0], columns, lengths, code, scale);
    },
    rowMeans(squares, quanta, dim) {
      const means = new Float32Array((squares[0]?.length ?? 0) / (quanta[0] ?? 1));
      addon.rowMeans!(means, squares, Int32Array.from(quanta), means.length, dim);
      return means;
    },
    applyFlat(w, slots, g, rule) {
      const [state = w, second = state] = slots;
      const tensors = [w, state, second, g].map(data);
      return addon.applyFlat!(listRules(rule), ...tensors, data(w).length) === true;
    },
    keepRows({ bytes, used }, tiles, ids, ranges) {
      return addon.keepRows!(bytes, used, ...listUndone(tiles), ids, ranges) === true;
    },
  } satisfies Partial<Kernels>;
}

/** The columns of a tensor (B, ·) with at least one sample. */
function widthOf(t: Tensor): number {
  return data(t).length / t.shape[0]!;
}

/** A part of a table, or a gap, which stands for blocks without a part. */
type PartOrGap = Omit<PooledPart, "from"> & { readonly from?: Tensor };

/** The parts, with gaps inserted so that they cover all blocks. */
function* withGaps(parts: readonly PooledPart[], blocks: number): Generator<PartOrGap> {
  let end = 0;
  for (const part of parts) {
    for (const tree of subtreesOf(end, part.tree.first - end)) yield { first: 0, tree };
    yield part;
    end = part.tree.first + part.tree.count;
  }
  for (const tree of subtreesOf(end, blocks - end)) yield { first: 0, tree };
}

/** The index of a cache, with memory where a set takes two cache lines. */
function cache(addon: Addon) {
  const found = new Int32Array(5);
  const allocate = (bytes: number): Float32Array => {
    const memory = aligned(addon, Math.ceil(bytes / 4));
    addon.useLargePages!(memory);
    return memory;
  };
  return {
    rowCache: (spec) => createRowCache(spec, allocate),
    placeRows(cache, places, ids, tick, memory = createPlacedMemory()) {
      growPlaced(memory, cache, ids.length);
      const { rowOf, stamps, pins, counts, spareTable, spareFree, head, sets } = cache;
      const index = [rowOf, stamps, pins, counts, spareTable, spareFree, head, sets];
      const isPlaced = addon.placeRows!(...index, places, ids, tick, memory.words, found);
      if (isPlaced !== true) throw noSpareLeft(cache);
      return placedOf(memory, ids.length, found);
    },
  } satisfies Partial<Kernels>;
}
