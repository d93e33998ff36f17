// The heads of runs. A run is the samples of one row group; its head is the samples that share a
// block with the previous piece, because pieces consist of whole blocks.
//
//   runs     |------- 70 -------|----- 50 -----|
//   pieces   |---------- 96 ------|---- 24 ---|   26 samples of the second run are its head
//
// The previous piece and the run's own piece are often read concurrently, and both need the head.

import { copierOf } from "../cache/batch-copies.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import { type BlockShape, blockSamples } from "../cache/cache-format.ts";
import { layoutOf, unfoldedWords } from "../cache/folded-records.ts";
import type { Run, RunReaders, SampleSink } from "./run-readers.ts";

/** Most cached heads. Each has fewer samples than a block. */
const headsMax = 64;

/** Reads heads, and caches the most recently read. */
export class RunHeads {
  readonly #readers: RunReaders;
  readonly #shape: BlockShape;
  readonly #heads = new Map<Run, Promise<Int32Array>>();

  constructor(readers: RunReaders, shape: BlockShape) {
    this.#readers = readers;
    this.#shape = shape;
  }

  /** The head of a run, as a block. The run's reader stops after it. @throws InputUnusableError */
  of(run: Run): Promise<Int32Array> {
    const known = this.#heads.get(run);
    if (known !== undefined) return known;
    const head = this.#read(run);
    this.#heads.set(run, head);
    head.catch(() => this.#heads.delete(run)); // The next request retries.
    const [oldest] = this.#heads.keys();
    if (this.#heads.size > headsMax && oldest !== undefined) this.#heads.delete(oldest);
    return head;
  }

  #read(run: Run): Promise<Int32Array> {
    return this.#readers.use(run, run.first, blockSamples, async (reader) => {
      const encoder = new BlockEncoder(this.#shape);
      await reader.read(headEndOf(run), {
        add: (sample) => encoder.append(sample),
        addRecords: encoder.appendRecords.bind(encoder),
      });
      return encoder.rest()?.slice() ?? Int32Array.of(1);
    });
  }
}

/** The first sample after the head of a run, which is the first of a block. */
export function headEndOf({ first }: Run): number {
  return Math.ceil(first / blockSamples) * blockSamples;
}

/**
 * Adds the samples of a head. Its records are unfolded first, because they refer to neighbours
 * within the head's own block.
 */
export function addHead(head: Int32Array, shape: BlockShape, out: SampleSink): void {
  const layout = layoutOf(shape);
  const copier = copierOf(shape);
  const samples = (head[0] ?? 1) - 1;
  const starts = new Int32Array(samples + 1);
  for (let i = 0; i < samples; i++) {
    const [at, next] = [head[i] ?? 0, head[i + 1] ?? 0];
    const size = at < 0 ? unfoldedWords(head, ~at, layout) : (next < 0 ? ~next : next) - at;
    starts[i + 1] = (starts[i] ?? 0) + size;
  }
  const words = new Int32Array(starts[samples] ?? 0);
  copier.gather({ words, starts }, head, head.subarray(0, samples), 0, samples);
  out.addRecords({ words, starts, width: undefined }, 0, samples);
}
