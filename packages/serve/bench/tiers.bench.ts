// Question: what does an answer cost where only a tenth of the rows fits into memory? Configuration
// b with all tables on disk, in alternation with the same model in memory; ids are
// Zipf-distributed. The files are in the system's page cache: a slow disk would add its time to
// each miss.

import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Measurement, together } from "../../../bench/bench.ts";
import { type BenchRow, quantiles, rowOf } from "../../../bench/row.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { piecesOf } from "../../../storage/model/encoded-batch.ts";
import { readRowsMax } from "../model/row-file.ts";
import { ServedModel } from "../model/served-model.ts";
import { drawnCheckpoint, drawRequest, figuresOf, latencies } from "./drawn-model.ts";
import { type EngineOptions, modelOf } from "./engine.bench.ts";

const batches = [1, 64] as const;
/** Samples that requests cycle through: they need more rows than fit into memory. */
const sampleCount = 16_384;
/** Approximate bytes of a cached row in addition to its weights. */
const placeBytes = 59;

export function tierMeasurement(options: EngineOptions): Measurement {
  const names = ["cached", "hits"].concat(
    batches.flatMap((batch) => ["p50", "p99"].map((what) => `${batch}.${what}`)),
  );
  const seconds = 20 + 2 * batches.length * options.rounds * (options.seconds + 0.5);
  const rows = () => tierRows(options);
  return together(
    names.map((name) => `serve.engine.tiers.${name}`),
    seconds,
    rows,
  );
}

async function tierRows({ rows, rounds, seconds }: EngineOptions): Promise<BenchRow[]> {
  const { job, directory } = await drawnCheckpoint(modelOf("b", rows), true);
  const home = dirname(directory);
  try {
    const { tables } = job.model;
    const memoryBytes = tables.reduce((sum, { rows: count, dim }) => {
      const besideBytes = count / 2 + readRowsMax * (8 * dim + 4);
      return sum + Math.ceil((count * (4 * dim + placeBytes)) / 10 + besideBytes);
    }, 0);
    const tierDirectory = join(home, "tiers");
    await using whole = await ServedModel.open(directory);
    await using tiered = await ServedModel.open(directory, { memoryBytes, tierDirectory });
    const drawn = drawRequest(job, new RandomStream(9, 1, 1), sampleCount);
    const found: BenchRow[] = [];
    const hits: number[] = [];
    for (const batch of batches) {
      const requests = [...piecesOf(drawn, batch)];
      const [ours, inMemory]: ReturnType<typeof figuresOf>[][] = [[], []];
      await latencies(requests, seconds, (one) => tiered.predictBatch(one)); // Fills the caches.
      for (let round = 0; round < rounds; round++) {
        const before = tiered.rowCounts;
        ours?.push(
          figuresOf(await latencies(requests, seconds, (one) => tiered.predictBatch(one))),
        );
        const after = tiered.rowCounts;
        const [hit, missed] = [after.hits - before.hits, after.misses - before.misses];
        hits.push((100 * hit) / (hit + missed));
        inMemory?.push(
          figuresOf(await latencies(requests, seconds, (one) => whole.predictBatch(one))),
        );
      }
      for (const what of ["p50", "p99"] as const) {
        const named = { name: `serve.engine.tiers.${batch}.${what}`, unit: "us" };
        const of = (all: typeof ours = []) => all.map((one) => one[what]);
        found.push(rowOf({ ...named, limitIs: "all in memory" }, of(ours), of(inMemory)));
      }
    }
    const onDisk = tiered.onDisk.reduce((sum, { cachedRows }) => sum + cachedRows, 0);
    const all = tables.reduce((sum, table) => sum + table.rows, 0);
    const share = (name: string, values: number[]): BenchRow => {
      const { median, spread } = quantiles(values);
      return { name: `serve.engine.tiers.${name}`, unit: "%", figure: median, spread };
    };
    return [share("cached", [(100 * onDisk) / all]), share("hits", hits), ...found];
  } finally {
    rmSync(home, { recursive: true });
  }
}
