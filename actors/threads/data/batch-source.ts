// Batch source: fills a reader's slots with the samples of a step, in the order given by the seed,
// or with a part of the evaluation data, in file order.

import { holdAt, piecesAt } from "../../../src/data/cache/pieces.ts";
import type { BytesRead, Dataset, SampleNumbers, SampleRange } from "../../../src/data/dataset.ts";
import { EpochOrder, type SplitCut } from "../../../src/data/sample-order.ts";
import { IkjtMaker } from "../../../src/data/sessions/ikjt.ts";
import type { BatchOutlet } from "../../../src/exchange/batch-outlet.ts";
import type { Stream } from "../../../src/exchange/batch-ring.ts";
import type { Clock } from "../../../src/ports/clock.ts";
import { placesOf, type Schedule } from "../../../src/training/loop/schedule.ts";
import { samplesOf, slicesIn, type Topology } from "../../../src/training/topology/topology.ts";
import type { Datasets } from "./open-datasets.ts";

/** The options that determine the samples of a batch. */
export interface BatchSourceOptions {
  readonly seed: number;
  readonly shuffle: boolean;
  /** Set if the samples come in the split order. */
  readonly split?: SplitCut | undefined;
  readonly schedule: Schedule;
  readonly topology: Topology;
  /** The step of the first ticket. */
  readonly fromStep: number;
}

/** Samples of a batch that a reader served, and those of the whole batch. */
export interface Served {
  readonly samples: number;
  readonly batchSamples: number;
}

export class BatchSource {
  readonly #options: BatchSourceOptions;
  readonly #datasets: Datasets;
  readonly #order: EpochOrder;
  /** For the meter of reading only. */
  readonly #clock: Clock;
  /** Set if lists are deduplicated. */
  readonly #ikjt: IkjtMaker | undefined;
  #waitedMs = 0;

  constructor(options: BatchSourceOptions, datasets: Datasets, clock: Clock) {
    const { seed, shuffle, split, schedule } = options;
    this.#options = options;
    this.#datasets = datasets;
    this.#clock = clock;
    const { ikjt = [] } = options.topology.input;
    this.#ikjt = ikjt.length === 0 ? undefined : new IkjtMaker(ikjt, datasets.training);
    this.#order = new EpochOrder({ seed, shuffle, split }, schedule);
  }

  /**
   * Fills the slots of a ticket on every device of this reader that lacks it. Returns the number of
   * samples filled in, and that of the whole batch.
   */
  async serve(outlet: BatchOutlet, stream: Stream, ticket: number): Promise<Served> {
    const dataset = this.#datasets[stream];
    if (dataset === undefined) throw new RangeError(`There is no ${stream} data`);
    const devices = outlet.devicesOf(stream);
    const { count: batchSamples, fill } =
      stream === "training"
        ? await this.#training(ticket, devices)
        : await this.#evaluation(ticket, dataset);
    let samples = 0;
    for (const device of devices) {
      if (!outlet.lacks(stream, device, ticket)) continue;
      const { first, count } = samplesOf(this.#options.topology, device, batchSamples);
      const indices = new Float64Array(count);
      fill(indices, first);
      const { bounds } = slicesIn(this.#options.topology, device, batchSamples);
      outlet.fill({ stream, device, ticket, samples: count, batchSamples }, (memory) => {
        const ids = dataset.read(indices, memory);
        if (ids > memory.ids.length) return ids;
        return this.#ikjt?.make(memory, bounds) ?? ids;
      });
      samples += count;
    }
    return { samples, batchSamples };
  }

  /** Bytes read of the training data. */
  get bytesRead(): BytesRead {
    return this.#datasets.training.bytesRead;
  }

  /** Ids of the deduplicated lists so far, and of the distinct lists among them. */
  get idsOfLists(): { readonly ids: number; readonly distinct: number } {
    const sum = { ids: 0, distinct: 0 };
    for (const { ids, distinctIds } of this.#ikjt?.counts ?? []) {
      sum.ids += ids;
      sum.distinct += distinctIds;
    }
    return sum;
  }

  /** Time for which training batches waited for splits. */
  get waitedMs(): number {
    return this.#waitedMs;
  }

  /** A training batch, once its samples for these devices are in memory. */
  async #training(ticket: number, devices: readonly number[]) {
    const { schedule, topology, fromStep } = this.#options;
    const { epoch, first, count } = placesOf(schedule, fromStep + ticket);
    const { training: dataset } = this.#datasets;
    const partsOf = (samples: number) =>
      devices.map((device) => samplesOf(topology, device, samples));
    const input = { schedule, order: this.#order, dataset, partsOf };
    const held = heldForStep(input, fromStep + ticket);
    if (held !== undefined) {
      const fromMs = this.#clock.now();
      await dataset.hold(held.now, held.next);
      this.#waitedMs += this.#clock.now() - fromMs;
    }
    const fill = (out: SampleNumbers, from: number) => this.#order.fill(out, epoch, first + from);
    return { count, fill };
  }

  async #evaluation(ticket: number, dataset: Dataset) {
    const { batchSize } = this.#options.schedule;
    const { samples } = dataset;
    const first = (ticket % Math.ceil(samples / batchSize)) * batchSize;
    const count = Math.min(batchSize, samples - first);
    await holdAt(dataset, first, count);
    const fill = (out: SampleNumbers, from: number) => {
      for (let i = 0; i < out.length; i++) out[i] = first + from + i;
    };
    return { count, fill };
  }
}

/** The inputs that determine the held samples. */
export interface HeldInput {
  readonly schedule: Schedule;
  readonly order: Pick<EpochOrder, "rangesAt">;
  readonly dataset: Pick<Dataset, "isStreamed" | "pieces">;
  /** Position ranges of each device of a reader, in a batch of `samples`. */
  partsOf(samples: number): readonly { readonly first: number; readonly count: number }[];
}

/** The samples to hold for a step, and those to read ahead. Undefined: all are in memory. */
export function heldForStep(
  input: HeldInput,
  step: number,
): { readonly now: SampleRange[]; readonly next: SampleRange[] } | undefined {
  const ranges = rangesOf(input, step);
  if (ranges === undefined || !ranges.isEnd) return ranges;
  const { stepsPerEpoch, begin, steps } = input.schedule;
  const nextEpoch = begin + (Math.floor((step - begin) / stepsPerEpoch) + 1) * stepsPerEpoch;
  if (nextEpoch >= steps) return ranges;
  const firsts = new Set(ranges.now.map(({ first }) => first));
  const next = rangesOf(input, nextEpoch)?.now ?? [];
  return { now: ranges.now, next: next.filter(({ first }) => !firsts.has(first)) };
}

function rangesOf({ schedule, order, dataset, partsOf }: HeldInput, step: number) {
  const { epoch, first, count } = placesOf(schedule, step);
  const ranges = partsOf(count).flatMap((part) => {
    return order.rangesAt(epoch, first + part.first, part.count) ?? [];
  });
  const now = ranges.flatMap((range) => range.now);
  const next = ranges.flatMap((range) => range.next);
  if (now.length > 0) return { now, next, isEnd: ranges.every(({ isEnd }) => isEnd) };
  const pieces = piecesAt(dataset, first, count);
  return pieces && { ...pieces, isEnd: pieces.next.length === 0 };
}
