// The constants of the cost model: the speeds and sizes of a machine. The defaults are the
// constants of TorchRec's planner (constants.py, for V100-class devices), `--constants v100`;
// `osiris plan` measures this machine's.

import { z } from "zod";
import { checkOptions } from "../../ports/check-options.ts";
import { rowCostNames } from "./row-costs.ts";
import { deviceCostNames, readCostNames, speedNames } from "./step-costs.ts";

const rate = z.number().positive();
const factor = z.number().min(0);

/** Bytes per second of each collective, per device, counted as the cost model counts (cost.ts). */
const linkSchema = (usual: number) =>
  z
    .strictObject({
      allToAll: rate.default(usual),
      reduceScatter: rate.default(usual),
      allGather: rate.default(usual),
      allReduce: rate.default(usual),
    })
    .prefault({});

const costNames = [...deviceCostNames, ...readCostNames] as const;
const noCost = z.number().min(0).default(0);
const usualSpeed = rate.default(1);

/** An object schema's fields: `schema` for each of the names. */
function fieldsOf<Name extends string, Schema>(names: readonly Name[], schema: Schema) {
  return Object.fromEntries(names.map((name) => [name, schema])) as Record<Name, Schema>;
}

/** Costs of rows with `columns` columns (row-costs.ts). */
const rowCostsSchema = z.strictObject({
  columns: z.int().min(1),
  ...fieldsOf(rowCostNames, factor),
});

/** Remaining costs of a step (step-costs.ts); a cost that is left out is 0, a speed 1. */
const stepCostsSchema = z.strictObject({
  devices: z.int().min(1),
  ...fieldsOf(speedNames, usualSpeed),
  ...fieldsOf(costNames, noCost),
});

/** Schema of the constants, as a file of `osiris plan --calibrate` has them. */
export const constantsSchema = z.strictObject({
  /** The source of the numbers, for display. */
  source: z.string().default("V100-class devices (the defaults)"),
  /** Bytes of memory of a device, for everything that it holds. */
  memoryBytes: z.number().min(0).default(32e9),
  /**
   * Bytes of memory that the devices of a host share for the rows of cached tables, which then have
   * no disk below. Left out: each device has memory of its own (`tiers.ddrBytes`), and a disk.
   */
  hostMemoryBytes: z.number().min(0).optional(),
  /** Bytes of disk below the caches, which the devices of a host share. Left out: not counted. */
  diskBytes: z.number().min(0).optional(),
  /** Bytes per second that lookups read from a device's memory. */
  memoryBandwidth: rate.default(897e9),
  /** Bytes per second from the tier below a cache. */
  lowerBandwidth: rate.default(32e9),
  /** Between devices of one host. */
  insideHost: linkSchema(600e9),
  /** Between hosts. */
  acrossHosts: linkSchema(12.5e9),
  /** Seconds of a round of the exchange between hosts, beside those of its bytes. */
  hostRoundSeconds: factor.default(0),
  /** Floating-point operations per second of the dense layers on one device. */
  denseFlops: rate.default(10e12),
  /** Cost factor of a byte in narrow rows, by columns of the shard. */
  narrowPenalty: z
    .strictObject({
      below64: factor.default(1.75),
      below128: factor.default(1.15),
    })
    .prefault({}),
  /** Narrower rows cost as much as rows with this many columns. */
  columnsMin: z.int().min(1).default(32),
  /** Cost factor of lookups of long bags in a shard with several row blocks: sums form a tree. */
  blocksFactor: factor.default(1),
  /** Backward pass with fused update, as a multiple of forward. */
  backwardFactor: factor.default(2),
  /**
   * Measured costs of rows on a CPU, by columns; empty: rows cost by their bytes and the factors
   * above.
   */
  rows: z.array(rowCostsSchema).default([]),
  /** Seconds to send the sums of a distinct row to the devices with its other columns. */
  rowSumSeconds: factor.default(0),
  /** Share of the memory bandwidth that lookups of a data-parallel table reach. */
  denseShare: rate.default(0.5),
  /** Passes over a data-parallel table that its optimizer update takes. */
  denseUpdatePasses: factor.default(9.22),
  /** Seconds to sort an id for the update of its row, where `rows` do not have them. */
  idSortSeconds: factor.default(0),
  /** Passes over gathered row-wise gradients: their copy. */
  gatherCopies: factor.default(2.455),
  /** Share of a table's rows that its cache holds. */
  cacheLoad: z.number().gt(0).max(1).default(0.2),
  /** Seconds to send an id to a shard, in addition to the time for its bytes. */
  idSeconds: factor.default(0),
  /** Seconds to compare an id of a table with the row range of one shard. */
  dealSeconds: factor.default(0),
  /** Copies of a batch's ids that a pipeline holds, without and with prefetch into a cache. */
  inputCopies: factor.default(2),
  prefetchInputCopies: factor.default(3),
  /** Memory held back: copies of the dense parameters, and copies of one batch of ids. */
  denseReserve: factor.default(6),
  idReserve: factor.default(20),
  /** Bytes on the wire: of an id, of a bag's length, of an element forward and backward. */
  idBytes: rate.default(4),
  lengthBytes: rate.default(4),
  forwardBytes: rate.default(4),
  backwardBytes: rate.default(4),
  /**
   * Cores of a host; more devices than cores share them in turns. Left out: one for each device.
   */
  cores: z.int().min(1).optional(),
  /** Remaining costs of a step, by the number of devices of a host. Empty: no such costs. */
  steps: z.array(stepCostsSchema).default([]),
});

/** The constants of the cost model. */
export type MachineConstants = z.output<typeof constantsSchema>;

/** V100-class devices, with this runtime's 4-byte ids and float32 on the wire. */
export const defaultConstants: MachineConstants = checkOptions(constantsSchema, {});

/**
 * A core of a small cloud server (two cores of an AMD EPYC, native kernels), measured by
 * `osiris plan --calibrate` and rounded: for runs on a machine without a calibration. Devices of
 * this runtime are cores, so that these constants are closer than those of any GPU.
 */
export const serverConstants: MachineConstants = checkOptions(constantsSchema, {
  source: "a core of a small server (this machine was not measured)",
  memoryBandwidth: 16e9,
  insideHost: { allToAll: 9.8e9, reduceScatter: 9.8e9, allGather: 9.8e9, allReduce: 37e9 },
  denseFlops: 221e9,
  blocksFactor: 3,
  rows: [
    {
      ...{ columns: 8, lookupId: 1.3e-9, lookupRow: 13e-9, vector: 11e-9 },
      ...{ updateId: 11e-9, updateRow: 44e-9, sumsId: 8.5e-9, sumsRow: 10e-9 },
    },
    {
      ...{ columns: 32, lookupId: 1.4e-9, lookupRow: 3.9e-9, vector: 11e-9 },
      ...{ updateId: 10e-9, updateRow: 2.7e-9, sumsId: 9.3e-9, sumsRow: 8.5e-9 },
    },
    {
      ...{ columns: 64, lookupId: 2.2e-9, lookupRow: 6.8e-9, vector: 11e-9 },
      ...{ updateId: 13e-9, updateRow: 5.4e-9, sumsId: 11e-9, sumsRow: 9.4e-9 },
    },
    {
      ...{ columns: 128, lookupId: 4.5e-9, lookupRow: 28e-9, vector: 9.9e-9 },
      ...{ updateId: 20e-9, updateRow: 15e-9, sumsId: 19e-9, sumsRow: 11e-9 },
    },
  ],
  rowSumSeconds: 12e-9,
  denseShare: 1,
  denseUpdatePasses: 6.1,
  idSeconds: 2.2e-9,
  dealSeconds: 5.9e-9,
  steps: [
    {
      ...{ devices: 1, rowSpeed: 1.07, denseSpeed: 1.04, step: 35e-6, shard: 4.6e-6 },
      ...{ element: 0.4e-9, id: 5.9e-9 },
      ...{ activation: 0.32e-9, product: 0.025e-9, layer: 4.4e-6, parameter: 0.85e-9 },
      ...{ readBatch: 5.1e-6, readSample: 100e-9, readBag: 9.8e-9, readId: 3.4e-9 },
    },
    {
      ...{ devices: 2, step: 210e-6, shard: 13e-6 },
      ...{ vector: 34e-9, element: 0.43e-9, id: 27e-9 },
      ...{ activation: 0.78e-9, layer: 7.2e-6, parameter: 1.7e-9 },
      ...{ readBatch: 15e-6, readSample: 120e-9, readBag: 8.9e-9, readId: 4.7e-9 },
    },
  ],
});

/** Bytes that a host has for all rows of cached tables; undefined: they are not counted. */
export function belowBytesOf({ hostMemoryBytes, diskBytes }: MachineConstants): number | undefined {
  return hostMemoryBytes ?? diskBytes;
}

/**
 * Whether the constants were measured or chosen, rather than assumed for an uncalibrated machine.
 */
export function areKnown({ source }: MachineConstants): boolean {
  return source !== serverConstants.source;
}

/**
 * Returns the constants of a machine on which everything takes `times` times as long: the same plan
 * is the best on it.
 */
export function slowed(constants: MachineConstants, times: number): MachineConstants {
  const scaled = <T extends object>(of: T, names: readonly (keyof T)[], by: number): T => {
    return { ...of, ...Object.fromEntries(names.map((name) => [name, by * Number(of[name])])) };
  };
  const links = ["allToAll", "reduceScatter", "allGather", "allReduce"] as const;
  const rates = ["memoryBandwidth", "lowerBandwidth", "denseFlops"] as const;
  const seconds = [
    "rowSumSeconds",
    "idSortSeconds",
    "idSeconds",
    "dealSeconds",
    "hostRoundSeconds",
  ] as const;
  const all = scaled(constants, seconds, times);
  return {
    ...scaled(all, rates, 1 / times),
    insideHost: scaled(constants.insideHost, links, 1 / times),
    acrossHosts: scaled(constants.acrossHosts, links, 1 / times),
    rows: constants.rows.map((costs) => scaled(costs, rowCostNames, times)),
    steps: constants.steps.map((costs) => scaled(costs, costNames, times)),
  };
}

/** Constants from a file, completed with the defaults. @throws InvalidOptionError */
export function checkConstants(value: unknown): MachineConstants {
  return checkOptions(constantsSchema, value, "constants");
}
