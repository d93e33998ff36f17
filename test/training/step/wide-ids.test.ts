// A job with 64-bit ids trains exactly the model of the same job with its ids remapped by hand.

import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { createRecordEncoder } from "../../../src/data/records.ts";
import { csv } from "../../../src/data/sources.ts";
import { type TableOptions, tableOptions } from "../../../src/embedding/tables/options.ts";
import { InvalidOptionError } from "../../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../../src/job/job.ts";
import { openKernels } from "../../../src/kernels/index.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { loadModel } from "../../../storage/model/load-model.ts";
import { startDirectory, writeText } from "../../data/data-files.ts";
import { edges, rowOf } from "../../helpers/batches/wide-ids.ts";
import { startLocalDevices } from "../../helpers/devices/local-devices.ts";
import { readAll, startTrained } from "../../helpers/devices/trained.ts";

const samples = 90;
const rows = { user: 23, items: 11, day: 7 };

/** A sample: user and items in 64 bits, and its day. Some ids are valid row numbers. */
interface Line {
  readonly label: number;
  readonly user: bigint;
  readonly items: readonly bigint[];
  readonly day: number;
}

function linesOf(): Line[] {
  const stream = new RandomStream(3, 9);
  const draw = (): bigint => {
    const kind = stream.below(4);
    if (kind === 0) return edges[stream.below(edges.length)] ?? 0n;
    if (kind === 1) return BigInt(stream.below(30));
    return BigInt.asIntN(64, (BigInt(stream.word()) << 32n) | BigInt(stream.word()));
  };
  return Array.from({ length: samples }, () => ({
    label: stream.below(2),
    user: draw(),
    items: Array.from({ length: stream.below(4) }, draw),
    day: stream.below(rows.day),
  }));
}

/** The lines as text; `user` and `item` format the ids. */
function textOf(
  lines: readonly Line[],
  user: (id: bigint) => unknown,
  item: (id: bigint) => unknown,
) {
  const fields = lines.map((line) =>
    [line.label, user(line.user), line.items.map(item).join("|"), line.day].join(","),
  );
  return ["y,user,items,day", ...fields].join("\n");
}

/** The job on 64-bit ids, and the job with its ids mapped to rows beforehand. */
function jobsOf(t: ExecutionContext, tables: Partial<TableOptions> = {}): [JobOptions, JobOptions] {
  const home = startDirectory(t);
  const lines = linesOf();
  const byHand = textOf(
    lines,
    (id) => rowOf(id, rows.user, "hash"),
    (id) => rowOf(id, rows.items, "clamp"),
  );
  const jobOf = (name: string, text: string, idBits: 32 | 64): JobOptions => ({
    model: {
      kind: "dlrm",
      dense: 0,
      tables: [
        { name: "user", rows: rows.user, dim: 4, ids: "hash", idBits, ...tables },
        { name: "items", rows: rows.items, dim: 4, ids: "clamp", idBits, pooling: "mean" },
        { name: "day", rows: rows.day, dim: 4, sharding: "data-parallel" },
      ],
      top: [6, 1],
    },
    data: csv(writeText(home, { name, text }), {
      label: "y",
      categorical: [
        { column: "user", ids: "integer" },
        { column: "items", ids: "integer", separator: "|" },
        { column: "day", ids: "integer" },
      ],
      batchSize: 20,
      cache: join(home, "cache"),
    }),
    checkpoint: { directory: join(home, name.replace(".", "-")) },
    evaluation: { fraction: 0.2 },
  });
  const whole = textOf(lines, String, String);
  return [jobOf("wide.csv", whole, 64), jobOf("rows.csv", byHand, 32)];
}

async function digestOf(options: JobOptions, devices: number): Promise<string> {
  const job = resolveJob(options);
  const { model, slices, optimizer, seed } = job;
  const batch = await readAll(job.data, model.tables);
  const local = startLocalDevices({
    input: { model, slices, idsMax: batch.idsMax, batchSize: samples },
    recipe: { optimizer, seed },
    devices,
    kernels: () => openKernels("reference"),
  });
  for (let step = 0; step < 3; step++) await local.train(batch, step);
  return local.digest();
}

for (const sharding of ["table-wise", "data-parallel"] as const) {
  test(`64-bit ids train the model of the rows that they map to: ${sharding}`, async (t) => {
    const [wide, byHand] = jobsOf(t, { sharding });
    const expected = await digestOf(byHand, 1);
    for (const devices of [1, 2, 3]) t.is(await digestOf(wide, devices), expected, `${devices}`);
  });
}

test("a saved model evaluates and predicts with 64-bit ids", async (t) => {
  const [wide, byHand] = jobsOf(t);
  for (const options of [wide, byHand]) {
    const { train } = await startTrained(options);
    await train({ cut: 1 });
  }
  await answersAlike(t, wide, byHand);
});

/** Asserts that the saved models of both jobs evaluate and predict the same. */
async function answersAlike(t: ExecutionContext, wide: JobOptions, byHand: JobOptions) {
  const [model, plain] = [
    await loadModel(String(wide.checkpoint?.directory)),
    await loadModel(String(byHand.checkpoint?.directory)),
  ];
  t.deepEqual(await model.evaluate(), await plain.evaluate());
  const lines = linesOf();
  const records = (user: (id: bigint) => bigint | number, item: (id: bigint) => bigint | number) =>
    lines.map((line) => ({ user: user(line.user), items: line.items.map(item), day: line.day }));
  t.deepEqual(
    await model.predict(
      records(
        (id) => id,
        (id) => id,
      ),
    ),
    await plain.predict(
      records(
        (id) => rowOf(id, rows.user, "hash"),
        (id) => rowOf(id, rows.items, "clamp"),
      ),
    ),
  );
}

test("a batch of 64-bit ids is predicted in pieces, and refused without upper halves", async (t) => {
  const home = startDirectory(t);
  const { job, train } = await startTrained({
    ...jobsOf(t)[0],
    checkpoint: { directory: join(home, "model") },
  });
  await train({ cut: 1 });
  const model = await loadModel(join(home, "model"));
  const lines = linesOf();
  const records = Array.from({ length: 1100 }, (_, i) => {
    const { user, items, day } = lines[i % samples] ?? { user: 0n, items: [], day: 0 };
    return { user, items, day };
  });
  const batch = createRecordEncoder(job.data, job.model.tables).encode(records);
  t.deepEqual(await model.predictBatch(batch), await model.predict(records));
  const half = { ...batch, highs: undefined };
  await t.throwsAsync(model.predictBatch(half), {
    instanceOf: InvalidOptionError,
    message: /^Expected `batch\.highs` to be the upper halves of \d+ ids, got nothing$/,
  });
});

test("a table takes ids of 32 or 64 bits, by default 32", (t) => {
  const table = { name: "a", rows: 3, dim: 4 };
  t.is(tableOptions.parse(table).idBits, 32);
  t.false(tableOptions.safeParse({ ...table, idBits: 16 }).success);
});
