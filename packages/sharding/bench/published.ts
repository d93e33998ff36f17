// Reads the published data that sharding is measured with: 856 tables that Meta released, the
// hundred tasks that NeuroShard's generator draws from them, costs that a fork of it measured on
// processors, and that fork's plans. The files are outside the repository, are read in place and
// never copied (../shared/data/README.md has their sources; the licence is MIT).

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { z } from "zod";
import type { CostTable } from "../../../src/planner/reuse.ts";
import type { MeasuredCosts } from "../training/cost-samples.ts";

/** Default directory of the files, which may be absent. */
export const publishedHome = "../shared/data/sharding";

/** The numbers of devices that costs and plans are published for. */
export const publishedDevices = [4, 8, 16] as const;

export type PublishedDevices = (typeof publishedDevices)[number];

/** Samples of the batch that the tables' and costs' figures refer to. */
const publishedBatch = 65_536;

/** Numbers of columns that costs were measured with. */
const dims = [128, 64, 32, 16, 8, 4];

export function hasPublished(home: string): boolean {
  return existsSync(join(home, "tables856.json.gz"));
}

const tablesSchema = z.object({
  tables: z.array(z.object({ rows: z.number(), pf: z.number(), bins: z.array(z.number()) })),
});

/** The 856 tables. They have no number of columns: a task sets it. */
export function publishedTables(home: string): Omit<CostTable, "dim">[] {
  const { tables } = tablesSchema.parse(JSON.parse(textOf(home, "tables856.json.gz")));
  return tables.map(({ pf, ...rest }) => ({ ...rest, poolingFactor: pf }));
}

/** Every table at each width that costs were measured with: the pool that tables are drawn from. */
export function publishedPool(home: string): CostTable[] {
  const tables = publishedTables(home);
  return dims.flatMap((dim) => tables.map((table) => ({ ...table, dim })));
}

/** The tables of each of the hundred tasks. */
export function publishedTasks(home: string): CostTable[][] {
  const tables = publishedTables(home);
  return linesOf(home, "tasks_4dev_seed0.txt").map((line) => {
    const [ids = [], widths = []] = line.split(" ").map(numbersOf);
    return ids.map((id, i) => ({ ...at(tables, id), dim: at(widths, i) }));
  });
}

const plansSchema = z.record(
  z.string(),
  z.array(
    z.tuple([
      z.array(z.number()).nullable(),
      z.array(z.array(z.number())).nullable(),
      z.number().nullable(),
    ]),
  ),
);

/**
 * A plan of the fork: the tables that were halved, in order, and the tables on each device; null
 * where the fork found no plan.
 */
export interface PublishedPlan {
  readonly steps: readonly number[] | null;
  readonly placed: readonly (readonly number[])[] | null;
}

/** The fork's plans for each task, by its names: `4/dim_greedy`. A device has 8 GiB. */
export function publishedPlans(home: string): Map<string, PublishedPlan[]> {
  const found = plansSchema.parse(JSON.parse(textOf(home, "ref_plans_csharding.json.gz")));
  return new Map(
    Object.entries(found).map(([name, plans]) => {
      return [name, plans.map(([steps, placed]) => ({ steps, placed }))];
    }),
  );
}

/** The costs measured on `devices` processes; their tables are those of `publishedPool`. */
export function publishedCosts(home: string, devices: PublishedDevices): MeasuredCosts {
  const pool = publishedPool(home);
  const compute = linesOf(home, `cpu_compute_${devices}.txt.gz`).map((line) => {
    const [tables = "", milliseconds] = line.split(";");
    const found = numbersOf(tables).map((index) => at(pool, index));
    return { tables: found, milliseconds: Number(milliseconds) };
  });
  const exchange = linesOf(home, `cpu_comm_${devices}.txt.gz`).map((line) => {
    const [columns = [], late = [], forward = [], backward = []] = line.split(" ").map(numbersOf);
    return { columns, late, forward, backward };
  });
  return { devices, batchSize: publishedBatch, compute, exchange };
}

function textOf(home: string, file: string): string {
  const bytes = readFileSync(join(home, file));
  return (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
}

function linesOf(home: string, file: string): string[] {
  return textOf(home, file).trim().split("\n");
}

function numbersOf(text: string): number[] {
  return text.split(",").map(Number);
}

function at<T>(values: readonly T[], index: number): T {
  const value = values[index];
  if (value === undefined) throw new RangeError(`Expected an index below ${values.length}`);
  return value;
}
