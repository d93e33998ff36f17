// The program of a simulated device: the places of the step graph, one after the other, as
// pipeline.ts and step.ts run them. A device of this runtime runs one task at a time: its lookups
// do not overlap its layers; only transfers overlap tasks.
//
// With streams it is a GPU, as Neo's equations of a step assume (arXiv 2104.05158): batches, ids,
// rows and layers have a stream each. A stream runs its tasks in order, and waits for the tasks of
// other streams that it needs. Kernels of two streams do not slow each other. Vectors leave when a
// lookup has ended. As many batches are in flight as at depth 3, whatever the depth of the job.

import {
  leavesAhead,
  type StepChannel,
  type StepPlace,
  type StepTaskName,
} from "../../../internal.ts";
import type { TaskCost } from "../model.ts";
import { type SimulatedDevice, work } from "./cluster.ts";
import type { EventQueue } from "./events.ts";
import type { HostReaders } from "./readers.ts";
import type { Round } from "./rounds.ts";
import { needs, type Stream, streamOf } from "./streams.ts";

/** The options and state that all devices of a simulation share. */
export interface Simulation {
  readonly queue: EventQueue;
  readonly places: readonly StepPlace[];
  /** Steps that are simulated; devices may be stopped before the end of the last. */
  readonly steps: number;
  readonly isStreamed: boolean;
  /** Batches whose ids a device may have received before it computes them. */
  readonly staged: number;
  /** Buckets of the dense gradient. */
  readonly buckets: number;
  /** Steps between checkpoints; undefined: none. */
  readonly checkpointEvery: number | undefined;
  roundOf(channel: StepChannel, round: number): Round;
  readonly idsRoom: IdsRoom;
}

/** Lets devices send the ids of a step once all have received the ids of the step before. */
export class IdsRoom {
  readonly #left: number[] = [];
  readonly #devices: number;
  readonly #waiting = new Map<number, (() => void)[]>();

  constructor(devices: number) {
    this.#devices = devices;
  }

  isFree(step: number): boolean {
    return step === 0 || this.#left[step - 1] === 0;
  }

  whenFree(step: number, then: () => void): void {
    const callbacks = this.#waiting.get(step - 1);
    if (callbacks === undefined) this.#waiting.set(step - 1, [then]);
    else callbacks.push(then);
  }

  received(step: number): void {
    const left = (this.#left[step] ?? this.#devices) - 1;
    this.#left[step] = left;
    if (left === 0) for (const wake of this.#waiting.get(step) ?? []) wake();
  }
}

/** Receives the work and the waits of a device, step by step. */
export interface DeviceLog {
  work(task: StepTaskName, step: number, from: number, to: number): void;
  /**
   * Called at the end of a wait: for `round`, or without one for a batch, for tiers or for room.
   * `seconds`: the part of the wait in which the device was idle.
   */
  wait(
    of: StepChannel | "batch" | "tiers",
    step: number,
    from: number,
    seconds: number,
    round?: Round,
  ): void;
  end(step: number): void;
}

type Run = Generator<void, void, void>;

/** A stream that waits until a task has run `count` times. */
interface Needing {
  readonly name: StepTaskName | "fetch";
  readonly count: number;
  readonly wake: () => void;
}

export class SimulatedProgram {
  readonly #simulation: Simulation;
  readonly #device: SimulatedDevice;
  readonly #readers: HostReaders;
  readonly #log: DeviceLog;
  /** Number of runs of each task; `fetch`: number of steps whose rows are in device memory. */
  readonly #done = new Map<StepTaskName | "fetch", number>();
  #needing: Needing[] = [];
  /** Number of rounds of each channel that were sent, and that were waited for. */
  readonly #sent = new Map<StepChannel, number>();
  readonly #awaited = new Map<StepChannel, number>();
  #working = 0;
  #idle = 0;
  #idleSince = 0;
  #isWriting = false;
  #written: (() => void) | undefined;

  constructor(
    simulation: Simulation,
    device: SimulatedDevice,
    readers: HostReaders,
    log: DeviceLog,
  ) {
    [this.#simulation, this.#device, this.#readers, this.#log] = [simulation, device, readers, log];
  }

  start(): void {
    const { places, isStreamed } = this.#simulation;
    const streams = new Set(places.map(({ name }) => (isStreamed ? streamOf[name] : undefined)));
    for (const stream of streams) {
      const resume = () => void run.next();
      const run: Run = stream === undefined ? this.#all(resume) : this.#stream(stream, resume);
      resume();
    }
  }

  // A stream may wait while others work: the device waits only while none of its streams works.
  #begin(): void {
    if (this.#working++ === 0) this.#idle += this.#simulation.queue.now - this.#idleSince;
  }

  #stop(): void {
    if (--this.#working === 0) this.#idleSince = this.#simulation.queue.now;
  }

  /** Idle seconds of the device so far; without streams, the current time. */
  #idleNow(): number {
    const { queue, isStreamed } = this.#simulation;
    if (!isStreamed) return queue.now;
    return this.#idle + (this.#working === 0 ? queue.now - this.#idleSince : 0);
  }

  /** Resumes in a separate event, so that a device never runs within a call of another device. */
  #soon(resume: () => void): () => void {
    const { queue } = this.#simulation;
    return () => queue.at(queue.now, resume, undefined);
  }

  #count(name: StepTaskName | "fetch"): number {
    return this.#done.get(name) ?? 0;
  }

  /** Runs all tasks one after the other, as a device without streams does. */
  *#all(resume: () => void): Run {
    const { places, steps } = this.#simulation;
    for (let step = firstStep(places); step < steps; step++) {
      for (let at = 0; at < places.length; at++) {
        const place = places[at];
        if (place === undefined) continue;
        if (place.isEager) {
          const end = places.findIndex(({ isEager }, i) => i > at && !isEager);
          const group = places.slice(at, end);
          for (let next = this.#free(group, step); next; next = this.#free(group, step)) {
            yield* this.#run(next, this.#count(next.name), step, resume);
          }
          at = end - 1;
          continue;
        }
        const target = step + place.ahead;
        const isDone = target < 0 || target >= steps || this.#count(place.name) > target;
        if (!isDone) yield* this.#run(place, target, step, resume);
      }
      if (step >= 0) yield* this.#end(step, resume);
    }
  }

  /** The first of these places whose task can run without a wait. */
  #free(group: readonly StepPlace[], step: number): StepPlace | undefined {
    const { steps, idsRoom, roundOf } = this.#simulation;
    return group.find(({ name, ahead }) => {
      const nextStep = this.#count(name);
      if (nextStep > step + ahead || nextStep >= steps) return false;
      if (name === "receiveIds") {
        return nextStep < this.#count("ids") && roundOf("ids", nextStep).isThere(this.#device);
      }
      if (!idsRoom.isFree(nextStep)) return false;
      if (name === "ids") return nextStep < this.#count("batch");
      return nextStep === this.#count("ids") && this.#readers.isFilled(nextStep);
    });
  }

  /** Runs the tasks of one stream, in the order of the step graph. */
  *#stream(stream: Stream, resume: () => void): Run {
    const { places, steps, staged } = this.#simulation;
    const placesOfStream = places.filter(
      ({ name, isEager }) => !isEager && streamOf[name] === stream,
    );
    for (let step = firstStep(places); step < steps; step++) {
      for (const place of placesOfStream) {
        const target = step + place.ahead;
        if (target < 0 || target >= steps) continue;
        for (const { name, before, isStaged } of needs[place.name] ?? []) {
          const count = target + 1 - before - (isStaged === true ? staged : 0);
          if (this.#count(name) < count) {
            this.#needing.push({ name, count, wake: resume });
            yield;
          }
        }
        yield* this.#run(place, target, step, resume);
      }
      if (stream === "compute" && step >= 0) yield* this.#end(step, resume);
    }
  }

  /** `target`: the step that the task serves; `step`: the one that the device computes. */
  *#run(place: StepPlace, target: number, step: number, resume: () => void): Run {
    const { queue, idsRoom, isStreamed } = this.#simulation;
    const { name, waits } = place;
    const [from, idle] = [queue.now, this.#idleNow()];
    if (name === "batch") {
      const { devices } = this.#device.host;
      if (this.#device === devices[0]) this.#readers.grant(target);
      if (!this.#readers.isFilled(target)) {
        this.#readers.whenFilled(target, this.#soon(resume));
        yield;
        this.#log.wait("batch", step, from, this.#idleNow() - idle);
      }
    }
    if (name === "ids" && !idsRoom.isFree(target)) {
      idsRoom.whenFree(target, this.#soon(resume));
      yield;
      this.#log.wait("ids", step, from, this.#idleNow() - idle);
    }
    if (name === "tiers" && this.#count("fetch") <= target) {
      this.#needing.push({ name: "fetch", count: target + 1, wake: resume });
      yield;
      this.#log.wait("tiers", step, from, this.#idleNow() - idle);
    }
    for (const channel of waits) yield* this.#wait(channel, step, resume);
    if (name === "receiveIds") idsRoom.received(target);
    const cost = this.#costOf(name);
    const { acts, others, pieces } = actsOf(place);
    let [passed, since] = [0, queue.now];
    const early = isStreamed ? [] : pieces;
    for (const [i, { at, channel, isRound }] of acts.entries()) {
      if (i === acts.length - 1) for (const one of early) this.#send(one);
      if (at > passed && work(queue, this.#device, cost, at - passed, resume)) {
        this.#begin();
        yield;
        this.#stop();
      }
      passed = at;
      if (channel === undefined) continue;
      this.#send(channel);
      if (!isRound) continue;
      this.#made(channel);
      this.#log.work(name, step, since, queue.now);
      yield* this.#wait(channel, step, resume);
      since = queue.now;
    }
    this.#log.work(name, step, since, queue.now);
    for (const channel of others) {
      if (!early.includes(channel)) this.#send(channel);
      this.#made(channel);
    }
    if (name === "receiveIds") this.#fetch(target);
    this.#finish(name);
  }

  #costOf(name: StepTaskName): TaskCost {
    const cost = this.#device.costs.tasks[name] ?? free;
    return name === "tiers" ? { seconds: cost.seconds } : cost; // `#fetch` has the other costs.
  }

  *#wait(channel: StepChannel, step: number, resume: () => void): Run {
    const { queue, roundOf } = this.#simulation;
    const count = this.#awaited.get(channel) ?? 0;
    this.#awaited.set(channel, count + 1);
    const round = roundOf(channel, count);
    const [from, idle] = [queue.now, this.#idleNow()];
    if (!round.isThere(this.#device)) {
      round.whenThere(this.#device, resume);
      yield;
    }
    this.#log.wait(channel, step, from, this.#idleNow() - idle, round);
  }

  #roundToSend(channel: StepChannel, isNext: boolean): Round {
    const { roundOf, buckets } = this.#simulation;
    const count = this.#sent.get(channel) ?? 0;
    if (isNext) this.#sent.set(channel, count + 1);
    return roundOf(channel, channel === "gradients" ? Math.floor(count / buckets) : count);
  }

  #send(channel: StepChannel): void {
    this.#roundToSend(channel, channel === "gradients").send(this.#device);
  }

  #made(channel: StepChannel): void {
    this.#roundToSend(channel, true).made(this.#device);
  }

  /** Brings the rows of a step into device memory, after those of the step before. */
  #fetch(step: number): void {
    if (this.#count("fetch") < step) {
      this.#needing.push({ name: "fetch", count: step, wake: () => this.#fetch(step) });
      return;
    }
    const { behind = 0, shared } = this.#device.costs.tasks.tiers ?? free;
    const done = () => this.#finish("fetch");
    const cost = { seconds: behind, ...(shared && { shared }) };
    if (!work(this.#simulation.queue, this.#device, cost, 1, done)) done();
  }

  #finish(name: StepTaskName | "fetch"): void {
    const count = this.#count(name) + 1;
    this.#done.set(name, count);
    if (this.#needing.length === 0) return;
    const isDue = (one: Needing) => one.name === name && one.count <= count;
    const due = this.#needing.filter(isDue);
    this.#needing = this.#needing.filter((one) => !isDue(one));
    for (const { wake } of due) this.#soon(wake)();
  }

  *#end(step: number, resume: () => void): Run {
    const { checkpointEvery, queue } = this.#simulation;
    this.#readers.release(this.#device);
    if (checkpointEvery !== undefined && (step + 1) % checkpointEvery === 0) {
      const from = queue.now;
      if (this.#isWriting) {
        this.#written = this.#soon(resume);
        yield;
        this.#written = undefined;
      }
      const { seconds, shared: { disk = 0, ...captured } = {} } =
        this.#device.costs.tasks.checkpoint ?? free;
      if (work(queue, this.#device, { seconds, shared: captured }, 1, resume)) yield;
      this.#log.work("checkpoint", step, from, queue.now);
      const done = () => {
        this.#isWriting = false;
        this.#written?.();
      };
      this.#isWriting = work(queue, this.#device, { seconds: 0, shared: { disk } }, 1, done);
    }
    this.#log.end(step);
  }
}

/** The first step to simulate; with early reads step -1, which only reads ahead for step 0. */
function firstStep(places: readonly StepPlace[]): number {
  return places.some(({ name }) => name === "lookupAhead") ? -1 : 0;
}

const free: TaskCost = { seconds: 0 };
const leavesAheadOf: ReadonlySet<StepChannel> = leavesAhead;

/** A send of a task after the share `at` of its work; the last act, its end, has no channel. */
interface Act {
  readonly at: number;
  readonly channel?: StepChannel;
  readonly isRound?: boolean;
}

/** Sends of a task during its work, and at its end (`others`); `pieces` leave as they are made. */
interface Acts {
  readonly acts: readonly Act[];
  readonly others: readonly StepChannel[];
  readonly pieces: readonly StepChannel[];
}

const knownActs = new WeakMap<StepPlace, Acts>();

/** Rounds divide the work evenly, and so do buckets; the last bucket is ready at the end. */
function actsOf(place: StepPlace): Acts {
  const known = knownActs.get(place);
  if (known !== undefined) return known;
  const { rounds, sends } = place;
  const buckets = sends.filter((channel) => channel === "gradients");
  const acts: Act[] = [
    ...rounds.map((channel, i) => ({ at: (i + 1) / (rounds.length + 1), channel, isRound: true })),
    ...buckets.map((channel, i) => ({ at: (i + 1) / buckets.length, channel })),
    { at: 1 },
  ];
  acts.sort((a, b) => a.at - b.at);
  const others = sends.filter((channel) => channel !== "gradients");
  const ofPlace = { acts, others, pieces: others.filter((one) => leavesAheadOf.has(one)) };
  knownActs.set(place, ofPlace);
  return ofPlace;
}
