// The seat of a trainer: the memory of its threads, and what they have done. It belongs to the
// generation, so that it outlives a trainer that is killed: the next one takes the seat.

import type { z } from "zod";
import {
  countsOf,
  createTrainerMemory,
  type TrainerLayout,
  type TrainerMemory,
} from "../../../src/asynchronous/trainer-memory.ts";
import type { pushLag } from "../../../src/wire/messages/fields.ts";
import { trainerShapeOf } from "../../threads/asynchronous/trainer-shape.ts";
import type { GenerationSpec, HostPlace } from "../../threads/generation-spec.ts";

/** The size of a trainer's dense weights and of its optimizer's state. */
export type DenseSize = Parameters<typeof createTrainerMemory>[1];

/** Batches and samples that a trainer has trained since its last answer. */
export interface Done {
  readonly batches: number;
  readonly samples: number;
}

/** Batches whose pushes are not confirmed, and how long the first of them has waited. */
export type PushLag = z.output<typeof pushLag>;

export interface TrainerSeat {
  readonly device: number;
  readonly threads: number;
  /** The memory of its present threads. */
  readonly memory: TrainerMemory;
  /** All batches before it are trained by the trainer, or belong to others. */
  readonly reachedStep: number;
  /** The step from which each of its present threads began: no batch is trained twice. */
  readonly fromSteps: readonly number[];
  /** The command that was last requested to pause. */
  pausedBy: number | undefined;
  /** Notes that its window ends at `toStep`. Returns the step that its furthest thread reached. */
  begin(toStep: number): number;
  /** Notes that its window has ended before `step`. Returns the counts since the last window. */
  reach(step: number): Done;
  /**
   * About how far the trainer is in its window, and the loss of a recent batch. Without a window it
   * is at the end of the last one, so that the coordinator requests the next.
   */
  progress(): { readonly step: number; readonly loss: number | undefined };
  /** The lag of the thread that has waited longest for servers to confirm its gradients. */
  pushLag(nowMs: number): PushLag;
  /** Whether its present threads have trained a batch, so that their weights are of use. */
  hasTrained(): boolean;
  /** New memory for new threads. Returns the batches since the last exchange, which are lost. */
  empty(everySteps: number): number;
}

export function createSeats(spec: GenerationSpec, { first, count }: HostPlace): TrainerSeat[] {
  const { devices: trainers, fromStep } = spec;
  const { layout, size } = trainerShapeOf(spec);
  return Array.from({ length: count }, (_, i) => {
    return createSeat({ device: first + i, trainers, fromStep, layout, size });
  });
}

/** The seat of a trainer that begins at `fromStep`; `trainers`: of the run. */
export function createSeat(options: {
  readonly device: number;
  readonly trainers: number;
  readonly fromStep: number;
  readonly layout: TrainerLayout;
  readonly size: DenseSize;
}): TrainerSeat {
  const { device, trainers, layout, size } = options;
  const threads = layout.ring.devices;
  let memory = createTrainerMemory(layout, size);
  let reachedStep = options.fromStep;
  let answeredStep = reachedStep;
  let fromSteps = new Array<number>(threads).fill(reachedStep);
  let toStep: number | undefined;
  /** Counts of killed threads. */
  let before: Done = { batches: 0, samples: 0 };
  let reported: Done = before;
  const each = () => Array.from({ length: threads }, (_, thread) => countsOf(memory, thread));
  const total = (own = each()): Done => {
    const sum = (of: keyof Done) => own.reduce((all, one) => all + one[of], before[of]);
    return { batches: sum("batches"), samples: sum("samples") };
  };
  const since = (): Done => {
    const { batches, samples } = total();
    return { batches: batches - reported.batches, samples: samples - reported.samples };
  };
  const nextSteps = (own = each()) =>
    own.map(({ nextStep }, i) => Math.max(reachedStep, fromSteps[i] ?? 0, nextStep));
  return {
    ...{ device, threads, pausedBy: undefined },
    get memory() {
      return memory;
    },
    get reachedStep() {
      return reachedStep;
    },
    get fromSteps() {
      return fromSteps;
    },
    begin(step) {
      toStep = step;
      return Math.max(...nextSteps());
    },
    reach(step) {
      const done = since();
      reported = total();
      [reachedStep, answeredStep] = [step, step];
      toStep = undefined;
      return done;
    },
    progress() {
      const { loss } = each().find((one) => one.batches > 0) ?? {};
      if (toStep === undefined) return { step: answeredStep, loss };
      return { step: Math.min(toStep, answeredStep + since().batches * trainers), loss };
    },
    pushLag(nowMs) {
      const [first] = each()
        .filter(({ pushes }) => pushes > 0)
        .sort((a, b) => a.pushedAtMs - b.pushedAtMs);
      if (first === undefined) return { batches: 0, oldestMs: 0 };
      return { batches: first.pushes, oldestMs: Math.max(0, nowMs - first.pushedAtMs) };
    },
    hasTrained: () => each().some(({ batches }) => batches > 0),
    empty(everySteps) {
      // Read once: a killed thread may count one more batch before it ends.
      const own = each();
      const trained = own.reduce((sum, one) => sum + one.batches, 0);
      before = total(own);
      fromSteps = nextSteps(own);
      toStep = undefined;
      memory = createTrainerMemory(layout, size);
      return trained % everySteps;
    },
  };
}
