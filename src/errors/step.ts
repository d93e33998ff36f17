// Errors of a training step: participants that are late or lost, and numbers that are not finite.

import { TrainingError } from "./training-error.ts";

/** A wait for a participant of the step has exceeded the step deadline. */
export class StepTimeoutError extends TrainingError {
  readonly code = "STEP_TIMEOUT";
  readonly recovery = "restore";
  /** The awaited data or event and its source: `the pooled embeddings of device 1`. */
  readonly wait: string;

  constructor(wait: string, deadlineMs: number, options?: ErrorOptions) {
    super(`Waited ${deadlineMs} ms for ${wait}`, options);
    this.wait = wait;
  }
}

/** The generation was aborted while this participant waited. This participant is not the cause. */
export class GenerationAbortedError extends TrainingError {
  readonly code = "GENERATION_ABORTED";
  readonly recovery = "restore";

  constructor(generation: number, options?: ErrorOptions) {
    super(`Generation ${generation} was aborted`, options);
  }
}

/** A thread, process or host that took part in the step has ended or is silent. */
export class PeerLostError extends TrainingError {
  readonly code = "PEER_LOST";
  readonly recovery = "restore";
  /** The actor that was lost, for example `device:1`. */
  readonly actor: string;
  readonly reason: string;

  constructor(actor: string, reason: string, options?: ErrorOptions) {
    super(`Lost ${actor}: ${reason}`, options);
    this.actor = actor;
    this.reason = reason;
  }
}

/** No preprocessing worker could produce a split, and a retry would fail in the same way. */
export class SplitFailedError extends TrainingError {
  readonly code = "SPLIT_FAILED";
  readonly recovery = "stop";
  /** The split's stream and blocks: `training 0 64`. */
  readonly split: string;

  constructor(split: string, reason: string, options?: ErrorOptions) {
    super(
      `Split ${split} (stream, blocks) was given up: ${reason}; mend what the reason names, or leave ` +
        "`preprocessing` out, and readers make the samples themselves",
      options,
    );
    this.split = split;
  }
}

/** An id is outside its table. A replay would meet the same id. */
export class IdOutOfRangeError extends TrainingError {
  readonly code = "ID_OUT_OF_RANGE";
  readonly recovery = "stop";

  constructor(where: {
    table: string;
    feature: number;
    sample: number;
    id: number | bigint;
    rows: number;
  }) {
    super(
      `Expected ids of table \`${where.table}\` (feature ${where.feature}) to lie in ` +
        `0..${where.rows - 1}, got ${where.id} in sample ${where.sample} of the batch; ` +
        "the table's option `ids` can clamp or hash them",
    );
  }
}

/** The loss is NaN or infinite. A replay would repeat it. */
export class NonFiniteLossError extends TrainingError {
  readonly code = "NON_FINITE_LOSS";
  readonly recovery = "stop";
  readonly step: number;
  /** Samples of the batch that caused it, if known. */
  readonly samples: readonly number[];
  /** The first place with a non-finite value: a layer, a table, the dense features. */
  readonly layer: string | undefined;
  /** The task with the non-finite loss, if known. */
  readonly task: string | undefined;

  constructor(
    step: number,
    loss: number,
    samples: readonly number[] = [],
    { layer, task }: { readonly layer?: string; readonly task?: string } = {},
  ) {
    const of = task === undefined ? `step ${step}` : `\`${task}\` in step ${step}`;
    const first = layer === undefined ? "" : `, first in ${layer}`;
    super(
      `The loss of ${of} is ${loss}${ofSamples(samples)}${first}; ` +
        "lower the learning rate or check the data",
    );
    this.step = step;
    this.samples = samples;
    this.layer = layer;
    this.task = task;
  }
}

/** A gradient has a NaN or an infinity. The step was not committed; a replay would repeat it. */
export class NonFiniteGradientError extends TrainingError {
  readonly code = "NON_FINITE_GRADIENT";
  readonly recovery = "stop";
  readonly step: number;
  /** The gradient's parameter or table: ``parameter `top.0.weight` `` or ``table `user` ``. */
  readonly of: string;
  /**
   * Samples of the batch with the non-finite gradient. Empty if finite gradients overflowed in a
   * sum, or for a table with `dedup`, which has only the sums over a device's samples.
   */
  readonly samples: readonly number[];

  constructor(step: number, of: string, samples: readonly number[]) {
    const origin = samples.length === 0 ? " (a sum over the batch)" : ofSamples(samples);
    super(
      `The gradient of ${of} in step ${step} is not finite${origin}; ` +
        "lower the learning rate or check the data",
    );
    this.step = step;
    this.of = of;
    this.samples = samples;
  }
}

function ofSamples(samples: readonly number[], namedMax = 8): string {
  if (samples.length === 0) return "";
  const named = samples.slice(0, namedMax).join(", ");
  const others = samples.length - namedMax;
  return ` from sample ${named}${others > 0 ? ` and ${others} more` : ""} of the batch`;
}
