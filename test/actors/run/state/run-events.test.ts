// The published events of a run.

import test from "ava";
import { runEventSchema } from "../../../../actors/run/state/run-events.ts";
import { runJob } from "../../../helpers/clusters/clusters.ts";
import { startCluster } from "../../../helpers/clusters/either-clusters.ts";

test.serial("every event of a run matches the published schema exactly", async (t) => {
  await using place = await startCluster(1);
  const { events } = await runJob(place, place.job());
  t.true(events.length > 5);
  for (const event of events) {
    const read = runEventSchema.safeParse(JSON.parse(JSON.stringify(event)));
    // The schema drops unknown fields.
    t.deepEqual(read.data, event, `${event.type}: ${read.error?.message}`);
  }
});
