// What a machine can do, as numbers: the constants of the cost model. The defaults are those of
// TorchRec's planner (constants.py, for V100-class devices); `osiris plan --calibrate` measures
// this machine's.

import { z } from "zod";
import { checkOptions } from "../ports/check-options.ts";

const rate = z.number().positive();
const factor = z.number().min(0);

/** Bytes a second of each collective, per device, counted as the cost model counts (cost.ts). */
const linkSchema = (usual: number) =>
  z
    .strictObject({
      allToAll: rate.default(usual),
      reduceScatter: rate.default(usual),
      allGather: rate.default(usual),
      allReduce: rate.default(usual),
    })
    .prefault({});

const constantsSchema = z.strictObject({
  /** Where the numbers come from, for people. */
  source: z.string().default("V100-class devices (the defaults)"),
  /** Bytes of memory that a device has for all that it holds. */
  memoryBytes: z.number().min(0).default(32e9),
  /** Bytes a second that lookups read from a device's memory. */
  memoryBandwidth: rate.default(897e9),
  /** Bytes a second from the tier below a cache. */
  lowerBandwidth: rate.default(32e9),
  /** Between devices of one host. */
  insideHost: linkSchema(600e9),
  /** Between hosts. */
  acrossHosts: linkSchema(12.5e9),
  /** Floating-point operations a second of the dense layers on one device. */
  denseFlops: rate.default(10e12),
  /** How much dearer a byte is where rows are narrow: by columns of the shard. */
  narrowPenalty: z
    .strictObject({
      below64: factor.default(1.75),
      below128: factor.default(1.15),
    })
    .prefault({}),
  /** Narrower rows are read as if they had so many columns. */
  columnsMin: z.int().min(1).default(32),
  /** How much dearer lookups are where a shard has several row blocks: their tree. */
  blocksFactor: factor.default(1),
  /** Backward with the fused update, in forwards; besides, seconds of each id: they are sorted. */
  backwardFactor: factor.default(2),
  sortSeconds: factor.default(0),
  /** Passes over the distinct rows of a batch that their update costs besides. */
  rowPasses: factor.default(0),
  /** Seconds for each distinct row whose sums are told to the devices of its other columns. */
  rowSumSeconds: factor.default(0),
  /** Share of the memory bandwidth that a data-parallel table's lookups reach. */
  denseShare: rate.default(0.5),
  /** Passes over a data-parallel table that its optimizer costs. */
  denseUpdatePasses: factor.default(9.22),
  /** Passes over row-wise gradients that are gathered: their copy. */
  gatherCopies: factor.default(2.455),
  /** Share of a table's rows that its cache holds. */
  cacheLoad: z.number().gt(0).max(1).default(0.2),
  /** Seconds of each id on its way into a shard, besides its bytes. */
  idSeconds: factor.default(0),
  /** Seconds of each id of a table that is looked at for each of the parts of its rows. */
  dealSeconds: factor.default(0),
  /** Copies of a batch's ids that a pipeline holds, without and with prefetch into a cache. */
  inputCopies: factor.default(2),
  prefetchInputCopies: factor.default(3),
  /** What is held back: copies of the dense parameters, and of one batch of ids. */
  denseReserve: factor.default(6),
  idReserve: factor.default(20),
  /** Bytes on the wire: of an id, of a bag's length, of an element forward and backward. */
  idBytes: rate.default(4),
  lengthBytes: rate.default(4),
  forwardBytes: rate.default(4),
  backwardBytes: rate.default(4),
});

/** The constants of the cost model. */
export type MachineConstants = z.output<typeof constantsSchema>;

/** V100-class devices, with this runtime's 4-byte ids and float32 on the wire. */
export const defaultConstants: MachineConstants = checkOptions(constantsSchema, {});

/** Constants as a file has them; those left out are the defaults. @throws InvalidOptionError */
export function checkConstants(value: unknown): MachineConstants {
  return checkOptions(constantsSchema, value, "constants");
}
