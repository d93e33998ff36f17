// Faults drawn from a seed: the thread, the step, the point of the step, and the effect. The test
// prints the seed; `SEED=17 npx ava dist/test/chaos/trials/drawn-faults.test.js` draws the same
// faults.

import type { ThreadFault } from "../../../internal.ts";
import { purposes, RandomStream } from "../../../src/ports/random.ts";
import {
  calmResult,
  only,
  runJob,
  smallSteps,
  startTestCluster,
} from "../../helpers/clusters/clusters.ts";
import { equalsCalm } from "../../helpers/clusters/either-clusters.ts";
import { testAll, testIf } from "../../helpers/needs.ts";

const seed = Number(process.env.SEED ?? 1);
const generations = 6;

/** In every generation a device dies; a reader may die, too, or a thread may be slow. */
function drawFaults(): ThreadFault[] {
  const random = new RandomStream(seed, purposes.faults);
  const steps = Array.from({ length: generations }, () => random.below(smallSteps));
  return steps
    .sort((a, b) => a - b)
    .flatMap((step, i) => {
      const generation = i + 1;
      const point = random.below(20);
      const [one = "", other = ""] = random.below(2) === 0 ? pair : [...pair].reverse();
      const faults: ThreadFault[] = [{ actor: one, generation, step, point, effect: "exit" }];
      const before = Math.max(0, step - random.below(4));
      if (random.below(2) === 0) {
        faults.push({ actor: "reader:0", generation, step: before, point: 1, effect: "exit" });
      }
      if (random.below(2) === 0) {
        const pauseMs = random.below(200);
        const pause = { effect: "pause", pauseMs } as const;
        faults.push({ actor: other, generation, step: before, point, ...pause });
      }
      return faults;
    });
}

const pair = ["device:0", "device:1"];

testIf(testAll).serial("under faults drawn from a seed, the model is the same", async (t) => {
  await using place = await startTestCluster();
  const faults = drawFaults();
  t.log("seed", seed);
  for (const fault of faults) t.log(JSON.stringify(fault));
  place.threads.plan(faults);
  const { result, events } = await runJob(place, place.job());
  await equalsCalm(t, result, calmResult());
  const lost = only(events, "run.incident").filter(({ offender }) => offender !== "reader:0");
  t.is(lost.length, generations);
  t.is(result.generation, generations + 1);
});
