// Question: what does a recovery read, and how long does it take, when one host of four is lost?
// And how much longer is a step because surviving rows are kept, by an undo log? The four hosts are
// processes of this machine, each with one table; a successor replaces the one that is killed.
//
// `lost-host.read`: bytes read, over the bytes of the lost host's table in the checkpoint.
// `lost-host.share`: seconds from the incident to the first step, by phase; `limit`: this process
// reads and hashes the lost host's part alone. `lost-host.seconds`: the same without kept rows as
// the limit (`checkpoint.undoBytes: 0`), where all hosts read all their rows. `lost-host.update`:
// the row update of a batch with the undo log, over the update without it, taken in turn;
// `lost-host.faults`: page faults of these updates while the logs are new, over later ones.
// `lost-host.step`: a step of a run of configuration b on one device, without its waits for
// checkpoints.

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Cluster, type RunEvent } from "../../internal.ts";
import { Zipf } from "../../src/data/synthetic/zipf.ts";
import { RowKeeper } from "../../src/embedding/rows/row-keeper.ts";
import { createSlab } from "../../src/embedding/rows/slab.ts";
import { initialCut } from "../../src/embedding/rows/undo-log.ts";
import { sparseOptimizerOptions, tableOptions } from "../../src/embedding/tables/options.ts";
import { rowRuleOf } from "../../src/embedding/tables/row-rule.ts";
import { shardsOf } from "../../src/embedding/tables/shards.ts";
import { slicesOf } from "../../src/kernels/contract/slices.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { keyOf, RandomStream } from "../../src/ports/random.ts";
import { openExistingStore } from "../../storage/checkpoints/store/open-store.ts";
import { temporaryHome } from "../../storage/disk/temporary-home.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { configuration } from "../configurations.ts";
import { type BenchRow, quantiles, rowOf } from "../row.ts";

interface LostHostOptions {
  /** Rows of each of the four tables; a row has 64 columns. */
  readonly rows: number;
  readonly rounds: number;
}

type Recovered = Extract<RunEvent, { type: "run.recovered" }>;

const [hosts, dim, idsPerBag, everySteps] = [4, 64, 100, 2];
/** Steps of an epoch: each touches a tenth of the rows, and all of them 63 %. */
const epochSteps = 10;

export const lostHostBench: Bench<LostHostOptions> = {
  question: "bytes and seconds of a recovery that loses one host of four",
  options: [
    positiveOption("--rows <count>", "rows of each table", 100_000),
    positiveOption("--rounds <count>", "rounds of each part", 1),
  ],
  measurements: ({ rows, rounds }) => [
    {
      names: ["lost-host.read", "lost-host.share", "lost-host.seconds"],
      seconds: rounds * (60 + rows / 20_000),
      async *measure(isWanted) {
        yield* await recoveries(rows, rounds, isWanted("lost-host.seconds"));
      },
    },
    together(["lost-host.update", "lost-host.faults"], 20, () => updates()),
    together(["lost-host.step"], rounds * 60, () => steps(rounds)),
  ],
};

async function recoveries(rows: number, rounds: number, isCompared: boolean): Promise<BenchRow[]> {
  using home = temporaryHome("osiris-lost-");
  const read: number[] = [];
  const [kept, share, all]: [number[], number[], number[]] = [[], [], []];
  let phases = "";
  for (let round = 0; round < rounds; round++) {
    const at = join(home.path, `${round}`);
    if (isCompared) all.push((await recoveryOf(rows, 0, at)).seconds);
    rmSync(at, { recursive: true, force: true });
    const own = await recoveryOf(rows, undefined, at);
    read.push(own.storeBytes / own.shareBytes);
    kept.push(own.seconds);
    share.push(own.shareSeconds);
    phases = own.phases;
    rmSync(at, { recursive: true, force: true });
  }
  const { median, spread } = quantiles(read);
  const unit = "s";
  const named = { name: "lost-host.share", unit, limitIs: `its part read alone; ${phases}` };
  return [
    { name: "lost-host.read", figure: median, unit: "shares of the lost host", spread },
    rowOf(named, kept, share),
    ...(isCompared
      ? [rowOf({ name: "lost-host.seconds", unit, limitIs: "all rows read" }, kept, all)]
      : []),
  ];
}

/** The recovery of a run that loses a host after all rows of an epoch are in checkpoints. */
async function recoveryOf(rows: number, undoBytes: number | undefined, directory: string) {
  await using cluster = await Cluster.start({ devices: 0, minDevices: hosts });
  const started = Array.from({ length: hosts }, () => startHost(cluster));
  try {
    const tables = Array.from({ length: hosts }, (_, i) => ({ name: `t${i}`, rows, dim }));
    const batchSize = Math.ceil(rows / epochSteps / idsPerBag);
    const own = {
      // All checkpoints are kept, so that the one of the recovery can be read after the run.
      ...{ directory: join(directory, "checkpoints"), everySteps, buddyBytes: 0, keep: 1000 },
      ...{ bufferBytes: 2 ** 26, undoBytes: undoBytes ?? rows * undoRowBytes },
    };
    const run = await cluster.submit({
      model: { kind: "dlrm", dense: 2, tables, bottom: [dim], top: [1] },
      data: {
        ...{ kind: "synthetic", samples: epochSteps * batchSize, dense: 2, batchSize },
        ...{ idsPerBag: { min: idsPerBag, max: idsPerBag }, zipf: 0, epochs: 10_000 },
        cache: join(directory, "cache"),
      },
      devices: hosts,
      checkpoint: own,
      stepDeadlineMs: 60_000,
    });
    let [killedMs, noticedMs] = [0, 0];
    let found: (Recovered & { readonly phases: string }) | undefined;
    for await (const event of run.events()) {
      if (event.type === "run.failed") throw new Error(event.error.message);
      if (event.type === "run.incident") noticedMs ||= Date.now();
      if (event.type === "run.checkpointed" && event.step > epochSteps && killedMs === 0) {
        killedMs = Date.now();
        started.at(-1)?.kill("SIGKILL");
        started.push(startHost(cluster));
      }
      if (event.type !== "run.recovered") continue;
      const phases = phasesOf(own.directory, { killedMs, noticedMs, recoveredMs: Date.now() });
      found = { ...event, phases };
      break;
    }
    if (found === undefined) throw new Error("The run ended without a recovery");
    await run.cancel();
    return { ...found, ...shareOf(own.directory, found) };
  } finally {
    for (const host of started) host.kill("SIGKILL");
  }
}

/** Undo log bytes of a host for each row of its table: an interval changes a fifth of the rows. */
const undoRowBytes = 2 * 0.25 * 300;

/**
 * Bytes of a table in the checkpoint from which a run went on, and the seconds to read and hash
 * them in this process.
 */
function shareOf(directory: string, { fromStep }: Recovered) {
  const store = openExistingStore(directory);
  const manifest = store.list().manifests.find(({ cut }) => cut === fromStep);
  const part = manifest?.parts.find(({ name }) => name.startsWith("table"));
  if (manifest === undefined || part === undefined) {
    throw new Error(`There is no checkpoint of step ${fromStep}`);
  }
  const startMs = performance.now();
  let shareBytes = 0;
  for (const file of store.readFiles(manifest, part.name)) {
    for (const piece of file) shareBytes += piece.length;
  }
  return { shareBytes, shareSeconds: (performance.now() - startMs) / 1000 };
}

/** The phases of a recovery in words, by the log of the device that reads the lost rows. */
function phasesOf(
  directory: string,
  at: { readonly killedMs: number; readonly noticedMs: number; readonly recoveredMs: number },
): string {
  const folder = join(directory, "logs");
  const ready = readdirSync(folder)
    .flatMap((file) => readFileSync(join(folder, file), "utf8").trim().split("\n"))
    .map((line) => JSON.parse(line) as ReadyLine)
    .filter(({ message, time }) => message === "ready" && Date.parse(time) > at.killedMs);
  const [last] = ready.sort((a, b) => b.restored.storeBytes - a.restored.storeBytes);
  if (last === undefined) throw new Error(`The logs in ${folder} have no device that was restored`);
  const readyMs = Date.parse(last.time);
  const restored = last.madeMs + last.readMs;
  const keptMs = Math.max(...ready.filter((one) => one !== last).map((one) => one.madeMs));
  const phases = [
    [at.noticedMs - at.killedMs, "until noticed"],
    [readyMs - last.restoreMs - at.noticedMs, "until its successor's thread runs"],
    [last.madeMs, "to make its rows"],
    [last.readMs, "to read and restore them"],
    [last.restoreMs - restored, "to hash them"],
    [at.recoveredMs - readyMs, "to the first step"],
    [keptMs, "to put kept rows back beside it"],
  ] as const;
  return phases.map(([ms, what]) => `${(ms / 1000).toFixed(2)} s ${what}`).join(", ");
}

/** The line of a device that is restored (actors/threads/device-program.ts). */
interface ReadyLine {
  readonly message: string;
  readonly time: string;
  readonly restored: { readonly storeBytes: number };
  readonly madeMs: number;
  readonly readMs: number;
  readonly restoreMs: number;
}

/** Starts a host process of the cluster, with one device; `server`: its broker. */
export function startHost(cluster: Cluster, server = cluster.url): ChildProcess {
  const program = fileURLToPath(new URL("../../cli/main.js", import.meta.url));
  const secret = cluster.token === undefined ? [] : ["--token", cluster.token];
  const at = ["--nats", server, ...secret, "--cluster", cluster.name];
  return spawn(process.execPath, [program, "host", ...at, "--devices", "1"], { stdio: "ignore" });
}

/** Tables, rows and samples of the updates, and the steps between two cuts. */
const update = { tables: 8, rows: 200_000, samples: 2048, steps: 50, rounds: 8 };

/** Milliseconds of the row update of a batch, with an undo log and without, in turn; and faults. */
function updates(): BenchRow[] {
  const [withLog, without]: [number[], number[]] = [[], []];
  const faults: number[] = [];
  const slabs = [true, false].map((isKept) => updatedSlab(isKept));
  for (let round = 0; round < update.rounds; round++) {
    for (const [i, { run }] of slabs.entries()) {
      const before = minorFaults();
      (i === 0 ? withLog : without).push(run(round));
      if (i === 0) faults.push((minorFaults() - before) / update.steps);
    }
  }
  const named = { name: "lost-host.update", unit: "ms", limitIs: "without an undo log" };
  // In the first two rounds the pages of the two logs are new.
  return [
    rowOf(named, withLog.slice(2), without.slice(2)),
    rowOf(
      { name: "lost-host.faults", unit: "a step", limitIs: "later steps" },
      faults.slice(0, 2),
      faults.slice(2),
    ),
  ];
}

/** Minor page faults of this thread so far; 0 where the system has no such file. */
function minorFaults(): number {
  const path = "/proc/thread-self/stat";
  const fields = existsSync(path) ? readFileSync(path, "utf8").split(") ")[1]?.split(" ") : [];
  return Number(fields?.[7] ?? 0);
}

function updatedSlab(isKept: boolean) {
  const kernels = openKernels("auto");
  const specs = Array.from({ length: update.tables }, (_, i) =>
    tableOptions.parse({ name: `t${i}`, rows: update.rows, dim }),
  );
  const tile = { firstBlock: 0, blocks: 1, firstQuantum: 0, quanta: dim / 32, device: 0 };
  const shards = shardsOf(specs, {
    devices: { hosts: 1, perHost: 1 },
    shards: specs.map(({ name }) => ({
      table: name,
      scheme: "table-wise",
      tier: "memory",
      ...tile,
    })),
  }).map((shard) => ({ ...shard, lookups: [{ pooling: "sum" as const }] }));
  const optimizer = sparseOptimizerOptions.parse({ kind: "rowWiseAdagrad", learningRate: 0.1 });
  const undoBytes = 4 * 2 ** 30;
  const given = { given: [], at: initialCut, undoBytes, name: "bench", rank: 0 };
  const keeper = isKept ? new RowKeeper(given) : undefined;
  const key = keyOf(3);
  const slab = createSlab({ kernels, specs, shards, optimizer, key, hasIncrements: true, keeper });
  keeper?.begin();
  const zipf = new Zipf(update.rows, 1.05);
  const { tables, samples } = update;
  const offsets = Int32Array.from({ length: tables * samples + 1 }, (_, i) => i);
  const dPooled = kernels.tensor([samples, slab.columns]);
  kernels.fill(dPooled, 0.01);
  const rule = rowRuleOf(optimizer, 0, { step: 1, plateau: 1 });
  const rules = specs.map(() => ({ ...rule, rounding: { key, purpose: 9, step: 1 } }));
  const slices = slicesOf(0, 1, 1, samples);
  return {
    /** Milliseconds of a step, over the steps between two cuts. */
    run(round: number): number {
      const stream = new RandomStream(1, 2, round);
      const draw = () => stream.uniform();
      const batches = Array.from({ length: update.steps }, () => {
        const ids = Int32Array.from({ length: tables * samples }, () => zipf.draw(draw));
        return { tables, samples, offsets, ids };
      });
      const startMs = performance.now();
      for (const bags of batches) slab.update(bags, dPooled, slices, rules);
      const ms = (performance.now() - startMs) / update.steps;
      keeper?.endCut({ generation: 1, cut: round });
      return ms;
    },
  };
}

/** Milliseconds of a step with an undo log and without, in turn. */
async function steps(rounds: number): Promise<BenchRow[]> {
  const [withLog, without]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    // The order changes, as the load of the machine may.
    const order = round % 2 === 0 ? [undefined, 0] : [0, undefined];
    for (const undoBytes of order) {
      (undoBytes === 0 ? without : withLog).push(await stepMsOf(undoBytes));
    }
  }
  const named = { name: "lost-host.step", unit: "ms", limitIs: "without an undo log" };
  return [rowOf(named, withLog, without)];
}

async function stepMsOf(undoBytes: number | undefined): Promise<number> {
  using home = temporaryHome("osiris-steps-");
  await using cluster = await Cluster.start({ devices: 1 });
  const own = { directory: join(home.path, "checkpoints"), everySteps: 50, buddyBytes: 0 };
  const run = await cluster.submit({
    model: configuration("b").model,
    data: {
      ...{ kind: "synthetic", samples: 150 * 2048, dense: 13, batchSize: 2048, zipf: 1.05 },
      cache: join(home.path, "cache"),
    },
    checkpoint: undoBytes === undefined ? own : { ...own, undoBytes },
  });
  const { times } = await run.result();
  if (times === undefined) throw new RangeError(`Run ${run.run} has reported no times`);
  return times.stepMs * (1 - times.shares.checkpoint);
}
