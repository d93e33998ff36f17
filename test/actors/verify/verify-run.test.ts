// Verification of a run without a reference run: training again from one checkpoint to the next.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import {
  ArithmeticMismatchError,
  type CheckpointRecord,
  InvalidOptionError,
  type JobOptions,
  listCheckpoints,
  NotReplayableError,
  type RunProof,
  verifyRun,
} from "../../../internal.ts";
import { realDisk } from "../../../src/ports/disk.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";
import { decodeManifest, encodeManifest } from "../../../storage/checkpoints/store/manifest.ts";
import { pathsOf } from "../../../storage/checkpoints/store/store-paths.ts";
import { startDirectory } from "../../data/data-files.ts";
import { runJob, smallData, smallModel, smallSteps } from "../../helpers/clusters/clusters.ts";
import { startCluster } from "../../helpers/clusters/either-clusters.ts";
import { startTrained } from "../../helpers/devices/trained.ts";
import { runCli } from "../../helpers/processes/cli.ts";
import { flipByte, placeOfPart } from "../../helpers/stores/checkpoints.ts";

/** The digest of each file in a directory. */
function digestsIn(directory: string): Map<string, string> {
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  const paths = entries.flatMap((one) => (one.isFile() ? [join(one.parentPath, one.name)] : []));
  const digestOf = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");
  return new Map(paths.sort().map((path) => [path, digestOf(path)]));
}

const wrongOf = ({ leaves }: RunProof) => leaves.filter(({ isEqual }) => !isEqual);

test.serial(
  "a killed and scaled run verifies while it trains and after; a forged row is named",
  async (t) => {
    await using place = await startCluster(2);
    const checkpoint = { everySteps: 10, keep: 100, differential: "none" } as const;
    const job = place.job({ checkpoint });
    const directory = job.checkpoint?.directory ?? "";
    const exit = { actor: "device:1", generation: 1, step: 24, point: 3, effect: "exit" } as const;
    place.threads.plan([exit]);
    let isScaled = false;
    const meanwhile: Promise<RunProof>[] = [];
    const { result } = await runJob(place, job, async (event, run) => {
      if (event.type !== "run.checkpointed" || event.step < 30 || isScaled) return;
      isScaled = true;
      meanwhile.push(verifyRun(directory));
      await run.scale({ devices: 1 });
    });
    const [early] = await Promise.all(meanwhile);
    t.true(early?.isEqual, JSON.stringify(early && wrongOf(early)));

    const before = digestsIn(directory);
    const { checkpoints } = listCheckpoints(directory);
    const [newest] = checkpoints as [CheckpointRecord];
    t.is(newest.digest, result.digest);
    // The kill came after cut 20 was taken, so that cut 10 was committed; the scaling came after
    // cut 30.
    const begun = newest.lineage.map(({ from }) => from);
    t.is(begun.length, 3, `${begun}`);
    t.true(
      begun[0] === 0 && [10, 20].includes(begun[1] ?? -1) && (begun[2] ?? 0) >= 30,
      `${begun}`,
    );
    const whole = await verifyRun(directory, { from: "start" });
    t.true(whole.isEqual, JSON.stringify(wrongOf(whole)));
    t.is(whole.digest, result.digest);
    t.is(whole.steps, smallSteps);
    t.true(whole.leaves.some(({ name }) => name === "metrics.history"));
    const onTwo = await verifyRun(directory, { from: checkpoints[2]?.manifest, devices: 2 });
    t.like(onTwo, { isEqual: true, devices: 2 });
    t.deepEqual(digestsIn(directory), before, "no file is added, removed or changed");

    forge(directory, newest, "table-00001");
    const forged = await verifyRun(directory, { from: checkpoints[1]?.manifest });
    t.deepEqual(
      wrongOf(forged).map(({ name }) => name),
      ["table b"],
    );
    t.regex(wrongOf(forged)[0]?.difference ?? "", /^rows that differ: 1/);
    const ended = await runCli(["verify", directory], tmpdir());
    t.is(ended.code, 3, ended.stderr);
    t.regex(ended.stdout, /^! table b: rows that differ: 1/m);
    t.regex(ended.stdout, /^Equal +dense network, table a, table c, digest/m);
  },
);

test("an aborted verification leaves no temporary directory", async (t) => {
  const { directory, trained } = await startSmall(t);
  for (const cut of [1, 2]) await trained.train({ cut });
  const homes = () => readdirSync(tmpdir()).filter((name) => name.startsWith("osiris-verify-"));
  const before = homes();
  await t.throwsAsync(verifyRun(directory, { signal: AbortSignal.abort(new Error("enough")) }), {
    message: "enough",
  });
  t.deepEqual(
    homes().filter((name) => !before.includes(name)),
    [],
  );
});

test("checkpoints that cannot be verified by replay are refused with the reason", async (t) => {
  const { directory, trained } = await startSmall(t);
  const [first, second] = [await trained.train({ cut: 1 }), await trained.train({ cut: 2 })];
  await t.throwsAsync(verifyRun(directory, { from: second.sha256, to: first.sha256 }), {
    instanceOf: InvalidOptionError,
    message: /before step 1/,
  });
  const other = await trained.train({ cut: 3, arithmetic: "abacus-1" });
  await t.throwsAsync(verifyRun(directory), { instanceOf: ArithmeticMismatchError });
  const lineage = [{ generation: 1, from: 0, restored: "exact" } as const];
  t.deepEqual(other.lineage, lineage);
  reseal(directory, second, (manifest) => ({
    ...manifest,
    lineage: [...lineage, { generation: 2, from: 1, restored: "partial" as const }],
  }));
  const to = listCheckpoints(directory).checkpoints[1]?.manifest;
  await t.throwsAsync(verifyRun(directory, { to }), {
    instanceOf: NotReplayableError,
    message: /from step 1 to 2 .* generation 2 went on from step 1 without rows/,
  });
  const history = Array.from({ length: 1000 }, () => ({ step: 2, trainLoss: 0.5 }));
  reseal(directory, first, (manifest) => ({
    ...manifest,
    metrics: { ...(manifest.metrics as object), history },
  }));
  const from = listCheckpoints(directory).checkpoints[2]?.manifest;
  await t.throwsAsync(verifyRun(directory, { from: "start", to: from }), {
    instanceOf: NotReplayableError,
    message: /from step 0 to 1 .* newest 1000 evaluations and checkpoints alone, from step 2 on$/,
  });
  const coarse = await startSmall(t, { mode: "bounded", checkpoint: { bits: 4 } });
  await coarse.trained.train({ cut: 1 });
  await t.throwsAsync(verifyRun(coarse.directory), {
    instanceOf: NotReplayableError,
    message: /its checkpoints round weights to 4 bits/,
  });
});

async function startSmall(t: ExecutionContext, more: Partial<JobOptions> = {}) {
  const home = startDirectory(t);
  const directory = join(home, "checkpoints");
  const data = { ...smallData, samples: 64, cache: join(home, "cache") };
  const checkpoint = { ...more.checkpoint, directory };
  const options = {
    model: smallModel,
    data,
    arithmetic: "reference" as const,
    ...more,
    checkpoint,
  };
  return { directory, trained: await startTrained(options) };
}

/** Changes one weight of one row, and recomputes all checksums: only training shows the change. */
function forge(directory: string, { cut, generation }: CheckpointRecord, part: string): void {
  const { path, at, bytes } = placeOfPart(directory, { cut, generation }, part);
  flipByte(realDisk, path, at + bytes - 64);
  const own = readFileSync(path).subarray(at, at + bytes);
  const sha256 = createHash("sha256").update(own).digest("hex");
  reseal(directory, { cut, generation }, (manifest) => ({
    ...manifest,
    parts: manifest.parts.map((one) => (one.name === part ? { ...one, sha256 } : one)),
  }));
}

function reseal(
  directory: string,
  { cut, generation }: Pick<Manifest, "cut" | "generation">,
  change: (manifest: Omit<Manifest, "sha256">) => Omit<Manifest, "sha256">,
): void {
  const path = pathsOf(directory).manifest(cut, generation);
  const { sha256: _, ...record } = decodeManifest(readFileSync(path), path);
  writeFileSync(path, encodeManifest(change(record)).bytes);
}

test("verify reports a name that is no directory before it waits for a broker", async (t) => {
  const { code, stderr } = await runCli(
    ["verify", "nope", "--nats", "nats://127.0.0.1:1"],
    tmpdir(),
  );
  t.is(code, 1);
  const [first, second] = stderr.trimEnd().split("\n");
  t.is(
    first,
    "There is no directory nope here: looking for a run of that name at nats://127.0.0.1:1",
  );
  t.regex(second ?? "", /^osiris: Cannot reach the broker at /);
});
