// Fault schedules: a seed draws them, and their JSON parses to the same schedule.

import test from "ava";
import { drawSchedule } from "../../../chaos/faults/draw.ts";
import {
  checkSchedule,
  faultGroups,
  faultKinds,
  sentenceOf,
} from "../../../chaos/faults/schedule.ts";
import { InvalidOptionError } from "../../../internal.ts";

const environment = { devices: 2, hosts: 2 };
const facts = {
  environment,
  steps: 200,
  everySteps: 20,
  readers: 2,
  hasEvaluation: true,
  isTiered: true,
} as const;

test("the same seed draws the same fault schedule, and another seed another one", (t) => {
  const drawn = (seed: number) => JSON.stringify(drawSchedule({ seed, ...facts }));
  t.is(drawn(7), drawn(7));
  t.not(drawn(7), drawn(8));
});

test("a thousand seeds draw every kind of fault, in order, and each schedule survives JSON", (t) => {
  const seen = new Set<string>();
  for (let seed = 0; seed < 1000; seed++) {
    const schedule = drawSchedule({ seed, ...facts });
    for (const { what } of schedule.faults) seen.add(what);
    t.true(schedule.faults.length > 0);
    t.deepEqual(checkSchedule(JSON.parse(JSON.stringify(schedule))), schedule);
  }
  t.deepEqual([...seen].sort(), [...faultKinds].sort());
});

test("only requested kinds of faults are drawn; a flipped bit comes with a kill, so it is read", (t) => {
  for (let seed = 0; seed < 100; seed++) {
    const { faults } = drawSchedule({ seed, ...facts, kinds: faultGroups.messages });
    for (const { what } of faults)
      t.true((faultGroups.messages as readonly string[]).includes(what));
    const kinds = drawSchedule({ seed, ...facts, kinds: ["flipped-bit"] }).faults;
    t.deepEqual([...new Set(kinds.map(({ what }) => what))].sort(), ["flipped-bit", "kill"]);
  }
});

test("a fault is described by a sentence", (t) => {
  const { faults } = checkSchedule({
    version: 1,
    environment,
    faults: [
      { what: "kill", where: "thread:device:1", when: { step: 120 } },
      {
        what: "pause",
        where: "process:leader",
        when: { step: 3, during: "checkpoint" },
        deadlines: 2,
      },
      { what: "drop", when: { step: 5, point: 2 }, frames: 9, from: "process:host:1" },
      { what: "kill", where: "thread:device:0", when: { step: 0, during: "recovery" } },
      { what: "move", shard: 2, device: 1, when: { step: 8 } },
      { what: "freeze", shard: 2, when: { step: 9 } },
      { what: "drain", reader: 1, when: { step: 9 } },
      { what: "rate", samples: 500, deadlines: 0.5, when: { step: 10 } },
    ],
  });
  t.deepEqual(faults.map(sentenceOf), [
    "kill thread:device:1 at step 120",
    "pause process:leader in the checkpoint after step 3, for 2 step deadlines",
    "drop > (process:host:1 → *) at step 5, point 2, for 9 frames",
    "kill thread:device:0 during the recovery of an earlier fault",
    "move shard:2 to device:1 at step 8",
    "freeze shard:2 at step 9",
    "drain reader:1 at step 9",
    "rate readers to 500 samples/s at step 10, for 0.5 step deadlines",
  ]);
});

for (const [why, fault, option] of [
  ["of no known kind", { what: "sulk", when: { step: 1 } }, "what"],
  ["nowhere", { what: "kill", where: "device 1", when: { step: 1 } }, "where"],
  [
    "in a place where it cannot happen",
    { what: "nan", where: "process:leader", when: { step: 1 } },
    "where",
  ],
  [
    "before the beginning",
    { what: "kill", where: "process:leader", when: { step: -1 } },
    "when.step",
  ],
  ["without an end", { what: "partition", when: { step: 1 } }, "deadlines"],
] as const) {
  test(`a fault ${why} is refused, and the error names its option`, (t) => {
    const error = t.throws(() => checkSchedule({ version: 1, environment, faults: [fault] }));
    t.true(error instanceof InvalidOptionError);
    t.true(error?.message.includes(`schedule.faults[0].${option}`), error?.message);
  });
}
