// One long run on a cluster of two devices, controlled by commands: its shards and tiers are
// listed, moved and frozen by number; the run is scaled, outlives the broker's process, and is
// cancelled.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import { startDirectory } from "../data/data-files.ts";
import { testAll, testIf } from "../helpers/needs.ts";
import { runCli } from "../helpers/processes/cli.ts";
import { lastJson, type Running, startCli } from "../helpers/processes/start-cli.ts";
import { jobOf } from "./jobs.ts";
import { falls, startUp } from "./up.ts";

interface Listed {
  readonly shards: readonly {
    readonly actor: string;
    readonly device: number;
    readonly table: string;
  }[];
}

/**
 * The run, the command that follows its events, and a function that runs commands on the cluster.
 */
interface Steered {
  readonly t: ExecutionContext;
  readonly run: string;
  readonly following: Running;
  readonly command: (...args: readonly string[]) => ReturnType<typeof runCli>;
}

testIf(testAll).serial(
  "shards and tiers are controlled by number; the run is scaled, and outlives the broker",
  async (t) => {
    const directory = startDirectory(t);
    const { model, data, ...rest } = jobOf("long", 20_000);
    const [first, ...others] = (model as { readonly tables: readonly object[] }).tables;
    const tables = [{ ...first, tier: "cached" }, ...others];
    const tiers = { hbmBytes: 3000, ddrBytes: 20_000 };
    // Longer than the commands take on any machine: the test cancels the run.
    const long = { ...rest, data: { ...data, epochs: 10_000 }, sharding: "as-written" };
    const job = { ...long, model: { ...model, tables }, tiers };
    writeFileSync(join(directory, "long.json"), JSON.stringify(job));
    const { cluster, url, brokerPid, at } = await startUp(t, directory, ["--devices", "2"]);
    const following = startCli(["submit", "long.json", ...at, "--follow", "--json"], directory);
    t.teardown(() => following.kill("SIGKILL"));
    const line = await following.line((one) => one.includes('"run.progress"'));
    const { run } = JSON.parse(line) as { run: string };
    const command = (...args: readonly string[]) => runCli([...args, ...at], directory);
    const steered = { t, run, following, command };
    await steerShards(steered);
    await scale(steered);

    process.kill(brokerPid, "SIGKILL");
    const cancelled = await command("cancel", run, "--json");
    t.is(cancelled.code, 0, cancelled.stderr);
    const followed = await following.ended;
    t.is(followed.code, 130, followed.stderr);
    t.like(lastJson(followed), { run, status: "cancelled" });
    const refused = await runCli(["status", run, "--nats", url, "--token", "wrong"], directory);
    t.is(refused.code, 1);
    t.regex(refused.stderr, /^osiris: Cannot reach the broker .* refused the credentials/);
    t.is((await command("status", "nobody")).code, 2);
    // Killing the cluster's process for good also ends the broker's process.
    cluster.kill("SIGKILL");
    t.true(await falls(url));
  },
);

/**
 * Checks that shards are listed, moved, frozen and thawed by number, and tiers flushed by device.
 */
async function steerShards({ t, run, following, command }: Steered): Promise<void> {
  const listed = lastJson<Listed>(await command("status", "--shards", "--json"));
  const cached = listed.shards.find(({ table }) => table === "A");
  const [number, from] = [cached?.actor.split(":")[1] ?? "", cached?.device ?? 0];
  const to = 1 - from;

  const tier = await command("tier", "show", run, `device:${from}`);
  t.regex(tier.stdout, /^tier +run .* HBM rows .* DDR rows .* SSD rows/, tier.stderr);
  t.regex(tier.stdout, new RegExp(`\ntier:${from} +${run} +serving .* A `));
  const tiersOfAll = await command("status", "--tiers");
  t.regex(tiersOfAll.stdout, new RegExp(`\ntier:${from} +${run} `));
  const flushed = await command("tier", "flush", run, `${from}`);
  t.regex(flushed.stdout, /^Run .* has written .* rows? of device:\d to its disk\.\n$/);
  const none = await command("tier", "show", run, `${to}`);
  t.is(none.code, 2, none.stderr);
  t.regex(
    none.stderr,
    /`device` to be one of the run's devices, 0 to 1, with rows below its memory/,
  );

  const frozen = await command("shard", "freeze", run, `shard:${number}`);
  t.regex(frozen.stdout, /^shard:\d \(A, rows 0 to 199\) of run .* stays where it is until it is/);
  const held = await command("shard", "move", run, number, `${to}`);
  t.is(held.code, 2);
  t.regex(held.stderr, /one that is not frozen; `osiris shard thaw` lets it be moved/);
  const shown = await command("shard", "show", run, number);
  t.regex(shown.stdout, new RegExp(`\nshard:${number} .* frozen on device:${from} `));
  const thawed = await command("shard", "thaw", run, number);
  t.regex(thawed.stdout, /may lie on any device again\.\n$/);
  const moved = await command("shard", "move", run, number, `${to}`, "--json");
  t.like(lastJson(moved), { report: "shard.move", run, shard: { table: "A", device: from } });
  await following.line((one) => one.includes('"run.moved"'));
  const there = lastJson(await command("shard", "show", run, number, "--json"));
  t.like(there, { device: to, table: "A", pin: { device: to, isFrozen: false } });
}

/** Scales the run to one device, and checks that every view shows that. */
async function scale({ t, run, following, command }: Steered): Promise<void> {
  const scaled = await command("scale", run, "--devices", "1");
  t.is(scaled.stdout, `Run ${run} continues with 1 device.\n`, scaled.stderr);
  // A thawed shard is a scaling event, too: to the same number of devices.
  const event = await following.line((one) => /"run\.scaled".*"to":1,/.test(one));
  const { generation } = JSON.parse(event) as { generation: number };
  const look = await command("top", "--json");
  t.like(
    lastJson(look),
    { report: "top", runs: [{ run, devices: 1 }], unresponsive: [] },
    look.stderr,
  );
  const lines = await command("top", "--refreshes", "1");
  t.regex(lines.stdout, new RegExp(`^${run} \\(job\\) running: step .* 1 device\n`));
  const tree = await command("status", "--tree");
  t.regex(tree.stdout, /^leader and host:0: process \d+ on .*\ncluster:0 supervising\n/);
  t.regex(tree.stdout, new RegExp(`├─ device:0 \\(.*, generation ${generation}\\)`));
}
