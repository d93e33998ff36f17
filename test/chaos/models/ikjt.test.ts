// Deduplicated lists in simulated runs: `ikjt: auto` finds the groups that pay off, and no bit
// depends on the number of devices or on a lost device.

import test from "ava";
import { addJob } from "../../../chaos/simulation/jobs.ts";
import type { JobOptions } from "../../../index.ts";
import { oneModelAfterLosses, simulatedData, storyOf } from "../../helpers/simulated.ts";

const tables = ["user", "seen", "item"].map((name) => ({ name, rows: 400, dim: 8 }));

const sessions = {
  samples: 8,
  features: { user: { d: 1, l: 2 }, seen: { d: 0.9, l: 4 } },
};

const model: JobOptions["model"] = {
  kind: "dlrm",
  dense: 4,
  tables,
  features: [
    { column: "user" },
    { column: "seen", table: "user", pooling: "none", maxLength: 4 },
    { column: "seenBag", table: "seen" },
    { column: "item" },
  ],
  bottom: [8, 8],
  top: [16, 8, 1],
};
const features = { ...sessions.features, seenBag: { d: 0.9, l: 4 } };
const simulated = {
  ...{ ...simulatedData, order: "sessions", samples: 240 },
  sessions: { ...sessions, features },
};

test.serial("simulated deduplicated lists: the same model on 1, 2 and 3 devices", async (t) => {
  const job = { model, data: { ...simulated, ikjt: "auto" } } as Partial<JobOptions>;
  const { generations, events } = await oneModelAfterLosses(job);
  t.deepEqual(generations, [2, 2]);
  const prepared = events.find(({ type }) => type === "run.prepared");
  t.like(prepared, { ikjt: [{ features: ["user"], isChosen: true }] }, JSON.stringify(prepared));
});

test.serial(
  "if no list repeats, `ikjt: auto` chooses no group, and the model is that of plain lists",
  async (t) => {
    const own = { ...simulated, sessions: { ...sessions, features: {} } };
    const jobWith = (data: object) => addJob({ model, data } as Partial<JobOptions>);
    const found = await storyOf(jobWith({ ...own, ikjt: "auto" }));
    const prepared = found.events.find(({ type }) => type === "run.prepared");
    t.like(prepared, { ikjt: [] }, JSON.stringify(prepared));
    const plain = await storyOf(jobWith(own));
    t.is(found.result.digest, plain.result.digest);
    t.is(found.result.times?.dedupeFactor, undefined);
  },
);
