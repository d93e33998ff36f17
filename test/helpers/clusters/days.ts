// A partitioned directory of Parquet files, a job on it, and the expected result of the job.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { parquetWriteBuffer } from "hyparquet-writer";
import { type JobOptions, parquet } from "../../../index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob, startTestCluster } from "./clusters.ts";
import type { EitherCluster } from "./either-cluster.ts";

const days = 3;
const rowsOfDay = 500;

/** Writes a partitioned directory of clicks: one file per day with row groups of 100 rows. */
export function writeDays(t: ExecutionContext): string {
  const home = startDirectory(t);
  for (let day = 1; day <= days; day++) {
    const stream = new RandomStream(3, 4, day);
    const draw = (below: number) => Array.from({ length: rowsOfDay }, () => stream.below(below));
    const [user, item, price] = [draw(40), draw(30), draw(1000)];
    const label = user.map((one, i) => {
      return (one + (item[i] ?? 0)) % 2 === stream.below(8) % 2 || stream.below(3) === 0 ? 1 : 0;
    });
    const columnData = Object.entries({ label, user, item, price, when: user.map(() => day) }).map(
      ([name, data]) => ({ name, data, type: "INT32" as const }),
    );
    const folder = join(home, `date=2026-11-0${day}`);
    mkdirSync(folder);
    const bytes = parquetWriteBuffer({ columnData, rowGroupSize: 100 });
    writeFileSync(join(folder, "part-0.parquet"), new Uint8Array(bytes));
  }
  return home;
}

const tables = ["user", "item", "pair"].map((name) => ({ name, rows: 400, dim: 8 }));

/** The model of a job on that directory. */
export const modelOfDays = {
  kind: "dlrm",
  tables,
  bottom: [8, 8],
  top: [8, 1],
} as const satisfies JobOptions["model"];

/** The data section of a job on that directory; `data`: further options. */
export function dataOfDays(home: string, data: object): JobOptions["data"] {
  return parquet(home, {
    batchSize: 32,
    passes: 2,
    label: "label",
    dense: [{ column: "price", log: true }],
    transforms: [{ op: "cartesian", inputs: ["user", "item"], output: "pair", max: 400 }],
    categorical: ["user", "item", { column: "pair", ids: "integer" }],
    ...data,
  });
}

/** A job on that directory; `data`, `rest`: further options. */
export function jobOnDays(
  place: Pick<EitherCluster, "job">,
  home: string,
  data: object,
  rest: object = {},
): JobOptions {
  const job = place.job({
    model: modelOfDays,
    optimizer: { sparse: { kind: "rowWiseAdagrad", learningRate: 0.1 } },
    evaluation: { everySteps: 10, fraction: 0.2 },
    ...rest,
  });
  return { ...job, data: dataOfDays(home, { cache: job.data.cache, ...data }) };
}

/** The result of such a job without faults. */
export async function streamedOutcome(
  devices: number,
  home: string,
  data: object,
  rest: object = {},
) {
  await using place = await startTestCluster(devices);
  const { result } = await runJob(place, jobOnDays(place, home, data, rest));
  return { digest: result.digest, history: result.history };
}
