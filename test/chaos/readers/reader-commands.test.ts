// Commands to the readers of a training run. A command that cannot be executed is refused. Several
// readers may be drained at once: the model keeps its bits, and no drain counts as a failure.

import test from "ava";
import { only, runJob } from "../../helpers/clusters/clusters.ts";
import { equalsCalm, startCluster } from "../../helpers/clusters/either-clusters.ts";

/** Pauses device 0 after 8 steps, until these are reported and a request has arrived. */
const rest = {
  actor: "device:0",
  generation: 1,
  step: 8,
  point: 3,
  effect: "pause",
  pauseMs: 600,
} as const;

async function refusalOf(asked: Promise<unknown>): Promise<string> {
  try {
    await asked;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return "it was not refused";
}

test.serial(
  "unknown readers and a too low limit are refused; simultaneous drains are executed",
  async (t) => {
    await using place = await startCluster(2);
    place.threads.plan([rest]);
    const refusals: string[] = [];
    const drained: number[] = [];
    const story = await runJob(place, place.job({ readers: 2 }), async (event, run) => {
      if (event.type === "run.started") {
        refusals.push(await refusalOf(run.limitReaders({ samplesPerSecond: 51 })));
        await run.limitReaders({ samplesPerSecond: 52 }); // One batch per reader in 2.5 s.
        await run.limitReaders({ samplesPerSecond: 0 });
      }
      if (event.type !== "run.progress" || event.step !== 8) return;
      refusals.push(await refusalOf(run.drainReader(2)));
      const drains = [0, 0, 1].map((reader) => run.drainReader(reader));
      for (const { reader } of await Promise.all(drains)) drained.push(reader);
    });
    const [limit = "", name] = refusals;
    t.is(
      limit,
      "Expected `samplesPerSecond` to be 0 or at least 52: at a lower rate, batches of 64 samples miss " +
        "the step deadline, got `51` (number)",
    );
    t.is(name, "Expected `reader` to be one of the run's readers, 0 to 1, got `2` (number)");
    t.deepEqual(drained, [0, 0, 1]);
    t.is(only(story.events, "run.limited").at(-1)?.samplesPerSecond, 0);
    await equalsCalm(t, story.result);
    t.is(story.result.generation, 1);
    t.deepEqual(only(story.events, "run.incident"), []);
    const over = { message: /queued, running or paused/ };
    await t.throwsAsync(story.run.limitReaders({ samplesPerSecond: 100 }), over);
    await t.throwsAsync(story.run.drainReader(0), {
      message: /Cannot drain a reader of run .* paused/,
    });
  },
);
