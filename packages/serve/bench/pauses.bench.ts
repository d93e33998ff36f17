// Question: how long do requests wait while a delta is applied? One table of 2,000,000 rows. The
// figure is the longest gap between two answers while 1 and 20 percent of the rows change. Limit:
// the longest gap in an equally long time without a delta, which the machine itself causes. `work`
// is the same gap in processor time of the whole process, which other programs on the machine do
// not lengthen.

import { rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { type Measurement, together } from "../../../bench/bench.ts";
import { type BenchRow, quantileOf, quantiles, rowOf } from "../../../bench/row.ts";
import { jobIdentity } from "../../../src/job/job.ts";
import { graphOf } from "../../../src/model/model.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import { collectAlone } from "../../../src/ports/launcher.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { openCheckpoint } from "../../../storage/checkpoints/open-checkpoint.ts";
import { servedDense } from "../../formats/exports/exported-model.ts";
import { DeltaWriter } from "../model/delta-file.ts";
import { versionOf } from "../model/export-delta.ts";
import { ServedModel } from "../model/served-model.ts";
import { drawnCheckpoint, drawRequest } from "./drawn-model.ts";

const rows = 2_000_000;
const dim = 16;
const shares = [1, 20] as const;
/** Rows of a chunk, as exports write them. */
const chunkRows = 2048;

export function pauseMeasurement(rounds: number): Measurement {
  const names = shares.flatMap((share) =>
    ["pause", "work", "p99", "seconds"].map((what) => `serve.engine.delta.${share}.${what}`),
  );
  return together(names, 15 + 12 * rounds, () => pauseRows(rounds));
}

async function pauseRows(rounds: number): Promise<BenchRow[]> {
  collectAlone(); // As in `osiris serve`.
  const { job, directory } = await drawnCheckpoint({
    kind: "dlrm",
    dense: 13,
    tables: [{ name: "T0", rows, dim }],
    bottom: [64, dim],
    top: [64, 1],
  });
  try {
    const found: BenchRow[] = [];
    const request = drawRequest(job, new RandomStream(7, 1, 1), 1);
    for (const share of shares) {
      const pauses: number[] = [];
      const quiet: number[] = [];
      const work: number[] = [];
      const quietWork: number[] = [];
      const p99s: number[] = [];
      const seconds: number[] = [];
      await using served = await ServedModel.open(directory);
      for (let round = 0; round < rounds; round++) {
        const path = join(dirname(directory), `${share}-${round}.delta`);
        writeDelta(directory, path, share, round);
        let isOver = false;
        const beginMs = performance.now();
        const applied = served.applyDelta(path).finally(() => (isOver = true));
        const gaps = await gapsUntil(served, request, () => isOver);
        await applied;
        const tookMs = performance.now() - beginMs;
        const endMs = performance.now() + tookMs;
        const without = await gapsUntil(served, request, () => performance.now() >= endMs);
        pauses.push(quantileOf(gaps.wall)(1));
        work.push(quantileOf(gaps.work)(1));
        quiet.push(quantileOf(without.wall)(1));
        quietWork.push(quantileOf(without.work)(1));
        p99s.push(quantileOf(gaps.wall)(0.99));
        seconds.push(tookMs / 1000);
      }
      const row = (what: string, unit: string, values: number[], without?: number[]): BenchRow => {
        const name = `serve.engine.delta.${share}.${what}`;
        if (without !== undefined) {
          return rowOf({ name, unit, limitIs: "without a delta" }, values, without);
        }
        const { median, spread } = quantiles(values);
        return { name, unit, figure: median, spread };
      };
      found.push(row("pause", "ms", pauses, quiet), row("work", "ms", work, quietWork));
      found.push(row("p99", "ms", p99s), row("seconds", "s", seconds));
    }
    return found;
  } finally {
    rmSync(dirname(directory), { recursive: true });
  }
}

/** Milliseconds between two answers: wall-clock time, and processor time. */
async function gapsUntil(
  served: ServedModel,
  request: Parameters<ServedModel["predictBatch"]>[0],
  isOver: () => boolean,
): Promise<{ readonly wall: number[]; readonly work: number[] }> {
  const wall: number[] = [];
  const work: number[] = [];
  let lastMs = performance.now();
  let last = process.cpuUsage();
  while (!isOver()) {
    await served.predictBatch(request);
    const [nowMs, used] = [performance.now(), process.cpuUsage(last)];
    wall.push(nowMs - lastMs);
    work.push((used.user + used.system) / 1000);
    lastMs = nowMs;
    last = process.cpuUsage();
    await setImmediate(); // Lets other work of the thread run.
  }
  return { wall, work };
}

/**
 * Writes a delta from the previous round's version to this one, with rows spread over the table.
 */
function writeDelta(directory: string, path: string, share: number, round: number): void {
  const checkpoint = openCheckpoint(directory);
  const { job, manifest } = checkpoint;
  const first = versionOf(manifest);
  const version = (at: number) =>
    at === 0 ? first : { ...first, digest: `sha256:${at}`, step: 1 + at };
  const file = realDisk.open(path, "write");
  try {
    const writer = new DeltaWriter(file);
    const every = Math.round(100 / share);
    const count = Math.floor(rows / every);
    const at = writer.end;
    const records = new Float32Array(chunkRows * dim).fill(0.01 * (round + 1));
    for (let first = 0; first < count; first += chunkRows) {
      const some = Math.min(chunkRows, count - first);
      const ids = Int32Array.from({ length: some }, (_, i) => (first + i) * every);
      writer.put(ids, records.subarray(0, some * dim));
    }
    const values = servedDense(checkpoint, graphOf(job.model));
    const dense = { at: writer.put(values), count: values.length };
    writer.finish({
      ...{ jobIdentity: jobIdentity(job), arithmetic: manifest.arithmetic, dense },
      ...{ from: version(round), to: version(round + 1) },
      tables: [{ name: "T0", recordBytes: 4 * dim, changed: count, at, chunkRows }],
    });
  } finally {
    file.close();
  }
}
