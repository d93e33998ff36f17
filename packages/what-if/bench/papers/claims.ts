// Claims of papers beside measurements of this project: figures from its documents, each with the
// command that prints it. A test checks that every figure is in its document.

/** Figures that a document contains, as text. */
export interface MeasuredFigure {
  /** Path from the top of the project. */
  readonly page: string;
  readonly figures: readonly string[];
}

export interface Claim {
  readonly paper: string;
  readonly claim: string;
  /** Whether the claim is quoted from memory. */
  readonly isFromMemory?: boolean;
  /** Our measurement as a sentence, in which `{0}`, `{1}` … stand for the figures. */
  readonly ours: string;
  readonly command: string;
  readonly measured: MeasuredFigure;
}

const recd = "packages/ingest/docs/recd.md";
const sharding = "packages/sharding/docs/learned-sharding.md";
const policies = "packages/sharding/docs/placement-policies.md";
const bench = (name: string) => `npm run bench -- ${name}`;

export const claims: readonly Claim[] = [
  {
    paper: "Neo",
    claim: "a software cache is about 15 % faster than paging of unified memory",
    isFromMemory: true,
    ours: "tables of eight times their memory train at {0} of the speed in memory, at {1} without prefetch",
    command: bench("tiers --only train.file"),
    measured: { page: "docs/memory.md", figures: ["94 %", "65 %"] },
  },
  {
    paper: "Neo",
    claim: "embeddings in float16, and float16 and bfloat16 on the wire, cost no quality",
    isFromMemory: true,
    ours: "rows in float16: {0} % more log loss; on the wire {1}, in the noise of {2}",
    command: `${bench("accuracy")}, ${bench("wire")}`,
    measured: {
      page: "docs/performance.md",
      figures: ["-0.033 ± 0.029", "0.11 ± 0.11", "0.10 ± 0.13"],
    },
  },
  {
    paper: "DSI, DPP",
    claim: "readers on the trainer's host stall it for 56 % of its time",
    ours: "readers on the trainer's threads: {0}; preprocessing workers: {1}",
    command: bench("stall"),
    measured: { page: "docs/performance.md", figures: ["37 %", "3 %"] },
  },
  {
    paper: "DSI, DPP",
    claim: "storage 2.41 times (first version 1.9), workers 2.94 times (2.3)",
    ours: "on a modelled disk {0} times, on one core {1} times, each step with the paper's sign",
    command: bench("ladder"),
    measured: { page: "docs/performance.md", figures: ["**2.64**", "**8.59**"] },
  },
  {
    paper: "RecD",
    claim: "training at most 2.48 times, reading 1.79, storage 3.71",
    ours: "pooled lists {0}, encoded sequences {1}; reading {2} and {3}; storage {4} to {5}",
    command: bench("dedup"),
    measured: { page: recd, figures: ["1.20", "4.78", "1.43", "1.87", "2.53", "4.96"] },
  },
  {
    paper: "Check-N-Run",
    claim: "6 to 17 times fewer bytes written",
    ours: "4 bits, 35 % of the rows changed: {0}; 10 %: {1}; without fewer bits {2} and {3}",
    command: bench("recovery --rounds 1"),
    measured: { page: "docs/checkpoints.md", figures: ["9.6 (6.0 to 17)", "21", "1.6", "3.5"] },
  },
  {
    paper: "Check-N-Run",
    claim: "quantisation alone 4 to 13 times",
    ours: "{0} (4 bits) to {1} times (2 bits)",
    command: "npx ava dist/test/embedding/checkpoint/quantised-rows.test.js",
    measured: { page: "docs/checkpoints.md", figures: ["7.1", "12.8"] },
  },
  {
    paper: "Wukong",
    claim: "quality follows a power law of compute where DLRM flattens",
    ours: "log loss {0} to {1} over a hundred times the operations; DLRM {2} to {3}",
    command: "node dist/examples/scaling-law.js --tell",
    measured: { page: "docs/models.md", figures: ["0.4332", "0.3948", "0.4188", "0.4093"] },
  },
  {
    paper: "NeuroShard",
    claim: "up to 23.8 % below the best other plans",
    ours: "below the best greedy plan by {0}, {1} and {2} on 4, 8 and 16 devices, as its networks predict",
    command: bench("sharding"),
    measured: { page: sharding, figures: ["21.6 %", "35.3 %", "38.9 %"] },
  },
  {
    paper: "AutoShard",
    claim: "balance of 88.6 % and 1.71 times the speed of chance, at 80 tables",
    ours: "{0} % and {1} times, as its networks predict",
    command: bench("sharding --only sharding.auto"),
    measured: { page: policies, figures: ["**87.4**", "**1.97**"] },
  },
  {
    paper: "DreamShard",
    claim: "18 to 31 % faster than chance on 4 devices",
    ours: "{0} (100 tables) to {1} (20), as its networks predict",
    command: bench("sharding --only sharding.dream"),
    measured: { page: policies, figures: ["28.4 %", "53.4 %"] },
  },
  {
    paper: "Bagpipe",
    claim: "lookahead hides embedding access: up to 5.6 times",
    ours: "over 1 Gb/s the wait for vectors falls from {0} to {1}; whole steps were not comparable",
    command: bench("scaling --only ahead --rounds 2"),
    measured: { page: "docs/parallelism.md", figures: ["57 ms", "3.4 ms"] },
  },
  {
    paper: "MTrainS; offloading (Toward 100TB)",
    claim: "4 to 8 times fewer nodes; a model of 37 times the memory trains 26 % slower",
    ours: "an eighth of the rows in memory: {0} of the speed with files, {1} with RocksDB",
    command: bench("tiers --only train"),
    measured: { page: "docs/memory.md", figures: ["94 %", "92 %"] },
  },
];

/** Papers with a figure that this project neither measures nor predicts, and why it does not. */
export const unclaimed = [
  "DMT (up to 1.9 times): vectors between hosts are exchanged flat, and towers are not built",
  "EMBark (1.5 times on average): plans have its cuts by rows and columns, but no clusters",
  "CPR (overhead 8.3 to 0.6 %): partial recovery is built, and its overhead is not measured at scale",
  "DLRover (jobs end 31 % sooner): stragglers get fewer slices, which no trace of jobs has measured",
  "EasyScale (equal models on any devices): tests compare the digests, there is no figure",
] as const;
