// Papers' models in the variants that their papers compare, and predictions of them. A prediction
// is made once for all tables of the page.

import {
  ClusterTooSmallError,
  type JobOptions,
  type JobSpec,
  resolveJob,
} from "../../../../internal.ts";
import type { Precision } from "../../costs/dense-costs.ts";
import { constantsOf, withCachesOf } from "../../hardware/constants-of.ts";
import type { Link } from "../../hardware/hardware.ts";
import { readCluster } from "../../hardware/read-hardware.ts";
import type { Hardware, Prediction } from "../../model.ts";
import { paperModel, paperModels } from "../../papers/models.ts";
import {
  type PlannedCluster,
  planCluster,
  predictPlanned,
  withFacts,
} from "../../predict/predict-cluster.ts";
import { naivePlan, rowWisePlan } from "./naive-plan.ts";

/** A model on hosts of a kind of machine. */
export interface Variant {
  readonly model: string;
  readonly hardware: string;
  readonly hosts: number;
  /** Devices of a host. @default 8 */
  readonly perHost?: number;
  /** Further hosts that only run servers, which hold all rows, and their kind of machine. */
  readonly servers?: { readonly hosts: number; readonly hardware: string };
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
  /** Exponent of the ids' popularity. @default that of generated data */
  readonly zipf?: number;
  /** Whether bags of all tables have the model's mean of ids. @default spread around it */
  readonly isEven?: boolean;
  /** Tables dealt in turn, or cut by rows over all hosts. @default as planned */
  readonly plan?: "dealt" | "row-wise";
  /** Transfers that take no time, to compute the length of a step without them. @default none */
  readonly without?: "all-reduce" | "scale-out";
  /** The optimizer of rows. @default the job's */
  readonly sparse?: "sgd";
}

const known = new Map<string, Prediction | ClusterTooSmallError>();
const knownPlans = new Map<string, PlannedCluster>();

/** The prediction of a variant; or the error, if the variant does not fit into memory. */
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
  const { without, ...whole } = variant;
  const hardware = readCluster(variant.hardware, variant.servers?.hardware);
  const key = JSON.stringify(whole);
  try {
    const planned = knownPlans.get(key) ?? plannedOf(whole, hardware);
    knownPlans.set(key, planned);
    return predictPlanned(planned, withoutTime(hardware, without));
  } catch (error) {
    if (error instanceof ClusterTooSmallError) return error;
    throw error;
  }
}

function plannedOf(variant: Variant, hardware: Hardware): PlannedCluster {
  const { perHost = 8, servers, plan: way, precision } = variant;
  const hosts = variant.hosts + (servers?.hosts ?? 0);
  const devices = { hosts, perHost };
  const options = { hosts, devices: hosts * perHost, precision };
  const given = jobOf(variant);
  if (way === undefined) return planCluster(given, hardware, options);
  const constants = constantsOf(hardware, devices);
  const job = way === "dealt" ? given : withCachesOf(given, hardware, devices);
  const plan = (way === "dealt" ? naivePlan : rowWisePlan)(job, devices, constants);
  return withFacts({ job, devices, plan, options, missing: [] });
}

/** Factor of speed by which the time of a part becomes too short to show in a figure. */
const endless = 1e9;

function withoutTime(hardware: Hardware, what: Variant["without"]): Hardware {
  const { scaleUp, scaleOut } = hardware;
  if (what === undefined) return hardware;
  if (what === "scale-out") {
    return {
      ...hardware,
      scaleOut: { ...scaleOut, latency: 0, bandwidth: endless * scaleOut.bandwidth },
    };
  }
  const reduced = <Own extends Link>(link: Own) => ({
    ...link,
    allReduceShare: endless,
  });
  return { ...hardware, scaleUp: reduced(scaleUp), scaleOut: reduced(scaleOut) };
}

function poolingOf(model: string): number {
  return paperModels.find(({ name }) => name === model)?.pooling ?? 1;
}

function jobOf(variant: Variant): JobSpec {
  const { model: name, hosts, perHost = 8, rows = 1, isHalf, isQuantised } = variant;
  const devices = hosts * perHost * (variant.batches ?? 1);
  const options: JobOptions = paperModel(name, { devices, rows });
  const { batch, servers, zipf, sparse, isEven = false } = variant;
  const mean = { idsPerBag: { mean: poolingOf(name) } };
  const perFeature = Object.fromEntries(
    (options.model.tables ?? []).map((table) => [table.name, mean]),
  );
  const data = {
    ...options.data,
    ...(batch !== undefined && { batchSize: batch * hosts * perHost }),
    ...(zipf !== undefined && { zipf }),
    ...(isEven && { perFeature }),
  };
  return resolveJob({
    ...options,
    data,
    model: { ...options.model, table: { precision: isHalf ? "float16" : "float32" } },
    exchange: isQuantised ? { forward: "float16", backward: "bfloat16" } : {},
    ...(sparse !== undefined && { optimizer: { sparse: { kind: sparse } } }),
    ...(servers && { placement: { kind: "servers", servers: servers.hosts * perHost } }),
  });
}
