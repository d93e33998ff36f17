// Regression tests of bugs that the simulator found, each with the smallest scenario that shows it.
// The scenario is written out, because its seed may draw another one later.

import test from "ava";
import type { Scenario } from "../../../chaos/simulation/scenario.ts";
import { simulate } from "../../../chaos/simulation/simulate.ts";
import { createSoloCells, nobody } from "../../../src/exchange/cells.ts";
import { type Clock, SimulatedClock } from "../../../src/ports/clock.ts";
import { createStepMeter, meterWords } from "../../../src/training/meters/step-meter.ts";

interface Found {
  readonly what: string;
  readonly scenario: Scenario;
}

const brisk = { turnMs: 0.5, startMs: 10 };

const found: readonly Found[] = [
  {
    what: "a flipped bit in a frame between hosts was another model, committed",
    scenario: {
      seed: 56,
      job: 0,
      shape: { devices: [1, 1], speed: brisk, delayMs: [0, 1] },
      faultsMs: 4000,
      faults: [
        {
          ...{ kind: "frames", what: "corrupt", subjects: "osiris.*.*.*.frames.>" },
          ...{ atMs: 0, forMs: 4000, probability: 0.05 },
        },
      ],
    },
  },
  {
    what: "a flipped bit in a message was another hash in a manifest: nobody could read its part",
    scenario: {
      seed: 19,
      job: 0,
      shape: { devices: [2], speed: brisk, delayMs: [0, 1] },
      faultsMs: 4000,
      faults: [
        {
          ...{ kind: "frames", what: "corrupt", subjects: "osiris.*.*.*.*.*.*" },
          ...{ atMs: 0, forMs: 4000, probability: 0.2 },
        },
      ],
    },
  },
  {
    what: "one read error while a generation was claimed: the run began again at step 0",
    scenario: {
      seed: 4,
      job: 1,
      shape: {
        devices: [1],
        speed: { turnMs: 0.020716166462116922, startMs: 29.00617477076635 },
        delayMs: [0, 0.34517860165861675],
      },
      faultsMs: 2000,
      faults: [{ kind: "disk.error", atMs: 58.25, forMs: 1741, probability: 0.04 }],
    },
  },
  {
    what: "the last manifest was damaged before the run had ended: the one before was its result",
    scenario: {
      seed: 938,
      job: 4,
      shape: {
        devices: [1, 1, 1],
        speed: { turnMs: 7.1837221768429105, startMs: 41.08412648524777 },
        delayMs: [0, 11.272026493170173],
        drift: 0.04747905180404156,
      },
      faultsMs: 20_000,
      faults: [{ kind: "disk.flip", atMs: 5409.247642398195, pick: 766711, bit: 2007919305 }],
    },
  },
  {
    what: "devices that computed in no time were all stragglers: a slice was dealt to nobody",
    scenario: {
      seed: 343,
      job: 2,
      shape: {
        devices: [2, 1],
        speed: { turnMs: 7.339884684234696, startMs: 184.22921311020184 },
        delayMs: [0, 19.507021258243142],
      },
      faultsMs: 20_000,
      faults: [],
    },
  },
  {
    what: "a full disk under the journal of runs, written between two events, ended the leader",
    scenario: {
      seed: 61,
      job: 1,
      shape: {
        devices: [3],
        speed: { turnMs: 1.0475184420428725, startMs: 101.3352811643947 },
        delayMs: [0, 0.08546967749610403],
        drift: 0.0032936962622879045,
        leaseMs: 764.5331802420385,
      },
      faultsMs: 1427.4682497543795,
      faults: [{ kind: "disk.full", atMs: 325.2848355625676, forMs: 1253.77614253623 }],
    },
  },
  {
    what: "a former leader wrote that its run had failed, into the journal of the next leader",
    scenario: {
      seed: 641,
      job: 4,
      shape: {
        devices: [2],
        speed: { turnMs: 1.0484559756874594, startMs: 162.02593430820517 },
        delayMs: [0, 0.056028493927902524],
        drift: 0.00427146470286123,
        leaseMs: 252.84132906212022,
      },
      faultsMs: 365.0796876842225,
      faults: [{ kind: "disk.full", atMs: 90.62834986009224, forMs: 2302.8051637288117 }],
    },
  },
  {
    what: "a flipped bit in the name of a field of job.json was a file of another program",
    scenario: {
      seed: 247,
      job: 5,
      shape: {
        devices: [1, 1],
        speed: { turnMs: 0.05005874620575126, startMs: 395.0699314237147 },
        delayMs: [0, 2.0647845118925248],
        drift: 0.06548487535214914,
      },
      faultsMs: 1105.6701028678642,
      faults: [
        { kind: "broker.restart", atMs: 40.16531198425523, forMs: 1982.791727355035 },
        { kind: "disk.flip", atMs: 152.5145627812552, pick: 390197, bit: 183359780 },
        {
          kind: "process.zombie",
          atMs: 811.7959992729714,
          forMs: 6.2015160990220615,
          pick: 175250,
        },
      ],
    },
  },
  {
    what: "a worker found the index of a stream damaged: the run ended, and nobody made it anew",
    scenario: {
      seed: 290,
      job: 13,
      shape: {
        devices: [0, 2],
        speed: { turnMs: 2.598826564286495, startMs: 277.17828771822684 },
        delayMs: [0, 0.10552527248221105],
      },
      faultsMs: 603.7811628125517,
      faults: [
        { kind: "broker.restart", atMs: 66.00118407031167, forMs: 153.22483306128333 },
        { kind: "disk.flip", atMs: 389.8905385704413, pick: 748647, bit: 487931611 },
      ],
    },
  },
];

for (const { what, scenario } of found) {
  test.serial(`seed ${scenario.seed}: ${what}`, async (t) => {
    const verdict = await simulate(scenario);
    t.is(verdict.failure, undefined, `${verdict.reason}\n${verdict.last.join("\n")}`);
  });
}

test.serial(
  "seed 15: a counter slightly below zero made heartbeats invalid, and a host was lost",
  async (t) => {
    // The input dist consisted of waiting only, and 0.4 - (0.4 - 0.1) - 0.1 is below zero in
    // floating point.
    const times = [0, 0.1, 0.1, 0.1, 0.4, 0.4, 0.4]; // The first: at the meter's creation.
    const words = new BigInt64Array(meterWords);
    const clock: Clock = Object.assign(new SimulatedClock(), {
      now: () => times.shift() ?? 0.4,
      epochMs: () => 0,
    });
    const meter = createStepMeter(words, clock);
    const cells = meter.cellsFor("batch", createSoloCells(1));
    meter.begin(0);
    await meter.exchangeInput(() =>
      cells.waitUntil(
        () => "a batch",
        () => true,
        nobody,
      ),
    );
    meter.end();
    t.true(words.every((count) => count >= 0n));
  },
);
