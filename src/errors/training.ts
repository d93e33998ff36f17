// Errors of training: participants of a step that are late or lost, ids out of range, numbers that
// are not finite, arithmetic, memory, and chaos trials.

import { errorClass } from "./training-error.ts";

/** A wait for a participant of the step has exceeded the step deadline. */
export class StepTimeoutError extends errorClass(
  "STEP_TIMEOUT",
  "restore",
  (wait: string, deadlineMs: number) => ({
    message: `Waited ${deadlineMs} ms for ${wait}`,
    /** The awaited data or event and its source: `the pooled embeddings of device 1`. */
    wait,
  }),
) {}

/** The generation was aborted while this participant waited. This participant is not the cause. */
export class GenerationAbortedError extends errorClass(
  "GENERATION_ABORTED",
  "restore",
  (generation: number) => `Generation ${generation} was aborted`,
) {}

/** A thread, process or host that took part in the step has ended or is silent. */
export class PeerLostError extends errorClass(
  "PEER_LOST",
  "restore",
  (actor: string, reason: string) => ({
    message: `Lost ${actor}: ${reason}`,
    /** The actor that was lost, for example `device:1`. */
    actor,
    reason,
  }),
) {}

/** No plan of a job fits the memory of the hosts that it would train on. */
export class ClusterTooSmallError extends errorClass(
  "CLUSTER_TOO_SMALL",
  "stop",
  (
    hosts: string,
    {
      unmet,
      relaxations,
    }: {
      readonly unmet: readonly { readonly sentence: string }[];
      readonly relaxations: readonly { readonly sentence: string }[];
    },
  ) => {
    const needs = unmet.map(({ sentence }) => sentence);
    const remedies = relaxations.map(({ sentence }) => sentence);
    const shown = needs.slice(0, needsShown).join("; ");
    const any = remedies.length === 0 ? "" : `; any one would do: ${remedies.join("; ")}`;
    return {
      message: `The job does not fit ${hosts}: ${shown}${any}`,
      /** The needs that the hosts do not meet, one sentence each. */
      unmet: needs,
      /** Changes, one sentence each, any one of which suffices; empty: none was found. */
      remedies,
    };
  },
) {}

/** Maximum number of needs in a message. */
const needsShown = 3;

/** An id is outside its table. A replay would meet the same id. */
export class IdOutOfRangeError extends errorClass(
  "ID_OUT_OF_RANGE",
  "stop",
  (where: { table: string; feature: number; sample: number; id: number | bigint; rows: number }) =>
    `Expected ids of table \`${where.table}\` (feature ${where.feature}) to lie in ` +
    `0..${where.rows - 1}, got ${where.id} in sample ${where.sample} of the batch; ` +
    "the table's option `ids` can clamp or hash them",
) {}

/** The loss is NaN or infinite. A replay would repeat it. */
export class NonFiniteLossError extends errorClass(
  "NON_FINITE_LOSS",
  "stop",
  (
    step: number,
    loss: number,
    samples: readonly number[] = [],
    { layer, task }: { readonly layer?: string; readonly task?: string } = {},
  ) => {
    const of = task === undefined ? `step ${step}` : `\`${task}\` in step ${step}`;
    const first = layer === undefined ? "" : `, first in ${layer}`;
    return {
      message: `The loss of ${of} is ${loss}${ofSamples(samples)}${first}; ${advice}`,
      step,
      /** Samples of the batch that caused it, if known. */
      samples,
      /** The first place with a non-finite value: a layer, a table, the dense features. */
      layer,
      /** The task with the non-finite loss, if known. */
      task,
    };
  },
) {}

/** A gradient has a NaN or an infinity. The step was not committed; a replay would repeat it. */
export class NonFiniteGradientError extends errorClass(
  "NON_FINITE_GRADIENT",
  "stop",
  (step: number, of: string, samples: readonly number[]) => {
    const origin = ofSamples(samples) || " (a sum over the batch)";
    return {
      message: `The gradient of ${of} in step ${step} is not finite${origin}; ${advice}`,
      step,
      /** The gradient's parameter or table: ``parameter `top.0.weight` `` or ``table `user` ``. */
      of,
      /**
       * Samples of the batch with the non-finite gradient. Empty if finite gradients overflowed in
       * a sum, or for a table with `dedup`, which has only the sums over a device's samples.
       */
      samples,
    };
  },
) {}

const advice = "lower the learning rate or check the data";

function ofSamples(samples: readonly number[], namedMax = 8): string {
  if (samples.length === 0) return "";
  const named = samples.slice(0, namedMax).join(", ");
  const others = samples.length - namedMax;
  return ` from sample ${named}${others > 0 ? ` and ${others} more` : ""} of the batch`;
}

/**
 * This device cannot compute with the arithmetic that the run or the checkpoint began with.
 * `directory`: the directory of the checkpoint with the expected arithmetic.
 */
export class ArithmeticMismatchError extends errorClass(
  "ARITHMETIC_MISMATCH",
  "stop",
  (expected: string, actual: string, directory?: string) => {
    const [where, others] =
      directory === undefined
        ? ["", ""]
        : [
            ` of the checkpoint in ${directory}`,
            " in another `checkpoint.directory`; or predict with `arithmetic: auto`: the last bits of predictions may differ",
          ];
    return (
      `Expected the arithmetic \`${expected}\`${where}, this process has \`${actual}\`: ` +
      `they differ in bits. ${mendOf(expected, actual)}; or start a new run${others}`
    );
  },
) {}

/** How a process gets the expected arithmetic; each has the reference kernels. */
function mendOf(expected: string, actual: string): string {
  if (expected.startsWith("reference")) return "Set `arithmetic: reference` to go on";
  if (expected.endsWith("-portable")) return "Set `OSIRIS_SETS=portable` to go on";
  const isSlow = actual.endsWith("-portable"); // Chosen by OSIRIS_SETS, or nothing else is compiled.
  return `${isSlow ? "Leave OSIRIS_SETS out, or run" : "Run"} \`osiris build-native\``;
}

/**
 * This process can run none of the instruction sets in OSIRIS_SETS (`asked`). `found`: the sets
 * that it can run; `compiled`: the sets of its native kernels.
 */
export class InstructionSetError extends errorClass(
  "INSTRUCTION_SET",
  "stop",
  (asked: string, found: readonly string[], compiled: readonly string[]) => ({
    message:
      `OSIRIS_SETS asks for the instruction set \`${asked}\`, but this processor runs ` +
      `${found.join(", ")} of the kernels that are compiled (${compiled.join(", ")}): name one of ` +
      "these, or several with blanks between them, leave OSIRIS_SETS out for the fastest, or run " +
      "`OSIRIS_SETS=all osiris build-native`",
    asked,
    found,
    compiled,
  }),
) {}

/** The memory of one table on a host. */
interface TableMemory {
  readonly table: string;
  readonly rows: number;
  readonly dim: number;
  readonly bytes: number;
}

/**
 * The rows of a run need more memory than its host has. `tables`: the tables on the host, the
 * largest first.
 */
export class MemoryExceededError extends errorClass(
  "MEMORY_EXCEEDED",
  "stop",
  (host: string, bytes: number, bytesMax: number, tables: readonly TableMemory[]) => {
    const large = tables.filter(({ bytes: own }) => own >= bytes / 100);
    const shown = large.slice(0, 3).map(({ table, rows, dim, bytes: own }) => {
      const shape = `${rows.toLocaleString("en-US")} rows of ${dim}`;
      return `\`${table}\` ${gigabytes(own)} (${shape})`;
    });
    const rest = tables.length > shown.length ? `, and ${tables.length - shown.length} more` : "";
    return (
      `The tables need ${gigabytes(bytes)} of memory on ${host}, which has ` +
      `${gigabytes(bytesMax)}: ${shown.join(", ")}${rest}; give the largest ones ` +
      '`tier: "cached"`, fewer `rows` or a smaller `dim`, or train on more hosts'
    );
  },
) {}

/** The memory on a host beside its tables. */
interface BatchBuffers {
  readonly otherBytes: number;
  /** Bytes that grow with the ids of a batch. */
  readonly idsBytes: number;
  readonly parts: readonly { readonly what: string; readonly bytes: number }[];
  readonly batchSize: number;
  /** The feature with the most ids in a batch. */
  readonly feature: { readonly name: string; readonly mean: number; readonly most: number };
}

/** The rows and the buffers of a run's batches need more memory than its host has. */
export class BuffersExceededError extends errorClass(
  "BUFFERS_EXCEEDED",
  "stop",
  (host: string, buffers: BatchBuffers, tableBytes: number, bytesMax: number) => {
    const { otherBytes: bytes, idsBytes, batchSize, feature, parts } = buffers;
    const { name, mean, most } = feature;
    const ids =
      `${gigabytes(idsBytes)} of them for ids, most of feature \`${name}\` (` +
      `${figure(mean)} in a sample, at most ${figure(most)})`;
    const others = parts.filter((part) => part.what !== "ids" && part.bytes >= bytes / 100);
    const shown = others.map((part) => `, ${gigabytes(part.bytes)} for ${part.what}`).join("");
    return (
      `The buffers of batches of ${figure(batchSize)} samples need ${gigabytes(bytes)} of memory ` +
      `on ${host}, which has ${gigabytes(bytesMax)} and tables of ${gigabytes(tableBytes)}: ` +
      `${ids}${shown}; lower \`data.batchSize\`, shorten the lists with the transform ` +
      "`firstX`, or train on more hosts"
    );
  },
) {}

/** A size exceeds the range of an array, an offset or a cell, or the memory that is left. */
export class SizeExceededError extends errorClass(
  "SIZE_EXCEEDED",
  "stop",
  (what: string, size: number, sizeMax: number, mend: string) =>
    `${what}: ${figure(size)}, and at most ${figure(sizeMax)} are possible; ${mend}`,
) {}

function figure(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toLocaleString("en-US", { maximumSignificantDigits: 3 })} GB`;
}

/** Children failed too often: the supervisor gives up. The cause is the last failure. */
export class RestartLimitError extends errorClass(
  "RESTART_LIMIT",
  "stop",
  (supervisor: string, restarts: number, withinMs: number, last?: ErrorOptions) => ({
    message:
      `Gave up after ${restarts} restarts within ${withinMs / 1000} s` +
      (last?.cause instanceof Error ? `; the last failure: ${last.cause.message}` : ""),
    /** The actor that gave up. */
    supervisor,
  }),
) {}

/** A faulted run differs from its reference run, or did not end. It is a bug of Osiris. */
export class PromiseBrokenError extends errorClass(
  "PROMISE_BROKEN",
  "stop",
  (verdict: string, differences: readonly string[], schedule: unknown) => ({
    message: `A faulted run broke the promise (${verdict}): ${differences.join("; ")}`,
    verdict,
    /** The differences from the reference run, one sentence each. */
    differences,
    /** The faults that were injected: plain data, to be injected again. */
    schedule,
  }),
) {}
