// The constants of this machine: measured once, cached in a file of the user, and measured again if
// the file is damaged or belongs to another machine.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import {
  constantsOfDevice,
  machineConstants,
  measuredDevices,
} from "../../../actors/calibration/machine-constants.ts";
import { defaultConstants } from "../../../src/planner/cost/constants.ts";
import { startDirectory } from "../../data/data-files.ts";

/** A machine that records why it was measured each time. */
function machineIn(t: ExecutionContext, path = "deep/machine.json") {
  const directory = startDirectory(t);
  const reasons: string[] = [];
  const file = join(directory, path);
  const known = (isRenewed = false) =>
    machineConstants({
      ...{ path: file, arithmetic: "reference", isRenewed },
      onMeasure: (reason) => void reasons.push(reason),
      measure: async ({ memoryBytes, source }) => {
        return { ...defaultConstants, memoryBytes, source, denseFlops: 1e9 + reasons.length };
      },
    });
  return { file, reasons, known };
}

test("a machine is measured once, and again on request", async (t) => {
  const { reasons, known } = machineIn(t);
  const first = await known();
  t.is(first.notKept, undefined);
  t.deepEqual((await known()).constants, first.constants);
  t.deepEqual(reasons, ["it has not been measured"]);
  t.notDeepEqual((await known(true)).constants, first.constants);
  t.is(reasons.length, 2);
});

test.serial("devices get no more memory than the container of this process", async (t) => {
  const { known } = machineIn(t);
  const { constrainedMemory } = process;
  t.teardown(() => Object.assign(process, { constrainedMemory }));
  for (const bytes of [4e8, 8e8]) {
    process.constrainedMemory = () => bytes;
    t.is((await known()).constants.memoryBytes, 0.75 * bytes, "also of a machine that is known");
  }
});

test("if the file of constants is damaged, the machine is measured again and the file rewritten", async (t) => {
  const { file, reasons, known } = machineIn(t, "machine.json");
  await known();
  const text = readFileSync(file, "utf8");
  const wrong = text.replace('"denseFlops": 1', '"denseFlops": -1');
  for (const damaged of ["", text.slice(0, -20), "[]", '{"key": 1}', wrong]) {
    writeFileSync(file, damaged);
    t.is((await known()).notKept, undefined);
    t.is(reasons.at(-1), `${file} is damaged`);
    const before = reasons.length;
    await known();
    t.is(reasons.length, before);
  }
});

test("a file of another machine, other kernels or another version causes a new measurement", async (t) => {
  const { file, reasons, known } = machineIn(t, "machine.json");
  await known();
  const [kept] = JSON.parse(readFileSync(file, "utf8")).measured;
  const others = { processor: "Z80", cores: 999, version: "0.0.1", method: 0 };
  const write = (name: string, value: unknown) =>
    writeFileSync(
      file,
      JSON.stringify({ measured: [{ ...kept, key: { ...kept.key, [name]: value } }] }),
    );
  for (const [name, value] of Object.entries(others)) {
    write(name, value);
    await known();
    t.is(reasons.at(-1), `${file} is of ${name} ${value}, not ${kept.key[name]}`);
  }
  // The file keeps the constants for other kernels beside those for these kernels.
  write("arithmetic", "native-0");
  await known();
  t.regex(reasons.at(-1) ?? "", /^it has not been measured with the kernels reference-\d+$/);
  const { measured } = JSON.parse(readFileSync(file, "utf8"));
  t.deepEqual(
    measured.map(({ key }: typeof kept) => key.arithmetic),
    ["native-0", kept.key.arithmetic],
  );
  const before = reasons.length;
  await known();
  t.is(reasons.length, before);
});

test("constants are used even if their file cannot be written", async (t) => {
  const { file, reasons, known } = machineIn(t, "plain/machine.json");
  writeFileSync(join(file, "../../plain"), "no directory");
  const { constants, notKept } = await known();
  t.true(constants.denseFlops > 1e9);
  t.regex(notKept ?? "", /EEXIST|ENOTDIR/);
  await known();
  t.is(reasons.length, 2);
});

test("steps are measured on 1, 2 and all cores, and each device gets a share of the memory", (t) => {
  t.deepEqual([1, 2, 3, 4, 6, 8, 64].map(measuredDevices), [
    [1],
    [1, 2],
    [1, 2],
    [1, 2, 4],
    [1, 2, 4],
    [1, 2, 8],
    [1, 2, 8],
  ]);
  t.is(constantsOfDevice({ ...defaultConstants, memoryBytes: 9 }, 2).memoryBytes, 4);
});
