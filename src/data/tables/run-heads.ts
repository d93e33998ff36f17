// The heads of runs: the samples of a run that lie in the last block of the piece before.
//
//   runs     |------- 70 -------|----- 50 -----|
//   pieces   |---------- 96 ------|---- 24 ---|   26 samples of the second run are its head
//
// The piece before and the run's own one are often read at the same time: both need the head.

import { copierOf } from "../cache/batch-copies.ts";
import { BlockEncoder } from "../cache/block-encoder.ts";
import { type BlockShape, blockSamples } from "../cache/cache-format.ts";
import { layoutOf, unfoldedWords } from "../cache/folded-records.ts";
import type { Run, RunReaders, SampleSink } from "./run-readers.ts";

/** Heads that are remembered: of fewer samples than a block each. */
const headsMax = 64;

/** Reads heads, each once as long as it is remembered. */
export class RunHeads {
  readonly #readers: RunReaders;
  readonly #shape: BlockShape;
  readonly #heads = new Map<Run, Promise<Int32Array>>();

  constructor(readers: RunReaders, shape: BlockShape) {
    this.#readers = readers;
    this.#shape = shape;
  }

  /** The head of a run, as a block; its reader stops behind it. @throws InputUnusableError */
  of(run: Run): Promise<Int32Array> {
    const known = this.#heads.get(run);
    if (known !== undefined) return known;
    const head = this.#read(run);
    this.#heads.set(run, head);
    head.catch(() => this.#heads.delete(run)); // Asked for again, it is read again.
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

/** The sample behind the head of a run, if it has one: the first of a block. */
export function headEndOf({ first }: Run): number {
  return Math.ceil(first / blockSamples) * blockSamples;
}

/** Adds the samples of a head, whose records may be folded: they are no neighbours of others. */
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
