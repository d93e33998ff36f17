// Papers' models in the variants that their papers compare, and predictions of them. A prediction
// is made once for all tables of the page.

import {
  ClusterTooSmallError,
  type JobOptions,
  type JobSpec,
  resolveJob,
  type Scheme,
} from "../../../../internal.ts";
import type { Precision } from "../../costs/dense-costs.ts";
import { constantsOf } from "../../hardware/constants-of.ts";
import { readHardware } from "../../hardware/read-hardware.ts";
import type { Prediction } from "../../model.ts";
import { paperModel } from "../../papers/models.ts";
import { planCluster, predictPlanned, withFacts } from "../../predict/predict-cluster.ts";
import { naivePlan } from "./naive-plan.ts";

/** A model on hosts of a kind of machine. */
export interface Variant {
  readonly model: string;
  readonly hardware: string;
  readonly hosts: number;
  /** Devices of a host. @default 8 */
  readonly perHost?: number;
  /** Format of the products of dense layers. @default float32 */
  readonly precision?: Precision;
  /** Whether rows are in float16. */
  readonly isHalf: boolean;
  /** Whether vectors are sent in float16, and gradients in bfloat16. */
  readonly isQuantised: boolean;
  /** Samples of a device, as a multiple of the model's. @default 1 */
  readonly batches?: number;
  /** Samples of a device, instead of the model's. */
  readonly batch?: number;
  /** Share of the rows of each table. @default 1 */
  readonly rows?: number;
  /** Schemes that tables may be cut by. @default all */
  readonly schemes?: readonly Scheme[];
  /** Whether the tables are dealt in turn, instead of planned. @default false */
  readonly isNaive?: boolean;
}

const known = new Map<string, Prediction | ClusterTooSmallError>();

/** The prediction of a variant; or the error, if it has no room. */
export function predicted(variant: Variant): Prediction | ClusterTooSmallError {
  const key = JSON.stringify(variant);
  const found = known.get(key) ?? predictionOf(variant);
  known.set(key, found);
  return found;
}

/** Samples a second of a variant; NaN if it has no room. */
export function speedOf(variant: Variant): number {
  const found = predicted(variant);
  return found instanceof ClusterTooSmallError ? Number.NaN : found.samplesPerSecond;
}

/** `1.23 M`, `456 k`; `no room`. */
export function speedText(speed: number): string {
  if (Number.isNaN(speed)) return "no room";
  return speed >= 1e6 ? `${(speed / 1e6).toFixed(2)} M` : `${(speed / 1e3).toFixed(0)} k`;
}

function predictionOf(variant: Variant): Prediction | ClusterTooSmallError {
  const { hosts, perHost = 8, isNaive = false } = variant;
  const hardware = readHardware(variant.hardware);
  const devices = { hosts, perHost };
  const job = jobOf(variant);
  const options = {
    hosts,
    devices: hosts * perHost,
    precision: variant.precision,
    schemes: variant.schemes,
  };
  try {
    if (!isNaive) return predictPlanned(planCluster(job, hardware, options), hardware);
    const plan = naivePlan(job, devices, constantsOf(hardware, devices));
    return predictPlanned(withFacts({ job, devices, plan, options, missing: [] }), hardware);
  } catch (error) {
    if (error instanceof ClusterTooSmallError) return error;
    throw error;
  }
}

function jobOf(variant: Variant): JobSpec {
  const { model: name, hosts, perHost = 8, rows = 1, isHalf, isQuantised } = variant;
  const devices = hosts * perHost * (variant.batches ?? 1);
  const options: JobOptions = paperModel(name, { devices, rows });
  const { batch } = variant;
  const data =
    batch === undefined ? options.data : { ...options.data, batchSize: batch * hosts * perHost };
  return resolveJob({
    ...options,
    data,
    model: { ...options.model, table: { precision: isHalf ? "float16" : "float32" } },
    exchange: isQuantised ? { forward: "float16", backward: "bfloat16" } : {},
  });
}
