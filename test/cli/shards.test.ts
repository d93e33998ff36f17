// Shards and tiers by the command line: shown, moved and held by their numbers, in mid-run.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { lastJson, runCli, startCli } from "../helpers/processes/cli.ts";
import { directoryOf, jobOf } from "./jobs.ts";

interface Listed {
  readonly shards: readonly {
    readonly actor: string;
    readonly device: number;
    readonly table: string;
  }[];
}

test.serial(
  "shards are shown, moved, held and let go by number; tiers by their device",
  async (t) => {
    const directory = directoryOf(t);
    const { model, ...rest } = jobOf("long", 600_000);
    const [first, ...others] = (model as { readonly tables: readonly object[] }).tables;
    const tables = [{ ...first, tier: "cached" }, ...others];
    const tiers = { hbmBytes: 3000, ddrBytes: 20_000 };
    const job = { ...rest, model: { ...model, tables }, tiers, sharding: "as-written" };
    writeFileSync(join(directory, "long.json"), JSON.stringify(job));
    const cluster = startCli(["up", "--port", "0", "--devices", "2", "--json"], directory);
    t.teardown(() => cluster.kill("SIGKILL"));
    const { url } = JSON.parse(await cluster.line((line) => line.includes('"up"')));
    const at = ["--nats", url];
    const following = startCli(["submit", "long.json", ...at, "--follow", "--json"], directory);
    t.teardown(() => following.kill("SIGKILL"));
    const line = await following.line((one) => one.includes('"run.progress"'));
    const { run } = JSON.parse(line) as { run: string };

    const listed = lastJson(await runCli(["status", "--shards", ...at, "--json"], directory));
    const cached = (listed as unknown as Listed).shards.find(({ table }) => table === "A");
    const [number, from] = [cached?.actor.split(":")[1] ?? "", cached?.device ?? 0];
    const to = 1 - from;

    const tier = await runCli(["tier", "show", run, `device:${from}`, ...at], directory);
    t.regex(tier.stdout, /^tier +run .* HBM rows .* DDR rows .* SSD rows/);
    t.regex(tier.stdout, new RegExp(`\ntier:${from} +${run} +serving .* A `));
    const tiersOfAll = await runCli(["status", "--tiers", ...at], directory);
    t.regex(tiersOfAll.stdout, new RegExp(`\ntier:${from} +${run} `));
    const flushed = await runCli(["tier", "flush", run, `${from}`, ...at], directory);
    t.regex(flushed.stdout, /^Run .* has written .* rows? below device:\d to its disk\.\n$/);
    const none = await runCli(["tier", "show", run, `${to}`, ...at], directory);
    t.is(none.code, 2, none.stderr);
    t.regex(
      none.stderr,
      /`device` to be one of the run's devices, 0 to 1, with rows below its memory/,
    );

    const frozen = await runCli(["shard", "freeze", run, `shard:${number}`, ...at], directory);
    t.regex(
      frozen.stdout,
      /^shard:\d \(A, rows 0 to 199\) of run .* stays where it is until it is/,
    );
    const held = await runCli(["shard", "move", run, number, `${to}`, ...at], directory);
    t.is(held.code, 2);
    t.regex(held.stderr, /one that is not frozen; `osiris shard thaw` lets it be moved/);
    const shown = await runCli(["shard", "show", run, number, ...at], directory);
    t.regex(shown.stdout, new RegExp(`\nshard:${number} .* frozen on device:${from} `));
    const thawed = await runCli(["shard", "thaw", run, number, ...at], directory);
    t.regex(thawed.stdout, /may lie on any device again\.\n$/);
    const moved = await runCli(["shard", "move", run, number, `${to}`, ...at, "--json"], directory);
    t.like(lastJson(moved), { report: "shard.move", run, shard: { table: "A", device: from } });
    await following.line((one) => one.includes('"run.moved"'));
    const there = lastJson(
      await runCli(["shard", "show", run, number, ...at, "--json"], directory),
    );
    t.like(there, { device: to, table: "A", pin: { device: to, isFrozen: false } });
  },
);
