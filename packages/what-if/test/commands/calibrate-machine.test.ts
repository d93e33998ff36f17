// osiris calibrate --machine: predictions read the file that it writes, and all costs in the file
// come from one run of probes.

import { readdirSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { runCli } from "../../../../test/helpers/processes/cli.ts";
import { startCli } from "../../../../test/helpers/processes/start-cli.ts";
import { readHardware } from "../../hardware/read-hardware.ts";

test.serial(
  "a machine is measured into a hardware file, with the planner's constants",
  async (t) => {
    const directory = startDirectory(t);
    const env = ["env", `XDG_CACHE_HOME=${join(directory, "cache")}`];
    const args = ["calibrate", "--machine", "-o", "mine.yaml", "--json"];
    const { code, stdout, stderr } = await startCli(args, directory, env).ended;
    t.is(code, 0, stderr);
    const hardware = readHardware(join(directory, "mine.yaml"));
    const { host, device, constants, name, tasks = [] } = hardware;
    t.is(name, "this-machine");
    t.like(JSON.parse(stdout), { report: "calibrate", file: "mine.yaml", hardware: { name } });
    t.is(device.memory.lookups, constants?.memoryBandwidth ?? 0);
    t.is(device.flops.float32, constants?.denseFlops);
    // One run of probes gives the planner's costs of a step and the simulator's costs of tasks.
    const steps = constants?.steps ?? [];
    t.true(steps.length > 0);
    t.deepEqual(
      tasks.map(({ devices }) => devices),
      steps.map(({ devices }) => devices),
    );
    for (const { step, shard, readBatch, readSample, readBag, readId } of steps) {
      t.true(step + shard > 1e-6 && step + shard < 1, `${step} and ${shard}`);
      t.true(readBatch + readSample + readBag + readId > 0);
    }
    for (const { tasks: of } of tasks) {
      t.true(Object.values(of.forward ?? {}).some((cost) => cost > 0));
    }
    t.regex(stderr, /^Measuring this machine \.\.\.\n( {2}\d0 %\n)+/m);
    t.true((host.disk?.bandwidth ?? 0) > 1e6);
    t.deepEqual(readdirSync(directory).sort(), ["cache", "mine.yaml"]);
  },
);

test.serial("a model and a machine are not calibrated at once", async (t) => {
  const directory = startDirectory(t);
  for (const [args, refusal] of [
    [[], /Expected either a model, or `--machine` without one/],
    [["checkpoints", "--machine"], /Expected either a model, or `--machine` without one/],
    [["checkpoints", "--out", "a.yaml"], /Expected `--out` with `--machine` only/],
    [["--machine", "--out", "none/a.yaml"], /Cannot write none\/a\.yaml: /],
  ] as const) {
    const { code, stderr } = await runCli(["calibrate", ...args], directory);
    t.is(code, 2);
    t.regex(stderr, refusal);
  }
});
