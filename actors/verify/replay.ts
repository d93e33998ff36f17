// A replay: repeats the steps of a run from a checkpoint to a later one, with the run's cuts. It
// has its own tree of actors in this process, without a broker; its only lasting effect is its
// job's checkpoint directory.

import { hostname } from "node:os";
import { RemoteError } from "../../src/errors/errors.ts";
import type { JobSpec } from "../../src/job/job.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { packageVersion } from "../../src/ports/entry-file.ts";
import { rememberThreads, workerLauncher } from "../../src/ports/launcher.ts";
import { silentLog } from "../../src/ports/log.ts";
import type { PlannedCut } from "../../src/training/loop/schedule.ts";
import { createMemoryBroker } from "../../src/wire/transports/memory-transport.ts";
import { Leader } from "../cluster/leader.ts";
import { Membership } from "../host/membership.ts";
import { modulesOf } from "../jobs/allowed-paths.ts";
import { Registry } from "../run/state/registry.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { RunRecord } from "../run/state/run-record.ts";
import type { Network } from "../runtime/mailbox.ts";
import { connectedFor } from "../runtime/network.ts";
import { WaitBook } from "../runtime/wait-graph.ts";

/** The input of a replay. */
export interface Replay {
  /**
   * The job; its checkpoint directory contains the checkpoint to start from; if it is empty, the
   * replay starts at step 0.
   */
  readonly job: JobSpec;
  /** The cuts, in order; the replay ends at the last. */
  readonly cuts: readonly PlannedCut[];
  /** The run that is replayed. */
  readonly replayed: NonNullable<RunRecord["replayed"]>;
  readonly devices: number;
  /** Called with the number of completed steps. */
  readonly onStep: (step: number) => void;
  readonly signal: AbortSignal | undefined;
}

/** Frames stay in this process, so their size need not be limited. */
const frameBytesMax = 2 ** 30;

/**
 * Runs a replay; resolves when its last cut is committed. @throws RemoteError, the signal's reason
 */
export async function replay(options: Replay): Promise<void> {
  const { job, cuts, replayed, devices, onStep, signal } = options;
  signal?.throwIfAborted();
  let finish = () => {};
  let fail: (error: unknown) => void = () => {};
  const ended = new Promise<void>((resolve, reject) => {
    [finish, fail] = [resolve, reject];
  });
  const hear = (event: RunEvent) => {
    if (event.type === "run.progress") onStep(event.step);
    if (event.type === "run.finished") finish();
    if (event.type === "run.failed") fail(new RemoteError(event.error));
  };
  const stop = () => fail(signal?.reason);
  signal?.addEventListener("abort", stop, { once: true });
  const network = openLocalNetwork();
  const registry = new Registry("replay-", hear);
  Object.assign(registry.add(job), { cuts, replayed });
  const launcher = rememberThreads(workerLauncher, () => {});
  const leader = new Leader({
    ...{ network, registry, launcher, devices },
    membership: membershipOf(devices),
    access: { roots: {}, tenants: {}, ownModels: new Set(modulesOf(job)) },
    onIncident: ({ reason }) => fail(new RemoteError(reason)),
  });
  try {
    await ended;
  } finally {
    signal?.removeEventListener("abort", stop);
    leader.stop();
    await launcher.allEnded();
    await network.transport.close();
  }
}

function openLocalNetwork(): Network {
  const transport = createMemoryBroker({ clock: realClock, seed: 0, frameBytesMax }).connect("own");
  return {
    transport,
    connection: { servers: transport.address },
    cluster: "replay",
    clock: realClock,
    disk: realDisk,
    faultsAllowed: false,
    log: silentLog,
    createdBy: `a replay on ${hostname()}`,
    connectedForMs: connectedFor(transport, realClock),
    waits: new WaitBook(realClock),
    refused: { frames: 0 },
    onCorrupt: () => {},
  };
}

function membershipOf(devices: number): Membership {
  return new Membership({
    minDevices: devices,
    joinDeadlineMs: 1,
    own: { host: 0, devices, machine: hostname(), pid: process.pid },
    arithmetic: openKernels("auto").arithmetic,
    version: packageVersion(),
  });
}
