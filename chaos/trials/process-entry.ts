// The entry point of a process of a faulted run: the leader of a cluster or one of its hosts, with
// fault injection into its main thread. It exits with the process that started it.

import { Cluster } from "../../actors/cluster/cluster.ts";
import { Host } from "../../actors/cluster/host-process.ts";
import type { Incident } from "../../actors/runtime/incident.ts";
import { type ErrorRecord, recordError } from "../../src/errors/errors.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import { realDisk } from "../../src/ports/disk.ts";
import { exhaustMemory, FaultyDisk, hang } from "../faults/faulty-disk.ts";
import { type FaultPlan, faultyLauncher } from "../faults/faulty-launcher.ts";
import { Injections } from "../faults/injections.ts";
import { arm } from "../faults/thread-faults.ts";

/** Orders to a process. */
export type ProcessOrder =
  | {
      readonly order: "start";
      readonly role: "leader" | "host";
      readonly nats: string;
      readonly token: string;
      readonly cluster: string;
      readonly devices: number;
      /** Devices that a run waits for. Leader only. */
      readonly minDevices: number;
      /** Model modules that its job may use. Leader only. */
      readonly models: readonly string[];
      readonly plan: FaultPlan;
    }
  /** Arms fault `fault` of the schedule on the disk of this process. */
  | { readonly order: "arm"; readonly fault: number }
  /** Makes the clock jump. */
  | { readonly order: "skew"; readonly byMs: number }
  /** Makes the main thread hang. */
  | { readonly order: "block"; readonly forMs: number }
  | { readonly order: "exhaust" }
  /** Kills the thread of an actor. */
  | { readonly order: "kill"; readonly actor: string }
  | { readonly order: "close" };

/** Reports of a process. */
export type ProcessMessage =
  | { readonly type: "up" }
  /** An incident outside the runs. */
  | { readonly type: "incident"; readonly incident: Incident }
  | { readonly type: "failed"; readonly error: ErrorRecord };

const send = (message: ProcessMessage) => void process.send?.(message);

let skewMs = 0;
/** A clock that the order `skew` can shift. */
const clock: Clock = { ...realClock, now: () => realClock.now() + skewMs };
let running: Cluster | Host | undefined;
let plan: FaultPlan | undefined;
let disk: FaultyDisk | undefined;
let killThread: (actor: string) => void = () => {};

async function start(given: Extract<ProcessOrder, { order: "start" }>): Promise<void> {
  const { role, nats, token, cluster: name, devices, minDevices } = given;
  const roots = { models: [...given.models] };
  plan = given.plan;
  disk = new FaultyDisk(realDisk, { directory: plan.directory });
  const launcher = faultyLauncher(plan);
  killThread = (actor) => void launcher.kill(actor);
  const world = { clock, disk };
  const onIncident = (incident: Incident) => send({ type: "incident", incident });
  const common = { nats, token, faultsAllowed: true, launcher, world, onIncident };
  running =
    role === "leader"
      ? await Cluster.start({ ...common, name, devices, minDevices, roots })
      : await Host.join({ ...common, cluster: name, devices });
  if (running instanceof Host) await running.joined;
  send({ type: "up" });
}

async function close(): Promise<void> {
  await running?.close();
  process.disconnect();
}

function obey(order: ProcessOrder): Promise<void> | void {
  switch (order.order) {
    case "start":
      return start(order);
    case "arm":
      return armDisk(order.fault);
    case "skew":
      skewMs += order.byMs;
      return;
    case "block":
      return hang(order.forMs);
    case "exhaust":
      return exhaustMemory();
    case "kill":
      return killThread(order.actor);
    case "close":
      return close();
    default:
      return order satisfies never;
  }
}

/** Arms a disk fault. On the main thread, torn writes and power failures kill the process. */
function armDisk(index: number): void {
  const fault = plan?.faults[index];
  if (plan === undefined || fault === undefined || disk === undefined) return;
  const die = () => process.kill(process.pid, "SIGKILL");
  arm(disk, { index, fault }, { injections: new Injections(plan.injectionsIn), die });
}

process.on("SIGINT", () => {}); // Ctrl-C reaches all processes of a terminal; the harness decides.
process.on("disconnect", () => process.exit(0)); // No parent is left to end this process.
process.on("message", (order: ProcessOrder) => {
  Promise.resolve(obey(order)).catch((error: unknown) => {
    send({ type: "failed", error: recordError(error) });
  });
});
