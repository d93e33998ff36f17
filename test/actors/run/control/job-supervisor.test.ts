// The job supervisor between two generations, in virtual time.

import test from "ava";
import { jobSupervisorMachine } from "../../../../actors/run/control/job-supervisor.ts";
import { Registry } from "../../../../actors/run/state/registry.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { SimulatedDisk } from "../../../../src/ports/simulated-disk.ts";
import {
  startActor,
  startMembership,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../../helpers/clusters/clusters.ts";

test("a run that is cancelled while it waits to restart ends at once", async (t) => {
  const disk = new SimulatedDisk();
  disk.makeDirectory = () => {
    throw Object.assign(new Error("EIO: i/o error"), { code: "EIO", syscall: "mkdir" });
  };
  const simulated = startSimulatedNetwork({ disk });
  const checkpoint = { directory: "/run" };
  const record = new Registry("r", () => {}).add(
    resolveJob({ model: smallModel, data: smallData, checkpoint }),
  );
  const { actor, ends } = startActor(simulated, jobSupervisorMachine, {
    ...{ network: simulated.network, record, failedAtMs: undefined },
    membership: startMembership({ devices: 1 }),
  });
  while (actor.getSnapshot().value !== "restarting") await simulated.pass(1);
  t.is(record.incidents.all().length, 1);
  record.cancel();
  actor.send({ type: "run.cancel" });
  await simulated.pass(0);
  t.like(ends.error, { code: "RUN_CANCELLED" });
  t.is(record.incidents.all().length, 1);
});
