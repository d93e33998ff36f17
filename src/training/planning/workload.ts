// The planner's view of a job: plain numbers for each table, and the arithmetic of the dense
// layers.

import type { FeatureStatistics } from "../../data/cache/feature-statistics.ts";
import { idsOfFeature, meanIdsOf, type ResolvedDataOptions } from "../../data/options.ts";
import { indexBytes } from "../../embedding/rows/cache-sizes.ts";
import type { SparseOptimizerSpec, TableSpec } from "../../embedding/tables/options.ts";
import { rowStateOf } from "../../embedding/tables/row-state.ts";
import type { TiersSpec } from "../../embedding/tables/tier-options.ts";
import type { ExchangeSpec } from "../../exchange/options.ts";
import { isReduced } from "../../exchange/scales.ts";
import { takesMean, takesTrust } from "../../kernels/contract/kernels.ts";
import { weightBytes } from "../../kernels/contract/precision.ts";
import { type Feature, featuresOf } from "../../model/features.ts";
import { graphOf } from "../../model/model.ts";
import type { ModelSpec } from "../../model/options.ts";
import type { MissPoint } from "../../planner/cost/miss-curve.ts";
import { distinctIds } from "../../planner/cost/miss-curve.ts";
import type { ShardPin } from "../../planner/pins.ts";
import type { PlacementSpec } from "../../planner/placement.ts";
import {
  schemes as allSchemes,
  isRowScheme,
  type PlannedTable,
  type Scheme,
  schemeOf,
  type Tier,
  type Workload,
} from "../../planner/shards.ts";

/** Assumptions without counts: one id in a bag, and the Zipf exponent of their popularity. */
const usualIds = { idsPerBag: { min: 1, max: 1 }, zipf: 1.05 };

/** The part of a job that decides its plan. */
export interface PlannableJob {
  /** Servers of asynchronous training follow no plan. */
  readonly mode?: "exact" | "bounded" | "async" | undefined;
  readonly model: ModelSpec;
  readonly data: ResolvedDataOptions;
  readonly optimizer: { readonly sparse: SparseOptimizerSpec };
  readonly tiers: Pick<TiersSpec, "hbmBytes" | "ddrBytes" | "policy">;
  /** Where rows rest. @default `plainPlacement` */
  readonly placement?: PlacementSpec | undefined;
  readonly readers: number;
  /** Slices of a batch. A run has at most as many devices. @default no limit of devices */
  readonly slices?: number | undefined;
  /** Precision of exchanged vectors and dense gradients. @default float32 */
  readonly exchange?: ExchangeSpec | undefined;
  /** `auto`: tables whose own `sharding` is `auto` may be cut in any way. */
  readonly sharding?: "auto" | "as-written" | undefined;
}

/** Facts that the job does not state, and freedom that the planner has beyond the job. */
export interface WorkloadOptions {
  /** Schemes that every table may be sharded by; left out: those that the job allows each table. */
  readonly schemes?: readonly Scheme[] | undefined;
  /** Mean ids of a bag in every table; overrides the statistics of the data. */
  readonly poolingFactor?: number | undefined;
  /** Statistics of the training data, by feature; left out: unknown. */
  readonly statistics?: readonly FeatureStatistics[] | undefined;
  /** Groups of features whose lists may be deduplicated, as they were measured. */
  readonly ikjt?: readonly MeasuredGroup[] | undefined;
  /** Parts of tables that lie on given devices. */
  readonly pins?: readonly ShardPin[] | undefined;
  /** Whether tables may rest below memory, behind a cache. */
  readonly cache?: boolean | undefined;
  /** Miss curves that a run has counted (`RunResult.tiers`), by table name. */
  readonly curves?: ReadonlyMap<string, readonly MissPoint[]> | undefined;
  /** Ratio of measured to predicted cost of a table in a run, by table name. */
  readonly costFactors?: ReadonlyMap<string, number> | undefined;
}

/** A group of features whose lists may be deduplicated; `factor` is lists per distinct list. */
export interface MeasuredGroup {
  readonly features: readonly string[];
  readonly factor: number;
  readonly isChosen: boolean;
}

/** Returns the planner's workload of a job. */
export function workloadOf(job: PlannableJob, options: WorkloadOptions = {}): Workload {
  const { model, data, optimizer } = job;
  const { sparse } = optimizer;
  const features = featuresOf(model);
  const featuresBy = model.tables.map((): IndexedFeature[] => []);
  for (const [at, feature] of features.entries())
    featuresBy[feature.table]?.push({ ...feature, at });
  const tables = model.tables.map((table, index): PlannedTable => {
    const { name, rows, dim, rowBlocks, precision } = table;
    const { perElement, perRow } = rowStateOf(sparse);
    return {
      name,
      rows,
      dim,
      rowBlocks,
      ...popularityOf(job, table, featuresBy[index] ?? [], options),
      weightBytes: weightBytes(precision),
      stateBytes: 4 * perElement,
      // The row's optimizer state, an int8 row's exponent, and the touched flag.
      rowBytes: 4 * perRow + (precision === "int8" ? 1 : 0) + 1,
      sumRounds: (takesMean(sparse.kind) ? 1 : 0) + (takesTrust(sparse.kind) ? 1 : 0),
      ...placesOf(table, job, options),
      tiers: tiersOf(table, options),
      missCurve: options.curves?.get(name),
      costFactor: options.costFactors?.get(name),
    };
  });
  const { layout, products, elements, ownProducts, layers } = layersOf(model, features, options);
  return {
    tables,
    batchSize: data.batchSize,
    denseParameters: layout.length,
    gradientParts: roundedPartsOf(job),
    // A multiplication and an addition: forward, and for each of two gradients.
    denseFlop: 6 * products,
    denseActivations: elements,
    denseOwnProducts: ownProducts,
    denseLayers: layers,
    slices: job.slices,
    readers: job.readers,
    // `rowBytes` already counts the touched flag, which rows in memory have, too.
    budgets: { ...budgetsOf(job.tiers), indexBytes: indexBytes - 1 },
  };
}

/** A slice is at most one part. */
function roundedPartsOf({ exchange, slices }: PlannableJob): number | undefined {
  if (exchange === undefined || exchange.dense === "float32") return undefined;
  return Math.min(exchange.denseParts, slices ?? exchange.denseParts);
}

/**
 * The arithmetic of the dense layers for a sample. Blocks over deduplicated lists run once for all
 * samples that share a list.
 */
function layersOf(model: ModelSpec, features: readonly Feature[], { ikjt = [] }: WorkloadOptions) {
  const groups = ikjt.filter(({ isChosen }) => isChosen);
  const axes = features.map(({ name }) => {
    return groups.findIndex((group) => group.features.includes(name)) + 1;
  });
  const graph = graphOf(model, axes);
  let { products, elements, ownProducts } = graph;
  for (const { axis, products: own = 0, elements: passed = 0, parameters = [] } of graph.nodes) {
    const saved = 1 - 1 / (groups[axis - 1]?.factor ?? 1);
    products -= saved * own;
    elements -= saved * passed;
    if (parameters.length === 0) ownProducts -= saved * own;
  }
  return { ...graph, products, elements, ownProducts };
}

/**
 * Dynamic ids need whole rows, and copies send no rows that the exchange could round; a table that
 * no given scheme fits is sharded as the job says.
 */
function schemesOf(
  table: TableSpec,
  { sharding, exchange }: PlannableJob,
  { schemes }: WorkloadOptions,
): readonly Scheme[] {
  const isFree = table.sharding === "auto" && sharding === "auto";
  const own = isFree ? allSchemes : [schemeOf(table)];
  const mayCopy = !table.dedup || exchange === undefined || !isReduced(exchange);
  const fits = (scheme: Scheme) =>
    (table.dynamic === undefined || isRowScheme(scheme)) && (mayCopy || scheme !== "data-parallel");
  const given = schemes?.filter(fits) ?? [];
  return given.length > 0 ? given : own.filter(fits);
}

/** The schemes of a table, and its pins; a table that every device has a copy of has no pins. */
function placesOf(
  table: TableSpec,
  job: PlannableJob,
  options: WorkloadOptions,
): Pick<PlannedTable, "schemes" | "pins"> {
  const schemes = schemesOf(table, job, options);
  const pins = options.pins?.filter((pin) => pin.table === table.name) ?? [];
  const isPinned = pins.length > 0 && schemes.some((scheme) => scheme !== "data-parallel");
  return isPinned ? { schemes, pins } : { schemes };
}

function budgetsOf({ hbmBytes, ddrBytes, policy }: PlannableJob["tiers"]) {
  return { hbmBytes, ddrBytes, policy };
}

/**
 * The tiers that a table's rows may rest in; copies and stale tables stay in memory
 * (src/job/job.ts).
 */
function tiersOf({ tier, staleness, l2Scope }: TableSpec, { cache }: WorkloadOptions): Tier[] {
  if (staleness > 0 || l2Scope === "table") return ["memory"];
  return cache === true ? ["memory", "cached"] : [tier];
}

/** A feature, and its index among the features of the model. */
type IndexedFeature = Feature & { readonly at: number };

/**
 * The ids of a table per sample, and their popularity: counted, or else assumed. Where several
 * features share a table, ids and distinct ids add up; the exponent is the mean over the ids.
 */
function popularityOf(
  { data }: PlannableJob,
  { rows, dynamic }: TableSpec,
  features: readonly IndexedFeature[],
  options: WorkloadOptions,
) {
  const idShares: number[] = [];
  let [poolingFactor, lookups, exponents, distinct] = [0, 0, 0, 0];
  for (const { at, name, pooling, positions } of features) {
    const counted = options.statistics?.[at];
    const assumed = data.kind === "synthetic" ? idsOfFeature(data, name) : usualIds;
    const bag = options.poolingFactor ?? counted?.idsMean ?? meanIdsOf(assumed.idsPerBag);
    // A list that samples share is sent and looked up once.
    const shared = options.ikjt?.find((group) => group.isChosen && group.features.includes(name));
    const lists = 1 / (shared?.factor ?? 1);
    const ids = lists * (pooling === "none" ? Math.min(bag, positions) : bag);
    poolingFactor += ids;
    lookups += lists * positions;
    exponents += ids * ((counted && fittedZipf(counted, rows)) ?? assumed.zipf);
    distinct += counted?.distinctIds ?? rows;
    for (const [i, share] of counted?.idShares?.entries() ?? []) {
      idShares[i] = (idShares[i] ?? 0) + ids * share;
    }
  }
  const all = idShares.reduce((sum, share) => sum + share, 0);
  // Dynamic ids have no shares: their hash spreads them evenly over the row blocks. Where several
  // features share the table, the shares are those of the counted features.
  const isSpread = all === 0 || dynamic !== undefined;
  const where = isSpread ? {} : { idShares: idShares.map((share) => share / all) };
  const zipf = poolingFactor > 0 ? exponents / poolingFactor : usualIds.zipf;
  const known = options.statistics !== undefined && distinct < rows;
  return {
    poolingFactor,
    lookups,
    zipf,
    ...where,
    ...(known ? { distinctRowsMax: distinct } : {}),
  };
}

const exponentMax = 2;
/** Bisects the exponent to within 2^-16, far more exactly than the planner needs. */
const halvings = 17;

/**
 * Returns the exponent, 0 to 2, for which the window's draws from `rows` rows are expected to have
 * as many distinct ids as were counted; undefined if the window has no id. The number of distinct
 * ids falls as the exponent rises, so bisection finds it.
 */
export function fittedZipf(
  { window }: Pick<FeatureStatistics, "window">,
  rows: number,
): number | undefined {
  const counted = window.reuse.reduce((sum, ids) => sum + ids, 0);
  if (counted === 0) return undefined;
  const drawnWith = (zipf: number) => distinctIds({ rows, draws: window.ids, zipf, hot: 0 });
  let [low, high] = [0, exponentMax];
  for (let halving = 0; halving < halvings; halving++) {
    const middle = (low + high) / 2;
    if (drawnWith(middle) > counted) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
