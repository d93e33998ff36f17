// Simulates steps of a job on a cluster in virtual time: the step graph of its devices, with the
// costs of their tasks, on the links and shared resources of the machines. The first steps fill the
// pipeline; later steps are measured. There is no randomness: equal inputs give equal times.
//
// Not simulated: folding of arriving gradients; waits for room, except for ids; rounds of frames
// that exceed their room. Buckets of the dense gradient have equal lengths.

import { type StepChannel, type StepFacts, stepPlaces, waitOf } from "../../../internal.ts";
import type { Hardware, SimulatedSteps, Span, StepCostsOfCluster } from "../model.ts";
import { clusterOf, type SimulatedCluster, type SimulatedDevice } from "./cluster.ts";
import { type DeviceLog, IdsRoom, SimulatedProgram, type Simulation } from "./device-program.ts";
import { EventQueue } from "./events.ts";
import { HostReaders } from "./readers.ts";
import { createRound, type Round } from "./rounds.ts";
import type { SharedResource } from "./shared-resource.ts";

export interface SimulateOptions {
  /** Whether devices are GPUs with streams (device-program.ts). @default false */
  readonly streams?: boolean;
  /** Steps between checkpoints, at most 64. @default none is made */
  readonly checkpointEvery?: number;
  /** Whether equal devices are simulated once, which gives the same times. @default true */
  readonly merge?: boolean;
  /** Number of devices whose spans are kept. @default 8 */
  readonly traced?: number;
}

/** Least number of measured steps, and number of steps before them that fill the pipeline. */
const [measuredMin, warmSteps] = [2, 3] as const;
/** Steps whose spans are kept. */
const tracedSteps = 3;
const checkpointEveryMax = 64;

/** @throws RangeError if a device has no costs, or checkpoints are too rare to be measured */
export function simulateSteps(
  facts: StepFacts,
  costs: StepCostsOfCluster,
  hardware: Hardware,
  options: SimulateOptions = {},
): SimulatedSteps {
  const { streams = false, checkpointEvery, merge = true, traced = 8 } = options;
  if (checkpointEvery !== undefined && checkpointEvery > checkpointEveryMax) {
    throw new RangeError(
      `Checkpoints every ${checkpointEvery} steps: ${checkpointEveryMax} at most`,
    );
  }
  const { depth, prefetch, buckets } = facts;
  const every = costs.reading.readers * (checkpointEvery ?? 1); // Readers begin together.
  const first = every * Math.ceil((warmSteps + prefetch) / every);
  const end = first + every * Math.ceil(measuredMin / every);
  const queue = new EventQueue();
  const cluster = clusterOf(queue, costs, hardware, merge);
  const rounds = new Map<StepChannel, Round[]>();
  const ofGradients = buckets.backwardLate + buckets.backwardEarly;
  const simulation: Simulation = {
    ...{ queue, places: stepPlaces(facts), isStreamed: streams, checkpointEvery },
    ...{ staged: prefetch, buckets: ofGradients, idsRoom: new IdsRoom(cluster.devices.length) },
    steps: end + prefetch + 2, // The last measured steps have successors, too.
    roundOf(channel, at) {
      const roundsOfChannel = rounds.get(channel) ?? [];
      rounds.set(channel, roundsOfChannel);
      const made = { queue, cluster, channel, buckets: ofGradients };
      const round = roundsOfChannel[at] ?? createRound(made);
      roundsOfChannel[at] = round;
      return round;
    },
  };
  const isAhead = streams || depth > 1;
  const readers = cluster.hosts.map((host) => {
    return new HostReaders(queue, host, costs.reading, isAhead ? prefetch : undefined);
  });
  const busyOf = () => busyIn(cluster, readers, costs.reading.readers);
  const spans: Span[] = [];
  const window = { first, end };
  let before: ReadonlyMap<string, number> = new Map();
  const left = { first: cluster.devices.length, end: cluster.devices.length };
  const onEnd = (step: number) => {
    if (step === first - 1 && --left.first === 0) before = busyOf();
    if (step === end - 1) left.end--;
  };
  const totals = cluster.devices.map((device) => {
    const of = { queue, device, window, onEnd };
    return new Totals({ ...of, spans: device.index < traced ? spans : undefined });
  });
  for (const [at, device] of cluster.devices.entries()) {
    const [ownReaders, log] = [readers[device.host.index], totals[at]];
    if (ownReaders === undefined || log === undefined) continue;
    new SimulatedProgram(simulation, device, ownReaders, log).start();
  }
  queue.run(() => left.end === 0);
  if (left.end > 0) throw new Error(`${left.end} simulated devices wait for ever`);
  const busy = [...busyOf()].map(([name, seconds]) => {
    return [name, (seconds - (before.get(name) ?? 0)) / (end - first)] as const;
  });
  const [slowest] = [...totals].sort((a, b) => a.waited - b.waited);
  if (slowest === undefined) throw new RangeError("The cluster has no devices");
  const simulated = { devices: cluster.devices.length, events: queue.handled };
  return { ...slowest.steps(), busy: Object.fromEntries(busy), spans, simulated };
}

interface TotalsOptions {
  readonly queue: EventQueue;
  readonly device: SimulatedDevice;
  /** The steps that are measured. */
  readonly window: { readonly first: number; readonly end: number };
  readonly spans: Span[] | undefined;
  readonly onEnd: (step: number) => void;
}

/** Sums the work and the waits of a device over the measured steps. */
class Totals implements DeviceLog {
  /** Seconds that it waited for other devices. */
  waited = 0;
  readonly #of: TotalsOptions;
  readonly #byTask = new Map<string, number>();
  readonly #exposed = new Map<string, number>();
  readonly #inFlight = new Map<string, number>();
  readonly #hidden = new Map<string, number>();
  #from = 0;
  #to = 0;

  constructor(options: TotalsOptions) {
    this.#of = options;
  }

  work(task: string, step: number, from: number, to: number): void {
    if (!this.#isMeasured(step)) return;
    addTo(this.#byTask, task, to - from);
    this.#span(task, "work", step, from, to);
  }

  wait(
    of: StepChannel | "batch" | "tiers",
    step: number,
    from: number,
    seconds: number,
    round?: Round,
  ): void {
    if (!this.#isMeasured(step)) return;
    const to = this.#of.queue.now;
    const name = waitOf(of);
    this.#span(name, "wait", step, from, to);
    if (of === "batch" || of === "tiers") {
      addTo(this.#byTask, of, seconds);
      return;
    }
    this.waited += seconds;
    addTo(this.#exposed, name, seconds);
    const flight = round?.flightOf(this.#of.device);
    if (flight === undefined) return;
    const seen = Math.min(seconds, Math.max(0, to - Math.max(from, flight.from)));
    addTo(this.#inFlight, name, seen);
    addTo(this.#hidden, name, flight.to - flight.from - seen);
    this.#span(of, "flight", step, flight.from, flight.to);
  }

  end(step: number): void {
    if (step === this.#of.window.first - 1) this.#from = this.#of.queue.now;
    if (step === this.#of.window.end - 1) this.#to = this.#of.queue.now;
    this.#of.onEnd(step);
  }

  steps(): Omit<SimulatedSteps, "busy" | "spans" | "simulated"> {
    const count = this.#of.window.end - this.#of.window.first;
    const perStep = (sums: ReadonlyMap<string, number>) =>
      Object.fromEntries([...sums].map(([name, seconds]) => [name, seconds / count]));
    return {
      step: (this.#to - this.#from) / count,
      rank: this.#of.device.rank,
      byTask: perStep(this.#byTask),
      exposed: perStep(this.#exposed),
      inFlight: perStep(this.#inFlight),
      hidden: perStep(this.#hidden),
    };
  }

  #isMeasured(step: number): boolean {
    return step >= this.#of.window.first && step < this.#of.window.end;
  }

  #span(task: string, kind: Span["kind"], step: number, from: number, to: number): void {
    const { spans, window, device } = this.#of;
    if (spans === undefined || step < window.end - tracedSteps || from === to) return;
    spans.push({ rank: device.rank, step, task, kind, from, to });
  }
}

function addTo(sums: Map<string, number>, name: string, seconds: number): void {
  sums.set(name, (sums.get(name) ?? 0) + seconds);
}

/** Busy seconds so far by kind of resource: those of the busiest resource of the kind. */
function busyIn(
  { hosts, devices }: SimulatedCluster,
  readers: readonly HostReaders[],
  readersOfHost: number,
): Map<string, number> {
  const most = new Map<string, number>();
  const add = (name: string, seconds: number) =>
    most.set(name, Math.max(most.get(name) ?? 0, seconds));
  const addOf = (name: string, of: SharedResource | undefined) => {
    const seconds = of?.busy() ?? 0;
    if (seconds > 0) add(name, seconds);
  };
  for (const { cores, hostMemory, disk } of hosts) {
    addOf("cores", cores);
    addOf("hostMemory", hostMemory);
    addOf("disk", disk);
  }
  for (const { hostLink, inside, across } of devices) {
    addOf("hostLink", hostLink);
    for (const way of ["out", "in"] as const) {
      addOf("scaleUp", inside?.[way]);
      addOf("scaleOut", across?.[way]);
    }
  }
  for (const { busy } of readers) add("readers", busy / readersOfHost);
  return most;
}
