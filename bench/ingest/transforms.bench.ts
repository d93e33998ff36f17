// Question: how fast are the transforms of PreSto's RM5 on one core, compared with a copy of as
// many bytes as each reads and writes? 504 dense columns, 42 lists of 20 ids, 42 generated features
// of 4096 buckets (ISCA'24, Table I). One column of each kind is measured, as all columns of a kind
// are alike.

import { transformsOptions } from "../../src/data/column-options.ts";
import { compileTransforms } from "../../src/data/transforms/compile.ts";
import type { TransformColumn } from "../../src/data/transforms/values.ts";
import { checkOptions } from "../../src/ports/check-options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { type Bench, positiveOption, together } from "../bench.ts";
import { type BenchRow, rowOf } from "../row.ts";

interface TransformsBenchOptions {
  readonly rows: number;
  readonly rounds: number;
}

const idsOfList = 20;
const buckets = 4096;

/** An op of the mix: its options, the kind of its input, and how many columns of RM5 it makes. */
interface Part {
  readonly options: object;
  readonly reads: "numbers" | "ids";
  readonly columns: number;
}

const parts: Readonly<Record<string, Part>> = {
  log: { options: { op: "log", plus: 1 }, reads: "numbers", columns: 504 },
  sigridHash: { options: { op: "sigridHash", max: 500_000 }, reads: "ids", columns: 42 },
  bucketize: {
    options: { op: "bucketize", borders: Array.from({ length: buckets - 1 }, (_, i) => i / 8) },
    reads: "numbers",
    columns: 42,
  },
  nGram: { options: { op: "nGram", n: 3, max: 500_000 }, reads: "ids", columns: 0 },
  firstX: { options: { op: "firstX", x: 10 }, reads: "ids", columns: 0 },
};

const nameOf = (part: string) => `transforms.${part}`;
const mix = "transforms.rm5";

export const transformsBench: Bench<TransformsBenchOptions> = {
  question: "values/s of the transforms of PreSto's RM5, beside a copy of their bytes",
  options: [
    positiveOption("--rows <count>", "rows of a column", 8192),
    positiveOption("--rounds <count>", "turns of each", 15),
  ],
  measurements({ rows, rounds }) {
    const names = [...Object.keys(parts).map(nameOf), mix];
    const seconds = 2 + (rounds * rows * 1.2) / 100_000;
    return [together(names, seconds, () => transformRows({ rows, rounds }))];
  },
};

function transformRows({ rows, rounds }: TransformsBenchOptions): BenchRow[] {
  const found: BenchRow[] = [];
  const [own, copied] = [new Array(rounds).fill(0), new Array(rounds).fill(0)] as [
    number[],
    number[],
  ];
  let bytesOfRow = 0;
  for (const [name, { options, reads, columns }] of Object.entries(parts)) {
    const written = [{ ...options, input: "x", output: "y" }];
    const transforms = compileTransforms(checkOptions(transformsOptions, written));
    const column = columnOf(reads, rows);
    const run = () => transforms.run([column], { rows, place: 0, firstRow: 0 });
    const values = reads === "ids" ? rows * idsOfList : rows;
    const bytes = 8 * values;
    const [from, to] = [new Uint8Array(bytes).fill(1), new Uint8Array(bytes)];
    const copy = () => to.set(from);
    const [seconds, limit] = [secondsOf(run, rounds), secondsOf(copy, rounds)];
    found.push(
      rowOf(
        { name: nameOf(name), unit: "values/s", limitIs: "a copy of as many bytes" },
        seconds.map((one) => values / one),
        limit.map((one) => values / one),
      ),
    );
    bytesOfRow += (columns * bytes) / rows;
    for (let i = 0; i < rounds; i++) {
      own[i] = (own[i] ?? 0) + columns * (seconds[i] ?? 0);
      copied[i] = (copied[i] ?? 0) + columns * (limit[i] ?? 0);
    }
  }
  const gigabytes = (bytesOfRow * rows) / 1e9;
  const all = rowOf(
    { name: mix, unit: "GB/s", limitIs: "a copy of as many bytes" },
    own.map((seconds) => gigabytes / seconds),
    copied.map((seconds) => gigabytes / seconds),
  );
  return [...found, all];
}

function columnOf(reads: Part["reads"], rows: number): TransformColumn {
  const stream = new RandomStream(5, 1, 1);
  if (reads === "numbers") {
    return {
      form: "numbers",
      values: Float64Array.from({ length: rows }, () => stream.below(512)),
    };
  }
  const ids = BigInt64Array.from({ length: rows * idsOfList }, () => BigInt(stream.below(2 ** 32)));
  const offsets = Int32Array.from({ length: rows + 1 }, (_, row) => row * idsOfList);
  return { form: "ids", offsets, ids };
}

/** The seconds of each round, after three rounds that compile the code. */
function secondsOf(work: () => unknown, rounds: number): number[] {
  for (let i = 0; i < 3; i++) work();
  return Array.from({ length: rounds }, () => {
    const startMs = performance.now();
    work();
    return (performance.now() - startMs) / 1000;
  });
}
