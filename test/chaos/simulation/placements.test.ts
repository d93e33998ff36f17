// The loss of a server, which holds rows and trains no samples, or of rows in host memory, which
// end with their process, changes no bit.

import test from "ava";
import { addJob, jobs } from "../../../chaos/simulation/jobs.ts";
import { referenceOf } from "../../../chaos/simulation/simulate.ts";
import { type StoryOptions, storyOf } from "../../helpers/simulated.ts";

/** The shortest job: four steps, and a cut after two. */
const shortest = 3;

test.serial("a run survives the loss of a server, and of rows in host memory", async (t) => {
  const reference = await referenceOf(shortest);
  for (const [placement, devices, breakIt] of [
    [{ kind: "servers", servers: 1 }, [1, 1], (cluster) => cluster.kill(1)],
    [{ kind: "servers", servers: 1 }, [2, 1], (cluster) => cluster.processAt(1)?.stop()],
    [{ kind: "hybrid", servers: 1 }, [1, 1], (cluster) => cluster.kill(1)],
    [{ kind: "host" }, [1, 1], (cluster) => cluster.kill(1)],
  ] satisfies [object, number[], StoryOptions["breakIt"]][]) {
    const job = addJob({ ...jobs[shortest], placement: placement as never });
    const { events, result } = await storyOf(job, { devices, breakIt, reference });
    t.is(result.digest, reference.result.digest);
    const started = events.filter((event) => event.type === "run.started");
    t.like(started[0]?.plan?.placement, placement);
    const servers = "servers" in placement ? 1 : 0;
    t.is(started[0]?.slices.filter((own) => own === 0).length, servers);
    t.true(events.some(({ type }) => type === "run.recovered"));
  }
});
