// What a recovery reads: the rows of the devices that live stay in memory, and are put back to the
// checkpoint; only those of lost hosts are read.

import test from "ava";
import { addJob, directory, jobs } from "../../../chaos/simulation/jobs.ts";
import { referenceOf } from "../../../chaos/simulation/simulate.ts";
import type { RunEvent } from "../../../index.ts";
import { loseThread, storyOf } from "../../helpers/simulated.ts";
import { someOrAll } from "../../helpers/thinned.ts";

const recoveries = (events: readonly RunEvent[]) =>
  events.flatMap((event) => (event.type === "run.recovered" ? [event] : []));

test.serial(
  "after the loss of a thread all rows are put back, and no part of a table is read",
  async (t) => {
    for (const number of someOrAll("jobs whose thread is lost", [0, 4], [...jobs.keys()])) {
      const reference = await referenceOf(number);
      const story = await storyOf(number, {
        devices: [2],
        reference,
        breakIt: (cluster) => loseThread(cluster, "device-1"),
      });
      const [recovered] = recoveries(story.events);
      t.log(number, JSON.stringify(recovered));
      t.true((recovered?.keptBytes ?? 0) > 0);
    }
  },
);

test.serial("a lost host's successor takes its place: the others read nothing", async (t) => {
  const number = addJob({ checkpoint: { everySteps: 3, directory, buddyBytes: 0 } });
  const reference = await referenceOf(number);
  const { events } = await storyOf(number, {
    devices: [1, 1, 1],
    reference,
    breakIt: (cluster) => cluster.kill(1),
  });
  t.log(JSON.stringify(recoveries(events)));
  t.log(JSON.stringify(events.filter(({ type }) => type === "run.started")));
});
