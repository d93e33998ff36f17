// A user moves shards while a run trains: the model is the same, no step is done twice, and after
// any loss during the move the shard is on the requested device.

import test, { type ExecutionContext } from "ava";
import { Host, type JobOptions, type Run, type ShardReport } from "../../../internal.ts";
import {
  only,
  runJob,
  type Story,
  smallModel,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import type { EitherCluster } from "../../helpers/clusters/either-cluster.ts";
import { calmRun, startCluster } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const shardings = {
  "table-wise": {},
  "row-wise": { sharding: "row-wise", rowBlocks: 4 },
} as const;

type Sharding = keyof typeof shardings;

const sharded = (sharding: Sharding): Partial<JobOptions> => ({
  model: {
    ...smallModel,
    tables: smallModel.tables?.map((table) => ({ ...table, ...shardings[sharding] })),
  } as JobOptions["model"],
});

/** Longer than a pause, on the slowest machine. */
const stepDeadlineMs = 30_000;

/** Pauses after `step` steps, until the test resumes the run. */
const rest = (generation: number, step: number) =>
  ({ actor: "device:0", generation, step, point: 3, effect: "pause", pauseMs: 20_000 }) as const;

/**
 * Runs a job that pauses once in each generation, after `steps` of that generation: calls `at`,
 * then the run continues. On a slow machine any step may be reported, and a repeated step is
 * reported again, so a test acts in one given generation only.
 */
async function runWithRests(
  place: Pick<EitherCluster, "cluster" | "threads">,
  job: JobOptions,
  steps: readonly number[],
  at: (generation: number, run: Run) => Promise<void>,
): Promise<Story> {
  place.threads.plan(steps.map((step, i) => rest(i + 1, step)));
  const told = new Set<number>();
  return await runJob(place, { ...job, stepDeadlineMs }, async (event, run) => {
    const step = steps[event.generation - 1] ?? Number.POSITIVE_INFINITY;
    if (event.type !== "run.progress" || event.step < step || told.has(event.generation)) return;
    told.add(event.generation);
    await at(event.generation, run);
    place.threads.goOn("device:0");
  });
}

const calm = new Map<Sharding, Promise<Story>>();

/** The undisturbed job with tables of this sharding. */
function calmStory(sharding: Sharding): Promise<Story> {
  const known = calm.get(sharding) ?? startAlone(sharding);
  calm.set(sharding, known);
  return known;
}

async function startAlone(sharding: Sharding): Promise<Story> {
  await using place = await startCluster(1);
  return await runJob(place, place.job({ ...sharded(sharding), devices: 1 }));
}

async function shardsOf(
  { cluster }: Pick<EitherCluster, "cluster">,
  run: string,
): Promise<readonly ShardReport[]> {
  const { processes } = await cluster.client.inspect();
  return processes.flatMap(({ shards }) => shards).filter((one) => one.run === run);
}

/** A shard that is not on device `to`. */
async function oneOf(
  place: Pick<EitherCluster, "cluster">,
  run: string,
  to: number,
): Promise<ShardReport> {
  const all = await shardsOf(place, run);
  const found = all.find(({ device }) => device !== to);
  if (found === undefined) throw new Error(`all shards are on device ${to}`);
  return found;
}

const numberOf = ({ actor }: ShardReport) => Number(actor.split(":")[1]);

/** The device that has the rows of this shard. */
async function placeOf(place: EitherCluster, run: string, { table, firstRow }: ShardReport) {
  const all = await shardsOf(place, run);
  return all.find((one) => one.table === table && one.firstRow === firstRow)?.device;
}

async function assertSame(t: ExecutionContext, { result }: Story, sharding: Sharding) {
  const { result: expected } = await calmStory(sharding);
  t.is(result.digest, expected.digest);
  t.deepEqual(result.history, expected.history);
}

const moves = [
  [2, "table-wise"],
  [3, "row-wise"],
  [2, "row-wise"],
  [3, "table-wise"],
] as const;
for (const devices of [2, 3]) {
  for (const [, sharding] of someOrAll("moves", moves.slice(0, 2), moves).filter(
    ([of]) => of === devices,
  )) {
    const what = `a ${sharding} shard that moves among ${devices} devices`;
    test.serial(`${what}, the last of which then dies, changes no bit`, async (t) => {
      await using place = await startCluster(devices);
      const to = devices - 1;
      let moved: ShardReport | undefined;
      const seen: (number | undefined)[] = [];
      const job = place.job({ ...sharded(sharding), devices });
      const story = await runWithRests(place, job, [8, 18, 30], async (generation, run) => {
        if (generation === 1) {
          moved = await oneOf(place, run.run, to);
          const { pin } = await run.moveShard(numberOf(moved), { device: to });
          t.deepEqual(pin, { device: to, isFrozen: false });
        } else if (moved !== undefined) {
          seen.push(await placeOf(place, run.run, moved));
          if (generation === 2) place.threads.kill(`device:${to}`);
        }
      });
      await assertSame(t, story, sharding);
      t.deepEqual(seen, [to, to]);
      const { events } = story;
      const { table } = moved ?? {};
      t.like(only(events, "run.moved"), [{ shards: [{ table, device: to }], generation: 2 }]);
      t.deepEqual(only(events, "run.scaled"), []);
      t.is(only(events, "run.incident").length, 1);
      const [, second] = only(events, "run.started");
      t.like(second, { pins: [{ table, device: to, isFrozen: false }] });
      t.true((second?.fromStep ?? 0) >= 8 && (second?.fromStep ?? 0) <= 15);
    });
  }
}

test.serial("an impossible move of a shard is refused, and the run continues", async (t) => {
  await using place = await startCluster(2);
  const refusals: string[] = [];
  const [a, ...others] = smallModel.tables ?? [];
  const tables = [{ ...a, sharding: "data-parallel" }, ...others];
  const model = { ...smallModel, tables } as JobOptions["model"];
  const job = place.job({ model, devices: 2 });
  const story = await runWithRests(place, job, [8], async (_generation, run) => {
    const refused = (asked: Promise<unknown>) =>
      asked.catch((error: Error) => refusals.push(error.message));
    await refused(run.moveShard(7, { device: 1 }));
    await refused(run.moveShard(0, { device: 1 }));
    await refused(run.moveShard(1, { device: 2 }));
    await run.freezeShard(1);
    await refused(run.moveShard(1, { device: 1 }));
  });
  t.is(refusals.length, 4);
  t.is(refusals[0], "Expected `shard` to be one of the run's shards, 0 to 2, got `7` (number)");
  t.regex(refusals[1] ?? "", /`shard` to be of a table without a copy on every device, as a has/);
  t.regex(refusals[2] ?? "", /^Expected `device` to be one of the run's devices, 0 to 1, got `2`/);
  t.regex(refusals[3] ?? "", /one that is not frozen; `osiris shard thaw` lets it be moved/);
  t.is(story.result.generation, 1);
  t.is(story.result.digest, (await calmRun()).digest);
  await t.throwsAsync(story.run.moveShard(1, { device: 0 }), {
    message: /queued, running or paused/,
  });
});

testIf(testAll).serial(
  "a shard moves to another host if its rows fit into that host's memory, else it stays",
  async (t) => {
    // Each table takes 7,200 bytes: one host has two tables, the other host has one.
    await using place = await startTestCluster(1, {
      minDevices: 2,
      world: { memoryBytes: 15_000 },
    });
    const { url: nats, token = "" } = place.cluster;
    await using _host = await Host.join({ nats, token, devices: 1 });
    let refusal = "";
    const job = place.job({ devices: 2 });
    const story = await runWithRests(place, job, [8], async (_generation, run) => {
      const [there, here] = [await oneOf(place, run.run, 0), await oneOf(place, run.run, 1)];
      t.is(there.bytes, 7200);
      const moved = run.moveShard(numberOf(there), { device: 0 });
      await moved.catch((error: Error) => {
        refusal = error.message;
      });
      await run.moveShard(numberOf(here), { device: 1 });
    });
    t.regex(refusal, /`device` to be one with room for the shard's 0.000 GB: host:0 uses 0.000 of/);
    t.is(story.result.digest, (await calmRun()).digest);
    t.like(only(story.events, "run.moved"), [{ shards: [{ device: 1 }] }]);
    t.is(story.result.generation, 2);
  },
);

test.serial("a frozen shard stays on its device while the run is scaled", async (t) => {
  await using place = await startCluster(4);
  let held: ShardReport | undefined;
  const seen: (number | undefined)[] = [];
  const job = place.job({ ...sharded("row-wise"), devices: 2, sharding: "auto" });
  const story = await runWithRests(place, job, [8, 16, 24, 32], async (generation, run) => {
    if (held !== undefined) seen.push(await placeOf(place, run.run, held));
    if (generation === 1) {
      held = await oneOf(place, run.run, 0);
      await run.freezeShard(numberOf(held));
      await run.scale({ devices: 4 });
    }
    if (generation === 2) await run.scale({ devices: 1 });
    if (generation === 3) await run.scale({ devices: 3 });
  });
  await assertSame(t, story, "row-wise");
  t.deepEqual(seen, [1, 0, 1]); // On a single device, pins do not matter.
  const reasons = only(story.events, "run.started").map(({ pins }) =>
    pins?.map((one) => one.reason),
  );
  t.deepEqual(reasons, [undefined, [undefined], ["the run has 1 devices"], [undefined]]);
});

test.serial("a device may die between the request to move a shard and the cut", async (t) => {
  await using place = await startCluster(2);
  place.threads.plan([{ ...rest(1, 8), actor: "device:1", effect: "stall" }, rest(2, 20)]);
  let moved: ShardReport | undefined;
  let seen: number | undefined;
  const job = place.job({ ...sharded("row-wise"), devices: 2, stepDeadlineMs });
  const story = await runJob(place, job, async (event, run) => {
    if (event.type === "run.progress" && moved === undefined) {
      moved = await oneOf(place, run.run, 1);
      await run.moveShard(numberOf(moved), { device: 1 });
      place.threads.kill("device:1");
    }
    if (event.type !== "run.progress" || moved === undefined) return;
    if (event.generation === 2 && event.step === 20) {
      seen = await placeOf(place, run.run, moved);
      place.threads.goOn("device:0");
    }
  });
  await assertSame(t, story, "row-wise");
  t.is(seen, 1);
  t.is(only(story.events, "run.incident").length, 1);
});

test.serial("a thawed shard moves to the device of the plan", async (t) => {
  await using place = await startCluster(2);
  let moved: ShardReport | undefined;
  const seen: (number | undefined)[] = [];
  const job = place.job({ devices: 2 });
  const story = await runWithRests(place, job, [8, 16, 24], async (generation, run) => {
    if (generation === 1) {
      moved = await oneOf(place, run.run, 1);
      await run.moveShard(numberOf(moved), { device: 1 });
    }
    if (moved === undefined || generation === 1) return;
    seen.push(await placeOf(place, run.run, moved));
    if (generation === 3) return;
    t.is((await run.thawShard(numberOf(moved))).pin, undefined);
    place.threads.kill("device:0");
  });
  t.deepEqual(seen, [1, 0]);
  t.is(story.result.digest, (await calmRun()).digest);
});
