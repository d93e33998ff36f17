// Direct links between real processes: opened, cut and lost without a loss of the generation.

import test from "ava";
import { checkSchedule } from "../../../chaos/faults/schedule.ts";
import { runSchedule } from "../../../chaos/trials/faulted-run.ts";
import type { JobOptions } from "../../../internal.ts";
import { only, smallData, smallModel } from "../../helpers/clusters/clusters.ts";
import { calmRun } from "../../helpers/clusters/either-clusters.ts";

const job: JobOptions = {
  model: smallModel,
  data: smallData,
  evaluation: { everySteps: 15 },
  checkpoint: { everySteps: 10, directory: "unused" },
};

test.serial(
  "links between two processes are cut, and the broker dies: the same model in one generation",
  async (t) => {
    const schedule = checkSchedule({
      version: 1,
      environment: { devices: 1, hosts: 2 },
      faults: [
        { what: "link-cut", where: "thread:bridge:1", when: { step: 12 } },
        { what: "broker-kill", when: { step: 22 }, deadlines: 0.02 },
        { what: "link-cut", where: "thread:bridge:2", when: { step: 32 } },
      ],
    });
    using faulted = await runSchedule(job, schedule);
    const events = faulted.events.map(({ event }) => event);
    t.true(faulted.faults.every(({ injected }) => injected));
    t.is(only(events, "run.started")[0]?.links?.way, "direct");
    // Either host may be the first to report a cut, and later reports are combined.
    const reasons = only(events, "run.link").flatMap((link) => link.reasons);
    const ofCut = /^the (link was cut by a fault|other host ended it)$/;
    t.true(reasons.some(({ reason }) => ofCut.test(reason)));
    // The loss of a link or broker costs no generation; on a busy machine, a starved host may.
    const lost = only(events, "run.incident").map(({ offender }) => offender.replace(/\d+/, ""));
    t.deepEqual(lost, new Array((faulted.result?.generation ?? 0) - 1).fill("host:"));
    t.is(faulted.result?.digest, (await calmRun()).digest);
  },
);
