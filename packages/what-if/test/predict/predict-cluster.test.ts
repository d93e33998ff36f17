// Predictions of small jobs on kinds of machines: the bottleneck is the part that was made slow,
// and a job that does not fit is refused with remedies.

import test from "ava";
import {
  ClusterTooSmallError,
  InvalidOptionError,
  type JobOptions,
  resolveJob,
} from "../../../../internal.ts";
import { readHardware } from "../../hardware/read-hardware.ts";
import type { Hardware } from "../../model.ts";
import { type MeasuredChange, measureChanges } from "../../predict/changes.ts";
import { planCluster, predictCluster, predictPlanned } from "../../predict/predict-cluster.ts";

function jobOf(rows = 100_000, batchSize = 8192): JobOptions {
  const tables = Array.from({ length: 16 }, (_, i) => ({ name: `t${i}`, rows, dim: 64 }));
  return {
    model: { kind: "dlrm", dense: 13, tables, bottom: [256, 64], top: [256, 1] },
    data: { kind: "synthetic", samples: 1_000_000, dense: 13, batchSize, idsPerBag: 8 },
  };
}

const zionex = readHardware("zionex");

function changesWith(hardware: Hardware, job = jobOf()): readonly MeasuredChange[] {
  const planned = planCluster(resolveJob(job), hardware, { hosts: 2 });
  const changes = measureChanges(planned, hardware, predictPlanned(planned, hardware));
  for (;;) {
    const next = changes.next();
    if (next.done === true) return next.value;
  }
}

test("if one part of a machine is slow, the change that helps most is a faster part", (t) => {
  const { device, host, scaleOut, scaleUp } = zionex;
  const flops = Object.fromEntries(Object.keys(device.flops).map((name) => [name, 1e9]));
  const memory = { ...device.memory, bandwidth: 1e8, lookups: 1e8 };
  const slow: readonly [change: string, hardware: Partial<Hardware>][] = [
    ["scale-out x2", { scaleOut: { ...scaleOut, bandwidth: 1e6 } }],
    ["scale-out latency / 2", { scaleOut: { ...scaleOut, latency: 1 } }],
    ["scale-up x2", { scaleUp: { ...scaleUp, bandwidth: 1e6 } }],
    ["compute x2", { device: { ...device, flops } }],
    ["device memory x2", { device: { ...device, memory } }],
    ["ingestion x2", { host: { ...host, ingestion: 1e5 } }],
  ];
  for (const [change, part] of slow) {
    const [first, second] = changesWith({ ...zionex, ...part }).filter(
      ({ of }) => of === "hardware",
    );
    t.is(first?.name, change);
    t.true((first?.gain ?? 0) > 0.4 && (first?.gain ?? 0) < 1.001, `${change}: ${first?.gain}`);
    t.true((second?.gain ?? 1) < 0.3, `${change}: then ${second?.name} ${second?.gain}`);
  }
});

test("on a machine with measured tasks, a faster resource makes its own tasks faster", (t) => {
  const laptop = readHardware("laptop");
  for (const [change, tasks] of [
    ["compute x2", { backward: { product: 1e-8 } }],
    ["device memory x2", { updateRows: { idColumn: 1e-6 } }],
  ] as const) {
    const changes = changesWith({ ...laptop, tasks: [{ devices: 2, tasks }] });
    const gainOf = (name: string) => changes.find((one) => one.name === name)?.gain ?? 0;
    for (const name of ["compute x2", "device memory x2"]) {
      const gain = gainOf(name);
      t.true(name === change ? gain > 0.2 : Math.abs(gain) < 0.1, `${change}: ${name} ${gain}`);
    }
    t.false(changes.some(({ name }) => name === "float16 rows"));
  }
});

test("if the batch grows with the hosts, samples a second grow at most in proportion", (t) => {
  const [two = 0, four = 0] = [2, 4].map((hosts) => {
    const job = resolveJob(jobOf(100_000, 8192 * hosts));
    return predictCluster(job, zionex, { hosts }).samplesPerSecond;
  });
  t.true(two < four && four <= 2 * two, `${two}, ${four}`);
});

test("rows that exceed device memory go to hosts and disks, and beyond these are refused", (t) => {
  const { memory: whole } = predictCluster(resolveJob(jobOf(1e6)), zionex, { hosts: 1 });
  t.is(whole.host.used, 0);
  t.true(whole.device.used > (16 * 1e6 * 64 * 4) / 8 && whole.device.used < whole.device.there);
  // 16 tables of 1.6e9 rows: 6.6 TB in host memory and on the disks, which have 8 TB.
  const { memory, samplesPerSecond } = predictCluster(resolveJob(jobOf(1.6e9)), zionex, {
    hosts: 1,
  });
  t.true(memory.host.used > 0 && memory.device.used <= memory.device.there);
  t.true(memory.disk.used > 6.5e12 && memory.disk.used <= memory.disk.there);
  t.true(samplesPerSecond > 0);
  for (const kind of [zionex, readHardware("laptop")]) {
    t.throws(() => predictCluster(resolveJob(jobOf(2.1e9)), kind, { hosts: 1 }), {
      instanceOf: ClusterTooSmallError,
    });
  }
});

test("a job that does not fit is refused, with the memory that it needs and remedies", (t) => {
  const small = {
    ...zionex,
    device: { ...zionex.device, memory: { ...zionex.device.memory, bytes: 2e6 } },
  };
  const error = t.throws(
    () => predictCluster(resolveJob(jobOf()), small, { hosts: 1, advise: true }),
    {
      instanceOf: ClusterTooSmallError,
      message: /^The job does not fit 1 host of zionex: Every device holds back \d+ bytes/,
    },
  );
  t.true(error.remedies.some((sentence) => /^Give each device \d+ bytes of memory/.test(sentence)));
});

test("each host has the same number of devices, and no more than its hardware", (t) => {
  for (const devices of [15, 18, 1]) {
    t.throws(() => predictCluster(resolveJob(jobOf()), zionex, { hosts: 2, devices }), {
      instanceOf: InvalidOptionError,
      message: /`devices` to be 1 to 8 for each of 2 hosts of zionex, the same number, got/,
    });
  }
  t.throws(() => predictCluster(resolveJob(jobOf()), zionex, { hosts: 1e6 }), {
    message: /`devices` to be at most 65536 of all hosts, got `8000000`/,
  });
  const { devices } = predictCluster(resolveJob(jobOf()), zionex, { hosts: 2, devices: 4 });
  t.is(devices, 4);
});

test("if devices exchange over their links to the host, samples use these links, too", (t) => {
  const zion = readHardware("zion");
  const on = (isHostLink: boolean) => {
    const hardware = { ...zion, scaleUp: { ...zion.scaleUp, isHostLink } };
    return predictCluster(resolveJob(jobOf()), hardware, { hosts: 1 }).steps;
  };
  const [apart, same] = [on(false), on(true)];
  // Of 1,024 samples on each of 8 devices: features and ids arrive, and vectors of seven others.
  const samples = (1024 * 4 * (13 + 1 + 16 * 9)) / 12e9;
  const vectors = (1024 * (7 / 8) * 16 * 64 * 4 * 2) / (0.8 * 12e9);
  t.true(Math.abs((apart.busy.hostLink ?? 0) / samples - 1) < 1e-9);
  t.true((same.busy.hostLink ?? 0) > samples + vectors, `${same.busy.hostLink}`);
  t.true(same.step > apart.step);
});

test("with servers of another kind, each kind of machine is made faster separately", (t) => {
  const placement = { kind: "servers", servers: 8 } as const;
  const job = { ...jobOf(), slices: 16 as const, placement };
  const cpu = readHardware("cpu-ps");
  const { memory } = cpu.device;
  const device = { ...cpu.device, memory: { ...memory, bandwidth: 1e8, lookups: 1e8 } };
  const changes = changesWith({ ...zionex, servers: { ...cpu, device } }, job);
  const gainOf = (name: string) => changes.find((one) => one.name === name)?.gain ?? Number.NaN;
  t.is(changes.find(({ of }) => of === "hardware")?.name, "device memory x2 of cpu-ps");
  t.true(gainOf("device memory x2 of cpu-ps") > 0.8);
  t.true(Math.abs(gainOf("device memory x2 of zionex")) < 0.01);
  t.true(gainOf("one more host of cpu-ps") > 0.8);
  t.true(gainOf("one more host of zionex") < 0.1);
});

test("asynchronous jobs, and servers without a device that runs samples, are refused", (t) => {
  const servers = { kind: "servers", servers: 2 } as const;
  const jobs = [{ mode: "async" }, { mode: "bounded", placement: servers }] as const;
  for (const [i, refusal] of [
    /^Expected `mode` to be "exact" or "bounded" for a prediction of steps/,
    /`placement\.servers` to be at most 1/,
  ].entries()) {
    t.throws(
      () =>
        predictCluster(resolveJob({ ...jobOf(), ...jobs[i] }), zionex, { hosts: 1, devices: 2 }),
      { instanceOf: InvalidOptionError, message: refusal },
    );
  }
});

test("servers that are given as another kind change the prediction only by their speed", (t) => {
  const servers = { kind: "servers", servers: 8 } as const;
  const job = resolveJob({ ...jobOf(), slices: 16, placement: servers });
  const on = (hardware: Hardware) => predictCluster(job, hardware, { hosts: 2 });
  const { hardware: _, ...same } = on(zionex);
  const { hardware, ...own } = on({ ...zionex, servers: zionex });
  t.deepEqual(own, same);
  t.is(hardware, "zionex with servers of zionex");
  const slow = { ...zionex.device, memory: { ...zionex.device.memory, lookups: 1e9 } };
  const slower = on({ ...zionex, servers: { ...zionex, device: slow } });
  t.true(slower.samplesPerSecond < same.samplesPerSecond / 2);
  t.is(slower.bottleneck.name, "lookup and update of rows");
});

test("CPU servers hold rows that GPUs have no memory for, and their links limit the speed", (t) => {
  const cpu = readHardware("cpu-ps");
  const small = { ...zionex.device, memory: { ...zionex.device.memory, bytes: 1e9 } };
  const hardware = { ...zionex, device: small, servers: cpu };
  const placement = { kind: "servers", servers: 16 } as const;
  // 41 GB on two servers. Vectors leave over their interfaces, and then gradients arrive.
  const job = resolveJob({ ...jobOf(1e7), slices: 32, placement });
  const {
    memory,
    samplesPerSecond,
    kilowattHours = 0,
    goodput,
  } = predictCluster(job, hardware, {
    hosts: 3,
  });
  t.true([1e9, 256e9 / 8].includes(memory.device.there));
  const most = (2 * 0.7 * 3.125e9) / (2 * 16 * 4 * 64);
  t.true(samplesPerSecond < most && samplesPerSecond > most / 4, `${samplesPerSecond}, ${most}`);
  const watts = 6500 + 2 * 500;
  const hours = 1e9 / (samplesPerSecond * goodput * 3600);
  t.true(Math.abs(kilowattHours / ((hours * watts) / 1000) - 1) < 1e-9);
  const error = t.throws(() => predictCluster(job, hardware, { hosts: 2 }), {
    instanceOf: InvalidOptionError,
  });
  t.regex(error.message, /`placement\.servers` to be/);
  const uneven = { ...job, placement: { ...job.placement, servers: 12 } };
  t.throws(() => predictCluster(uneven, hardware, { hosts: 3 }), {
    message: /`placement\.servers` to be 8 for each of 1 to 2 hosts of cpu-ps, got `12`/,
  });
});
