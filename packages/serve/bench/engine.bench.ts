// Question: what does a prediction cost inside a program? Batches of 1, 8 and 64 samples, in
// alternation with onnxruntime-web, which runs the exported model, and with PyTorch in eager mode
// where it is installed; each on one thread. Then one request that ranks 1,000 candidates for a
// user, against 1,000 separate samples.

import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Measurement, together } from "../../../bench/bench.ts";
import { configuration } from "../../../bench/configurations.ts";
import { type BenchRow, quantiles, rowOf } from "../../../bench/row.ts";
import type { JobOptions } from "../../../src/job/job.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { ServedModel } from "../model/served-model.ts";
import { drawnCheckpoint, drawRecord, drawRequest, figuresOf, latencies } from "./drawn-model.ts";
import { openOnnx } from "./onnx-engine.ts";

const run = promisify(execFile);
const batches = [1, 8, 64] as const;
const configs = ["b", "w"] as const;
const requestCount = 256;
const candidateCount = 1000;

export interface EngineOptions {
  /** Rows of each table of the models: more rows only cost loading time and memory. */
  readonly rows: number;
  readonly rounds: number;
  readonly seconds: number;
}

export function engineMeasurements(options: EngineOptions): Measurement[] {
  const { rounds, seconds } = options;
  const predictions = configs.map((config) => {
    const names = batches.flatMap((batch) =>
      ["rate", "p50", "p99", "pytorch"]
        .filter((what) => what !== "pytorch" || config === "b")
        .map((what) => `serve.engine.${config}.${batch}.${what}`),
    );
    const all = [...names, `serve.engine.${config}.records.p50`];
    const time = 20 + 3 * batches.length * rounds * (seconds + 0.5);
    return together(all, time, () => predictionRows(config, options));
  });
  const ranks = ["b", "din"].map((name) => `serve.engine.rank.${name}`);
  return [...predictions, together(ranks, 20 + 4 * rounds * seconds, () => rankRows(options))];
}

/** The model of a configuration with tables of `rows` rows. */
export function modelOf(config: (typeof configs)[number], rows: number): JobOptions["model"] {
  const { model } = configuration(config);
  const { features: _, ...others } = model as typeof model & { features?: unknown };
  const tables = model.tables.map(({ name, dim }) => ({ name, dim, rows }));
  return { ...others, tables } as JobOptions["model"];
}

async function predictionRows(
  config: (typeof configs)[number],
  { rows, rounds, seconds }: EngineOptions,
): Promise<BenchRow[]> {
  const { job, directory } = await drawnCheckpoint(modelOf(config, rows));
  try {
    await using served = await ServedModel.open(directory);
    const peer = await openOnnx(directory);
    const stream = new RandomStream(3, 1, 1);
    const found: BenchRow[] = [];
    for (const batch of batches) {
      const requests = Array.from({ length: requestCount }, () => drawRequest(job, stream, batch));
      const fed = requests.map((request) => peer.feedsOf(request));
      const ours: ReturnType<typeof figuresOf>[] = [];
      const theirs: typeof ours = [];
      const torch: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const measured = await latencies(requests, seconds, (one) => served.predictBatch(one));
        ours.push(figuresOf(measured));
        theirs.push(figuresOf(await latencies(fed, seconds, (one) => peer.session.run(one))));
        if (config === "b") torch.push(...(await torchRate(rows, batch, seconds)));
      }
      const row = (what: "rate" | "p50" | "p99", limitIs: string) => {
        const name = `serve.engine.${config}.${batch}.${what}`;
        const unit = what === "rate" ? "requests/s" : "us";
        const of = (all: typeof ours) => all.map((one) => one[what]);
        const target = what === "rate" ? { target: [3, 6] as const } : {};
        return rowOf({ name, unit, limitIs, ...target }, of(ours), of(theirs));
      };
      for (const what of ["rate", "p50", "p99"] as const) found.push(row(what, "onnxruntime-web"));
      if (config !== "b") continue;
      const named = { name: `serve.engine.b.${batch}.pytorch`, unit: "requests/s" };
      const rates = ours.map(({ rate }) => rate);
      found.push(rowOf({ ...named, limitIs: "PyTorch, eager" }, rates, torch));
    }
    const records = Array.from({ length: requestCount }, () => [drawRecord(job, stream)]);
    const times: number[] = [];
    for (let round = 0; round < rounds; round++) {
      times.push(figuresOf(await latencies(records, seconds, (one) => served.predict(one))).p50);
    }
    const { median, spread } = quantiles(times);
    const named = { name: `serve.engine.${config}.records.p50`, unit: "us" };
    return [...found, { ...named, figure: median, spread }];
  } finally {
    rmSync(dirname(directory), { recursive: true });
  }
}

const script = fileURLToPath(
  new URL("../../../../packages/serve/bench/pytorch.py", import.meta.url),
);

/** Requests a second of PyTorch in a process of its own; empty where PyTorch is not installed. */
async function torchRate(rows: number, batch: number, seconds: number): Promise<number[]> {
  for (const python of ["python3", "/usr/bin/python3"]) {
    try {
      const { stdout } = await run(python, [script, `${rows}`, `${batch}`, `${seconds}`]);
      return [Number(stdout)];
    } catch {
      // This Python has no PyTorch.
    }
  }
  return [];
}

/** Measures rankings with a DLRM, and with attention over a user's history of 50 ids (DIN). */
async function rankRows({ rows, rounds, seconds }: EngineOptions): Promise<BenchRow[]> {
  const tables = ["item", "category", "user", "place"].map((name) => ({ name, rows, dim: 32 }));
  const din: JobOptions["model"] = {
    kind: "din",
    dense: 8,
    tables,
    features: [
      { column: "seen", table: "item", pooling: "none", maxLength: 50 },
      ...tables.map(({ name }) => ({ column: name })),
    ],
    attention: [{ target: "item", sequence: "seen", hidden: [36] }],
    top: [200, 80, 1],
  };
  const found: BenchRow[] = [];
  for (const [name, model, ofItem] of [
    ["b", modelOf("b", rows), ["T0", "T1", "T2"]],
    ["din", din, ["item", "category"]],
  ] as const) {
    const { job, directory } = await drawnCheckpoint(model);
    try {
      await using served = await ServedModel.open(directory);
      const stream = new RandomStream(5, 1, 1);
      const user = drawRecord(job, stream, 50);
      const candidates = Array.from({ length: candidateCount }, () => {
        const drawn = drawRecord(job, stream);
        return Object.fromEntries(ofItem.map((column) => [column, drawn[column]]));
      });
      const merged = candidates.map((candidate) => ({ ...user, ...candidate }));
      const [ours, separate] = [[], []] as [number[], number[]];
      for (let round = 0; round < rounds; round++) {
        const ranked = await latencies([candidates], seconds, (one) => served.rank(user, one));
        ours.push(candidateCount * figuresOf(ranked).rate);
        const alone = await latencies(merged, seconds, (one) => served.predict([one]));
        separate.push(figuresOf(alone).rate);
      }
      const limitIs = "separate samples";
      const named = { name: `serve.engine.rank.${name}`, unit: "candidates/s", limitIs };
      found.push(rowOf(named, ours, separate));
    } finally {
      rmSync(dirname(directory), { recursive: true });
    }
  }
  return found;
}
