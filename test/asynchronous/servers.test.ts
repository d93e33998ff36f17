// The parameter servers alone: their arithmetic, the requests that they refuse, and their parts.

import test from "ava";
import { optimizerOf } from "../../bench/step/optimizers.ts";
import { answerOfDense, answerOfSparse } from "../../src/asynchronous/clients.ts";
import { createDenseServer } from "../../src/asynchronous/dense-server.ts";
import { decodeFrame, encodeFrame, frameOf } from "../../src/asynchronous/frames.ts";
import { rowsByShard, shardsOnServers } from "../../src/asynchronous/row-shards.ts";
import { createSparseServer } from "../../src/asynchronous/sparse-server.ts";
import { FrameCorruptError, NonFiniteGradientError } from "../../src/errors/errors.ts";
import { openKernels } from "../../src/kernels/index.ts";
import { modelOptions } from "../../src/model/options.ts";
import { RandomStream } from "../../src/ports/random.ts";
import { decodeDense } from "../../src/training/checkpoint/parts.ts";
import { bytesOf } from "../helpers/devices/parts.ts";

const { tables } = modelOptions.parse({
  ...{ kind: "dlrm", dense: 0, bottom: [], top: [4, 1], interaction: "cat" },
  tables: [
    { name: "large", rows: 100, dim: 8, rowBlocks: 4 },
    { name: "small", rows: 10, dim: 4 },
  ],
});
const optimizer = optimizerOf(
  { kind: "sgd", learningRate: 0.1 },
  { kind: "adagrad", learningRate: 0.1 },
);
const shards = shardsOnServers(tables, 2);

function startServer(server = 0) {
  const own = shards.filter(({ device }) => device === server);
  const recipe = { optimizer, seed: 1 };
  return createSparseServer({
    kernels: openKernels("auto"),
    tables,
    shards: own,
    recipe,
    pushesMax: 2,
  });
}

const at = { step: 3, plateau: 1 };
const [first] = shards.filter(({ device }) => device === 0);
const rows = Int32Array.of(0, 7, 20);
const gradients = { shard: first?.shard ?? 0, rows, vectors: new Float32Array(24).fill(0.5) };

test("elastic averaging follows its formula in float64, with trainers in any order", (t) => {
  const random = new RandomStream(4, 900);
  const draw = () => Float32Array.from({ length: 50 }, () => random.normal());
  const trainers = [draw(), draw(), draw()];
  const start = draw();
  const elasticity = 0.5 / 3;
  const server = createDenseServer({ start: { weights: start.slice(), slots: [] }, elasticity });
  const wanted = { x: trainers.map((x) => [...x]), c: [...start] };
  for (let number = 0; number < 40; number++) {
    const trainer = random.below(3);
    const x = trainers[trainer] ?? start;
    const d = server.exchange(trainer, number, x.slice());
    if (number % 5 === 0) t.deepEqual(server.exchange(trainer, number, x.slice()), d);
    for (let i = 0; i < x.length; i++) x[i] = (x[i] ?? 0) - (d[i] ?? 0);
    const exact = wanted.x[trainer] ?? [];
    for (let i = 0; i < exact.length; i++) {
      const own = elasticity * ((exact[i] ?? 0) - (wanted.c[i] ?? 0));
      exact[i] = (exact[i] ?? 0) - own;
      wanted.c[i] = (wanted.c[i] ?? 0) + own;
    }
  }
  t.is(server.exchanges, 40);
  const near = (own: Float32Array, exact: readonly number[]) =>
    exact.every((value, i) => Math.abs(value - (own[i] ?? 0)) < 1e-6);
  t.true(near(server.center.weights, wanted.c));
  for (const [i, x] of trainers.entries()) t.true(near(x, wanted.x[i] ?? []));
});

test("a dense server's checkpoint part has its center and the first trainer's state", async (t) => {
  const weights = Float32Array.of(1, 2);
  const server = createDenseServer({ start: { weights, slots: [] }, elasticity: 0.5 });
  const state = Float32Array.of(3, 4);
  answerOfDense(
    server,
    frameOf("state", { parts: [{ id: 0, ints: new Int32Array(0), floats: state }] }),
  );
  const [part] = server.cut();
  server.exchange(0, 1, Float32Array.of(9, 9)); // The cut keeps the values before it.
  const bytes = await bytesOf(part?.bytes() ?? (async function* () {})());
  t.deepEqual(decodeDense(bytes, "dense"), [Float32Array.of(1, 2), state]);
  const [answer] = answerOfDense(server, frameOf("center"));
  t.deepEqual(answer?.floats, Float32Array.of(5, 5.5));
});

test("each row of a table is stored whole on one server", (t) => {
  t.deepEqual([...new Set(shards.map(({ device }) => device))].sort(), [0, 1]);
  t.true(shards.every(({ columns, table }) => columns === tables[table]?.dim));
  const large = shards.filter(({ table }) => table === 0);
  const all = Int32Array.from({ length: 100 }, (_, row) => row);
  const found = [...rowsByShard(large, all)].flatMap(({ shard, rows: own }) => {
    const firstRow = shards[shard]?.firstRow ?? 0;
    return [...own].map((row) => row + firstRow);
  });
  t.deepEqual(found, [...all]);
});

test("a sparse server drops a repeated push, even long after it was applied", (t) => {
  const server = startServer();
  const push = (sender: number, number: number, piece = 0) =>
    server.push({ sender, number, piece }, at, [gradients]);
  const before = server.pull([gradients])[0]?.vectors ?? new Float32Array(0);
  push(0, 5);
  const once = server.pull([gradients])[0]?.vectors;
  for (const number of [5, 3, 5]) push(0, number);
  t.deepEqual(server.pull([gradients])[0]?.vectors, once);
  t.notDeepEqual(once, before);
  push(1, 5);
  push(0, 4);
  push(0, 6);
  push(0, 4);
  for (const piece of [1, 2, 1]) push(0, 6, piece);
  t.deepEqual(server.counts, { updates: 6, updatesSinceCut: 6, rows: 18, duplicates: 5 });
});

test("a sparse server refuses rows of other servers, and invalid or non-finite gradients", (t) => {
  const server = startServer();
  const elsewhere = shards.find(({ device }) => device === 1)?.shard ?? -1;
  const refused = (group: Partial<typeof gradients>) => {
    const push = () =>
      server.push({ sender: 0, number: 1, piece: 0 }, at, [{ ...gradients, ...group }]);
    return t.throws(push, { instanceOf: FrameCorruptError })?.message;
  };
  t.regex(refused({ shard: elsewhere }) ?? "", /is not here/);
  t.regex(refused({ rows: Int32Array.of(0, 0, 1) }) ?? "", /row 0; rows of `large` are ascending/);
  t.regex(refused({ rows: Int32Array.of(0, 1, 50) }) ?? "", /row 50; .* below 50/);
  t.regex(refused({ vectors: new Float32Array(23) }) ?? "", /23 floats of gradients, expected 24/);
  t.throws(() => answerOfSparse(server, frameOf("center")), { instanceOf: FrameCorruptError });
  t.is(server.counts.updates, 0);
  const vectors = new Float32Array(24).fill(Number.NaN);
  const push = () =>
    server.push({ sender: 0, number: 2, piece: 0 }, at, [{ ...gradients, vectors }]);
  t.throws(push, { instanceOf: NonFiniteGradientError, message: /table `large` in step 3/ });
});

test("a server that restores another server's parts has the same rows and state", async (t) => {
  const [server, other] = [startServer(), startServer()];
  server.push({ sender: 0, number: 0, piece: 0 }, at, [gradients]);
  t.is(server.counts.updatesSinceCut, 1);
  for (const part of server.cut()) await other.restore(part.name, [[await bytesOf(part.bytes())]]);
  t.is(server.counts.updatesSinceCut, 0);
  for (const one of [server, other]) one.push({ sender: 0, number: 1, piece: 0 }, at, [gradients]);
  t.deepEqual(other.pull([gradients]), server.pull([gradients]));
});

test("a frame is read as it was written, and refused if a word of it is missing", (t) => {
  const parts = [
    { id: 3, ints: Int32Array.of(1, 2), floats: Float32Array.of(0.5) },
    { id: 4, ints: new Int32Array(0), floats: Float32Array.of(1, 2, 3) },
  ];
  const frame = frameOf("push", { sender: 1, number: 2, piece: 7, step: 3, plateau: 0.1, parts });
  const bytes = encodeFrame(frame);
  const shifted = Buffer.alloc(bytes.length + 1); // Unaligned, as from NATS.
  shifted.set(bytes, 1);
  t.deepEqual(decodeFrame("a", shifted.subarray(1)), frame);
  for (let length = 0; length < bytes.length; length++) {
    t.throws(() => decodeFrame("a", bytes.subarray(0, length)), { instanceOf: FrameCorruptError });
  }
  for (let word = 0; word < 16; word++) {
    const broken = bytes.slice();
    new Int32Array(broken.buffer)[word] = -7;
    const isHeader = [2, 3, 4, 5, 7, 8, 9, 10, 13].includes(word); // These take any value.
    if (isHeader) t.notThrows(() => decodeFrame("a", broken));
    else
      t.throws(() => decodeFrame("a", broken), { instanceOf: FrameCorruptError }, `word ${word}`);
  }
});
