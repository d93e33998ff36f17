// Native kernels in parts, on several threads: the same bits for any number of threads, in every
// instruction set, and no thread left when the thread that uses them ends.

import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import type { ExecutionContext } from "ava";
import type { Kernels } from "../../src/kernels/contract/kernels.ts";
import { openKernels, useThreads } from "../../src/kernels/index.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { leavesOut, nativeKernels, testIf } from "../helpers/needs.ts";
import { rounds, someOrAll } from "../helpers/thinned.ts";
import { until } from "../helpers/until.ts";
import { blockScenarios } from "./blocks/block-cases.ts";
import { eachIsa } from "./instruction-sets.ts";
import { scenarios } from "./scenarios.ts";
import { kernelSuite } from "./suite.ts";

/** Nanoseconds of a part, so few that all kernels run in parts, also on the small shapes here. */
const partNs = 1e-9;

function startThreads(t: ExecutionContext, threads: number): Kernels | undefined {
  if (leavesOut(t, nativeKernels)) return undefined;
  t.is(useThreads(threads, partNs), threads);
  t.teardown(() => useThreads(1)); // Other tests of this room run in the same thread.
  return openKernels("native");
}

for (const threads of someOrAll("threads of all kernels", [3], [2, 3])) {
  kernelSuite(`native, ${threads} threads`, (t) => startThreads(t, threads));
}

const seeds = Array.from(
  { length: rounds("seeds of kernels in parts", 2, 15) },
  (_, seed) => seed + 1,
);

for (const [name, scenario] of Object.entries({ ...scenarios, ...blockScenarios })) {
  testIf(nativeKernels)(`any number of threads gives the same bits: ${name}`, (t) => {
    eachIsa(t, (_, isa) => {
      for (const seed of seeds) {
        const [one, two, three] = [1, 2, 3].map((threads) => {
          const kernels = startThreads(t, threads);
          return kernels === undefined
            ? []
            : scenario(kernels, new RandomStream(seed, 1)).map(hashOf);
        });
        t.deepEqual(two, one, `${isa}, seed ${seed}, 2 threads`);
        t.deepEqual(three, one, `${isa}, seed ${seed}, 3 threads`);
      }
    });
  });
}

/** A hash, because the difference of two long texts takes minutes to show. */
function hashOf({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  return hash("sha256", Buffer.from(buffer, byteOffset, byteLength), "hex");
}

testIf(nativeKernels).serial(
  "helper threads end with their device's thread, however it ends",
  async (t) => {
    if (process.platform !== "linux") return t.log("Threads are counted in /proc.");
    // Tests of other threads of this process start and end helpers, too.
    const before = helpers();
    const areOwn = (count: number) =>
      until(`${count} helpers`, () => {
        return helpers().filter((task) => !before.includes(task)).length === count;
      });
    for (const end of ["returns", "is terminated"]) {
      const worker = new Worker(new URL("threads-worker.js", import.meta.url));
      const ended = new Promise((resolve) => worker.once("exit", resolve));
      await new Promise((resolve) => worker.once("message", resolve));
      await areOwn(3);
      if (end === "is terminated") void worker.terminate();
      else worker.postMessage("return");
      await ended;
      await areOwn(0);
      t.pass(`the thread ${end}`);
    }
  },
);

/** The helpers among the threads of this process. */
function helpers(): string[] {
  return readdirSync("/proc/self/task").filter((task) => {
    try {
      return readFileSync(`/proc/self/task/${task}/comm`, "utf8") === "osiris-helper\n";
    } catch {
      return false; // The thread has ended in the meantime.
    }
  });
}
