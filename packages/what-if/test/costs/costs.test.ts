// Seconds and memory of tasks: against sums by hand, and against the planner's prediction for a
// measured machine.

import test from "ava";
import { type JobOptions, type Plan, planJob, resolveJob } from "../../../../internal.ts";
import { assessPlan } from "../../../../src/planner/assess.ts";
import { near } from "../../../../test/helpers/stores/plans.ts";
import { costedCluster } from "../../costs/costed-job.ts";
import { costsOfCluster } from "../../costs/costs-of-cluster.ts";
import { gemmShareOf } from "../../costs/dense-costs.ts";
import { constantsOf } from "../../hardware/constants-of.ts";
import type { ClusterDevices } from "../../hardware/hardware.ts";
import { readHardware } from "../../hardware/read-hardware.ts";
import type { DeviceCosts } from "../../model.ts";

function jobOf(tables: readonly object[], options: Partial<JobOptions> = {}, interaction = "dot") {
  const [{ dim } = {}] = tables as { readonly dim?: number }[];
  return resolveJob({
    model: { kind: "dlrm", dense: 13, tables, bottom: [256, dim], top: [256, 1], interaction },
    data: { kind: "synthetic", samples: 1e6, dense: 13, batchSize: 1024, idsPerBag: 20, zipf: 0 },
    optimizer: { dense: { kind: "adagrad" }, sparse: { kind: "sgd" } },
    ...options,
  });
}

type Job = ReturnType<typeof jobOf>;

/** A plan of these tables, each on the device of its index, or on all. */
function planOf(job: Job, devices: ClusterDevices, onAll: readonly string[] = []): Plan {
  const W = devices.hosts * devices.perHost;
  const shards = job.model.tables.map(({ name, dim, rowBlocks }, i): Plan["shards"][number] => ({
    table: name,
    scheme: onAll.includes(name) ? "data-parallel" : "table-wise",
    tier: "memory",
    device: onAll.includes(name) ? "all" : i % W,
    ...{ firstBlock: 0, blocks: rowBlocks, firstQuantum: 0, quanta: Math.ceil(dim / 32) },
  }));
  return { devices, shards };
}

const secondsOf = ({ tasks }: DeviceCosts) =>
  Object.entries(tasks).reduce((sum, [name, { seconds }]) => {
    return name === "checkpoint" ? sum : sum + seconds;
  }, 0);

test("the seconds of a device's tasks equal values computed by hand", (t) => {
  const devices = { hosts: 1, perHost: 2 };
  const job = jobOf(["A", "B"].map((name) => ({ name, rows: 1_000_000, dim: 128 })));
  const zionex = readHardware("zionex");
  const hardware = { ...zionex, device: { ...zionex.device, idSort: 5e-9 } };
  const { classes, reading } = costsOfCluster(job, planOf(job, devices), hardware, devices);
  t.is(classes.length, 1);
  const { ranks, tasks, sent } = classes[0] as DeviceCosts;
  const seconds = (task: keyof typeof tasks) => tasks[task]?.seconds ?? 0;
  t.deepEqual(ranks, [0, 1]);
  // One table: 1,024 bags of 20 ids of 4 bytes and rows of 512, and a vector of 512 for each bag.
  const lookup = (1024 * 20 * (4 + 512) + 1024 * 512) / 1300e9;
  near(t, seconds("lookup"), lookup);
  near(t, seconds("updateRows"), 2 * lookup + 1024 * 20 * 5e-9);
  // 512 samples through 13 -> 256 -> 128: the products at 70 % of the peak take longer than bytes.
  const [peak, bytes] = [0.7 * 19.5e12, 1300e9];
  const layer = (from: number, to: number) =>
    Math.max(
      (2 * 512 * (from + 1) * to) / peak,
      (4 * (512 * (from + to) + (from + 1) * to)) / bytes,
    );
  near(t, seconds("forwardEarly"), layer(13, 256) + layer(256, 128));
  near(t, seconds("backwardEarly"), 2 * seconds("forwardEarly"));
  // 14 x 256 + 257 x 128 parameters below, and 128 + 3 x 1 pairs of vectors above; 20 bytes each.
  const parameters = 14 * 256 + 257 * 128 + (128 + 3 + 1) * 256 + 257;
  near(t, seconds("updateDense"), (20 * parameters) / bytes);
  // The vectors of the other device's 512 samples, in float32.
  t.deepEqual(sent.pooled, { inside: 512 * 128 * 4, across: 0 });
  // 13 features and a label, and of each table the length and 20 ids.
  const arriving = 4 * (14 + 2 * 21);
  near(t, reading.seconds, (1024 * arriving) / 50e9);
  near(t, tasks.batch?.shared?.hostLink ?? 0, (512 * arriving) / 25e9);
});

test("products of few rows reach a smaller share of the peak", (t) => {
  const { device } = readHardware("zionex");
  const shares = [4096, 512, 181, 64, 32].map((rows) => gemmShareOf(device, rows));
  for (const [i, share] of [0.7, 0.7, 0.525, 0.35, 0.175].entries()) {
    near(t, shares[i] ?? 0, share, 1e-3);
  }
  const job = jobOf([{ name: "A", rows: 1000, dim: 64 }]);
  const [v100, one] = [readHardware("v100-prototype"), { hosts: 1, perHost: 1 }];
  const options = { precision: "bfloat16" } as const;
  t.throws(() => costsOfCluster(job, planOf(job, one), v100, one, options), {
    message: /Expected `precision` to be one that v100-prototype has a peak of: float32, got `bfl/,
  });
});

for (const perHost of [1, 2, 4]) {
  test(`on a measured machine, the tasks of ${perHost} devices take what the planner predicts`, (t) => {
    const laptop = readHardware("laptop");
    const devices = { hosts: 1, perHost };
    const names = ["A", "B", "C", "D"];
    const tables = names.map((name) => ({ name, rows: 50_000, dim: 64, rowBlocks: 4 }));
    const whole = jobOf(tables);
    const rows = jobOf(
      tables.map((table) => ({ ...table, sharding: "row-wise" })),
      {
        sharding: "as-written",
        optimizer: { sparse: { kind: "rowWiseAdagrad" } },
      },
    );
    const constants = constantsOf(laptop, devices);
    const cut = planJob(rows, { devices, constants });
    if (!cut.isFeasible) return t.fail();
    for (const [job, plan] of [
      [whole, planOf(whole, devices)],
      [whole, planOf(whole, devices, names)],
      [rows, cut.plan],
    ] as const) {
      const { classes } = costsOfCluster(job, plan, laptop, devices);
      t.is(classes.length, 1);
      const { setting } = costedCluster(job, plan, { hardware: laptop, devices });
      // Without `cores`: the planner then gives each device a core, as these costs do.
      const { cores: _, ...alone } = constants;
      const { stages } = assessPlan({ ...setting, constants: alone }, plan);
      const predicted = Object.values(stages).reduce((sum, own) => sum + own, 0) - stages.read;
      near(t, secondsOf(classes[0] as DeviceCosts), predicted, 1e-9);
    }
  });
}

test("devices with equal costs are one class, and each other device is its own", (t) => {
  const devices = { hosts: 2, perHost: 4 };
  const sizes = [64, 64, 32, 64, 64, 64, 64, 128];
  const tables = sizes.map((dim, i) => ({ name: `T${i}`, rows: 1000, dim }));
  const job = jobOf([...tables, { name: "copied", rows: 10, dim: 64 }], {}, "cat");
  const plan = planOf(job, devices, ["copied"]);
  const { classes } = costsOfCluster(job, plan, readHardware("zionex"), devices);
  t.deepEqual(
    classes.map(({ ranks }) => ranks),
    [[0, 1, 3], [2], [4, 5, 6], [7]],
  );
});

test("rows that miss a cache cross the host link, host memory twice, and the disk if they must", (t) => {
  const devices = { hosts: 1, perHost: 1 };
  const rows = 1_000_000;
  const job = jobOf([{ name: "A", rows, dim: 64, tier: "cached" }]);
  const zionex = readHardware("zionex");
  const [whole] = planOf(job, devices).shards;
  const rowBytes = 4 * 64 + 1; // Weights, and the touched flag.
  const costsWith = (hbm: number, ddr: number, hardware = zionex) => {
    const place = rowBytes + 4 * 4; // About a row with its slot in the index.
    const cache = { hbmBytes: hbm * rows * place, ddrBytes: ddr * rows * place };
    const shards = whole === undefined ? [] : [{ ...whole, tier: "cached" as const, cache }];
    const { classes } = costsOfCluster(job, { devices, shards }, hardware, devices);
    return classes[0] as DeviceCosts;
  };
  // Of 20,480 ids of a uniform table almost all are distinct.
  const asked = rows * -Math.expm1(-20_480 / rows) * rowBytes;
  const half = costsWith(0.5, 0);
  const { hostLink = 0, hostMemory = 0, disk = 0 } = half.tasks.tiers?.shared ?? {};
  near(t, hostLink, (0.5 * asked) / 25e9, 0.1);
  near(t, hostMemory, (2 * hostLink * 25e9) / 320e9);
  near(t, disk, (2 * hostLink * 25e9) / 6e9);
  t.is(half.tasks.tiers?.seconds, 0);
  t.deepEqual([half.memory.host, half.memory.disk], [0, rows * rowBytes]);
  // Host memory also holds the rows that are in device memory.
  const larger = costsWith(0.5, 0.75).tasks.tiers?.shared ?? {};
  t.is(larger.hostLink, hostLink);
  near(t, larger.disk ?? 0, disk / 2, 0.1);
  const { disk: _, ...host } = zionex.host;
  const diskless = costsWith(0.5, 0, { ...zionex, host });
  t.deepEqual([diskless.memory.host, diskless.memory.disk], [rows * rowBytes, 0]);
  t.is(diskless.tasks.tiers?.shared?.disk, undefined);
});
