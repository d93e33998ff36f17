// Hardware files: those of the package, invalid ones, and the constants that the planner gets.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { parse, stringify } from "yaml";
import {
  InputUnusableError,
  packageFile,
  planJob,
  quantityIn,
  resolveJob,
} from "../../../../internal.ts";
import { serverConstants } from "../../../../src/planner/cost/constants.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { constantsOf, memoryOf, withCachesOf } from "../../hardware/constants-of.ts";
import { hardwareNames, readHardware } from "../../hardware/read-hardware.ts";

test("every kind of machine of the package can be read, and only measured ones are fitted", (t) => {
  const kinds = ["big-basin", "cpu-ps", "dgx-h100", "laptop", "v100-prototype", "zion", "zionex"];
  t.deepEqual(hardwareNames(), kinds);
  for (const kind of kinds) {
    const { name, source, fitted, constants } = readHardware(kind);
    t.is(name, kind);
    t.true(source.length > 10);
    t.is(fitted.length > 0, constants !== undefined, kind);
  }
});

test("the two-core machine has the planner's constants of a small server", (t) => {
  const { constants, device } = readHardware("laptop");
  const { source: _, memoryBytes, ...own } = constants ?? serverConstants;
  const { source, memoryBytes: other, ...rest } = serverConstants;
  t.deepEqual(own, rest);
  t.is(device.memory.bytes, memoryBytes / 2);
  t.is(device.flops.float32, rest.denseFlops);
});

test("figures have units: bits and bytes, powers of 1000 and of 1024, and seconds", (t) => {
  t.is(quantityIn("40GB", "bytes"), 40e9);
  t.is(quantityIn("1.5 tib", "bytes"), 1.5 * 2 ** 40);
  t.is(quantityIn("200Gb/s", "bytes per second"), 25e9);
  t.is(quantityIn("12.4TB/s", "bytes per second"), 12.4e12);
  t.is(quantityIn("19.5TFLOP/s", "operations per second"), 19.5e12);
  t.is(quantityIn("5us", "seconds"), 5e-6);
  for (const wrong of ["40", "40GB", "ten GB/s", "-1GB/s", "1XB/s", "0GB/s", "1GB/sec"]) {
    t.is(quantityIn(wrong, "bytes per second"), undefined, wrong);
  }
  t.is(quantityIn("5ks", "seconds"), undefined);
});

/** Changes of a valid file, each with the message of its refusal. */
const wrong: readonly [path: string, value: unknown, refusal: RegExp][] = [
  ["host.devices", 0, /Expected `host\.devices` to be a number >= 1, got `0`/],
  ["host.memory.bytes", "lots", /Expected `host\.memory\.bytes` to be bytes > 0, as in .*16GB/],
  ["host.memroy", {}, /Expected no option `host\.memroy`: did you mean `memory`\?/],
  ["host.ingestion", undefined, /Expected `host\.ingestion` to be bytes per second > 0/],
  [
    "device.memory.bandwidth",
    "40GB",
    /Expected `device\.memory\.bandwidth` to be bytes per second/,
  ],
  ["device.memory.lookups", "2TB/s", /`device\.memory\.lookups` to be at most the memory's `bandw/],
  ["device.flops.float23", "1TFLOP/s", /`device\.flops.*float23/],
  [
    "device.flops.float32",
    undefined,
    /Expected `device\.flops\.float32` to be operations per second/,
  ],
  ["device.gemmShare", 1.5, /Expected `device\.gemmShare` to be a number <= 1, got `1\.5`/],
  ["scaleUp", undefined, /Expected `scaleUp` to be a link, as `host\.devices` is not 1/],
  ["scaleUp.isHostLink", true, /`scaleUp\.bandwidth` to be `device\.hostLink`, 25000000000 bytes/],
  [
    "scaleOut.bandwidth",
    200,
    /`scaleOut\.bandwidth` to be between 1e3 and 1e17, as numbers without/,
  ],
  ["scaleOut.latency", 5, /`scaleOut\.latency` to be between 1e-12 and 1e0, as numbers without/],
  ["host.memory.bytes", -16, /Expected `host\.memory\.bytes` to be bytes > 0, as in .*got `-16`/],
  ["device.hostLink", Number.NaN, /Expected `device\.hostLink` to be bytes per second > 0/],
  ["host.watts", 1e300, /Expected `host\.watts` to be a number <= 1000000, got/],
  ["scaleSideways", {}, /Expected no option `scaleSideways`/],
  ["scaleOut.isShared", "yes", /Expected `scaleOut\.isShared` to be a boolean, got `yes`/],
  ["scaleOut.latency", "5 minutes", /Expected `scaleOut\.latency` to be seconds > 0/],
  ["constants", { rows: 5 }, /Expected `constants\.rows` to be an array, got `5`/],
  [
    "tasks",
    [{ devices: 1, tasks: { forwrd: { step: 1 } } }],
    /Expected `tasks\[0\]\.tasks\.forwrd` to be left out, as a step has no task of this name/,
  ],
  [
    "tasks",
    [{ devices: 1, tasks: { lookup: { step: 1, idColumns: 1 } } }],
    /Expected `tasks\[0\]\.tasks\.lookup\.idColumns` to be left out, as no task has a unit of this/,
  ],
  ["wats", 5, /Expected no option `wats`/],
];

test("a wrong file is refused by field, in a sentence that names the file", (t) => {
  const directory = startDirectory(t);
  const path = join(directory, "mine.yaml");
  const good = stringify(readHardware("zionex"));
  for (const [field, value, refusal] of wrong) {
    const file = parse(good) as Record<string, unknown>;
    const names = field.split(".");
    const last = names.pop() ?? "";
    const at = names.reduce((of, name) => of[name] as Record<string, unknown>, file);
    if (value === undefined) delete at[last];
    else at[last] = value;
    writeFileSync(path, stringify(file));
    const error = t.throws(() => readHardware(path), { instanceOf: InputUnusableError }, field);
    t.regex(error?.message ?? "", refusal, field);
    t.true(error?.message.startsWith(`Cannot use the hardware file ${path}: `), field);
    t.notRegex(error?.message ?? "", /; Expected/, field);
  }
  for (const empty of ["", "- a", "text"]) {
    writeFileSync(path, empty);
    t.throws(() => readHardware(path), { message: /: expected fields, as `name`, `host` and/ });
  }
  writeFileSync(path, "name: [");
  t.throws(() => readHardware(path), { message: /Cannot use the hardware file .*mine\.yaml: / });
  t.throws(() => readHardware("zionx"), {
    message: /no kind of machine .*: did you mean zion\?/,
  });
});

test("the planner gets the links of each device, and host memory as the cache below devices", (t) => {
  const devices = { hosts: 16, perHost: 8 };
  const zionex = readHardware("zionex");
  const constants = constantsOf(zionex, devices);
  t.like(constants, {
    ...{ memoryBytes: 40e9, memoryBandwidth: 1300e9, lowerBandwidth: 25e9 },
    ...{ denseFlops: 0.7 * 19.5e12, hostRoundSeconds: 5e-6 },
    insideHost: { allToAll: 240e9, reduceScatter: 240e9, allGather: 240e9, allReduce: 240e9 },
    acrossHosts: { allToAll: 0.56 * 25e9, allReduce: 15e9 },
  });
  // Eight devices share one interface, and the measured machine its memory.
  t.is(constantsOf(readHardware("big-basin"), devices).acrossHosts.allToAll, (0.56 * 12.5e9) / 8);
  t.is(constantsOf(readHardware("laptop"), { hosts: 1, perHost: 2 }).memoryBytes, 3e9);
  // A device whose memory is the host's leaves nothing of it for rows below.
  const cpu = readHardware("cpu-ps");
  t.like(memoryOf(cpu, { hosts: 4, perHost: 1 }), { memoryBytes: 256e9, hostBytes: 0 });

  // Two tables of 30 GB each do not fit one device of 40 GB: rows rest in its host's memory.
  const tables = ["A", "B"].map((name) => ({ name, rows: 117_000_000, dim: 64 }));
  const job = resolveJob({
    model: { kind: "dlrm", dense: 1, tables, bottom: [64], top: [1] },
    data: { kind: "synthetic", samples: 1e6, dense: 1, batchSize: 4096, idsPerBag: 10 },
  });
  const one = { hosts: 1, perHost: 1 };
  const cached = withCachesOf(job, zionex, one);
  t.is(cached.tiers.ddrBytes, 0.9 * 1.5e12);
  const found = planJob(cached, { devices: one, constants: constantsOf(zionex, one), cache: true });
  if (!found.isFeasible) return t.fail(JSON.stringify(found.unmet));
  const below = found.plan.shards.filter(({ tier }) => tier === "cached");
  t.true(below.length > 0);
  for (const { cache } of below) t.true((cache?.ddrBytes ?? 0) > 29e9);
});

test("the page on hardware names every kind of machine and every field", (t) => {
  const page = readFileSync(packageFile("packages/what-if/docs/hardware.md"), "utf8");
  const namesIn = (value: object, at = ""): string[] =>
    Object.entries(value).flatMap(([name, own]: [string, unknown]) => {
      const isSection = typeof own === "object" && own !== null && !Array.isArray(own);
      if (name === "constants" || !isSection) return [`${at}${name}`];
      return namesIn(own, at === "" ? `${name}.` : `${at}${name}.`);
    });
  const names = [...namesIn(readHardware("zionex")), ...namesIn(readHardware("laptop"))];
  for (const name of names) {
    const last = name.split(".").at(-1) ?? "";
    t.true(page.includes(`\`${name}\``) || page.includes(`\`${last}\``), name);
  }
  for (const kind of hardwareNames()) t.true(page.includes(`\`${kind}\``), kind);
});
