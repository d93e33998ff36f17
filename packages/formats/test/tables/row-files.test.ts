// One suite over the three row file formats of a table, and the errors of each for a wrong file.

import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError } from "../../../../src/errors/errors.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { fc } from "../../../../test/helpers/properties.ts";
import { foreignFiles, foreignRows } from "../../../../test/helpers/stores/foreign-tables.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { formatOf } from "../../tables/export-table.ts";
import type { FileRows, FileShape } from "../../tables/row-file.ts";

const endings = ["safetensors", "csv", "parquet"];

/** Writes chunks of rows as `path`. */
async function writeRows(path: string, shape: FileShape, chunks: readonly FileRows[]) {
  const rows = chunks.reduce((sum, { ids }) => sum + ids.length, 0);
  const file = realDisk.open(path, "write");
  const format = await formatOf(path);
  const writer = format.open(file, shape, { table: "user" }, rows);
  for (const chunk of chunks) writer.write(chunk);
  writer.finish();
  file.close();
}

/** All rows of a file at once, numbers as bits, which distinguish -0 from 0. */
async function readRows(path: string) {
  const file = await (await formatOf(path)).read(path, realDisk);
  const ids: bigint[] = [];
  const vectors: number[] = [];
  const state: number[] = [];
  for await (const chunk of file.chunks()) {
    ids.push(...chunk.ids);
    vectors.push(...bitsOf(chunk.vectors.slice()));
    state.push(...bitsOf(chunk.state?.slice()));
  }
  file.close();
  return { shape: file.shape, ids, numbers: [...vectors, ...state] };
}

function bitsOf(...arrays: readonly (Float32Array | undefined)[]): number[] {
  return arrays.flatMap((values) => [...new Uint32Array((values ?? new Float32Array()).buffer)]);
}

const finite = fc.float({ noNaN: true, noDefaultInfinity: true });

for (const ending of endings) {
  test(`rows are read back from ${ending} bit for bit`, async (t) => {
    const path = join(startDirectory(t), `rows.${ending}`);
    const dim = fc.integer({ min: 1, max: 5 });
    const some = fc.tuple(fc.array(fc.bigInt({ min: -(2n ** 59n), max: 2n ** 59n })), dim, dim);
    const drawn = some.chain(([ids, columns, width]) => {
      const floats = (count: number) => fc.array(finite, { minLength: count, maxLength: count });
      const [vectors, state] = [floats(ids.length * columns), floats(ids.length * width)];
      return fc.record({ ids: fc.constant(ids), vectors, state, width: fc.constant(width) });
    });
    await fc.assert(
      fc.asyncProperty(drawn, fc.boolean(), async (given, hasState) => {
        const { ids, width } = given;
        if (ids.length === 0) return;
        const vectors = Float32Array.from(given.vectors);
        const state = hasState ? Float32Array.from(given.state) : undefined;
        const shape = { dim: vectors.length / ids.length, width: hasState ? width : 0 };
        await writeRows(path, shape, [{ ids: BigInt64Array.from(ids), vectors, state }]);
        const found = await readRows(path);
        t.deepEqual(found, { shape, ids, numbers: bitsOf(vectors, state) });
      }),
      { numRuns: rounds("files of rows", 6, 50) },
    );
  });

  test(`${ending} takes rows in many chunks, and more rows than one read`, async (t) => {
    const path = join(startDirectory(t), `rows.${ending}`);
    const chunks = Array.from({ length: 40 }, (_, chunk) => {
      const ids = BigInt64Array.from({ length: 257 }, (_, i) => BigInt(257 * chunk + i));
      const vectors = Float32Array.from({ length: 257 * 3 }, (_, i) => (257 * chunk + i) / 7);
      return { ids, vectors, state: undefined };
    });
    await writeRows(path, { dim: 3, width: 0 }, chunks);
    const { ids, numbers } = await readRows(path);
    t.deepEqual(
      ids,
      chunks.flatMap((chunk) => [...chunk.ids]),
    );
    t.deepEqual(numbers, bitsOf(...chunks.map(({ vectors }) => vectors)));
  });

  test(`a file without rows is a valid ${ending} file`, async (t) => {
    const path = join(startDirectory(t), `rows.${ending}`);
    await writeRows(path, { dim: 3, width: 0 }, []);
    t.deepEqual((await readRows(path)).ids, []);
  });

  test(`a ${ending} file of another program is read`, async (t) => {
    const path = join(startDirectory(t), `foreign.${ending}`);
    writeFileSync(path, foreignFiles[`foreign.${ending}`] ?? "");
    t.deepEqual(await readRows(path), {
      shape: { dim: 4, width: 1 },
      ids: [...foreignRows.ids],
      numbers: bitsOf(foreignRows.vectors, foreignRows.state),
    });
  });
}

// CSV is left out: a line cut within a number is still a line, so a reader cannot see the cut.
for (const ending of ["safetensors", "parquet"]) {
  test(`a ${ending} file cut short anywhere is refused`, async (t) => {
    const path = join(startDirectory(t), `foreign.${ending}`);
    const bytes = foreignFiles[`foreign.${ending}`] ?? Buffer.of();
    for (let length = 0; length < bytes.length; length += 3) {
      writeFileSync(path, bytes.subarray(0, length));
      await t.throwsAsync(readRows(path), { instanceOf: InputUnusableError }, `${length} bytes`);
    }
  });
}

test("our safetensors equal those of the official writer, except for the tensor order", async (t) => {
  const path = join(startDirectory(t), "ours.safetensors");
  await writeRows(path, { dim: 4, width: 1 }, [foreignRows]);
  const [ours, theirs] = [readFileSync(path), foreignFiles["foreign.safetensors"] ?? Buffer.of()];
  const [mine, official] = [ours, theirs].map(tensorsOf);
  t.deepEqual(mine, official);
  t.is(ours.length % 8, theirs.length % 8);
});

/** Type, shape and bytes of each tensor, read by the format's specification. */
function tensorsOf(file: Buffer) {
  const length = Number(file.readBigUInt64LE(0));
  const { __metadata__: notes, ...tensors } = JSON.parse(file.toString("utf8", 8, 8 + length));
  const found = Object.entries(tensors).map(([name, tensor]) => {
    const {
      dtype,
      shape,
      data_offsets: offsets,
    } = tensor as {
      dtype: string;
      shape: number[];
      data_offsets: [number, number];
    };
    const [begin, end] = offsets.map((offset) => 8 + length + offset);
    return [name, { dtype, shape, bytes: file.toString("hex", begin, end) }];
  });
  return { notes, tensors: Object.fromEntries(found) };
}

async function refused(t: ExecutionContext, name: string, text: string | Buffer, reason: RegExp) {
  const path = join(startDirectory(t), name);
  writeFileSync(path, text);
  const error = await t.throwsAsync(readRows(path), { instanceOf: InputUnusableError });
  t.regex(error?.message ?? "", reason);
  t.is(error?.path, path);
}

test("errors of a CSV file name the line", async (t) => {
  const header = "id,v0,v1\n1,2,3\n";
  await refused(t, "a.csv", "", /line 1 of .*, but the file is empty/);
  await refused(t, "a.csv", "user,x,y\n", /line 1 of .* to be `id,v0,v1,…`, got `user,x,y`/);
  await refused(t, "a.csv", `${header}4,5\n`, /Expected 3 fields in line 3 of .*, got 2/);
  await refused(t, "a.csv", `${header}4,5,\n`, /Expected `v1` of line 3 .* a float32, got ``/);
  await refused(t, "a.csv", `${header}4,nan,6\n`, /Expected `v0` of line 3 .* got `nan`/);
  await refused(t, "a.csv", `${header}4,5,1e39\n`, /Expected `v1` of line 3 .* got `1e39`/);
  await refused(t, "a.csv", `${header}4.5,5,6\n`, /Expected `id` of line 3 .* integer, got `4.5`/);
});

/** A safetensors file with this header and 32 zero bytes. */
function safetensorsOf(header: unknown): Buffer {
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, Buffer.alloc(32)]);
}

test("errors of a safetensors file name the tensor", async (t) => {
  const tensor = (dtype: string, shape: number[], begin: number, end: number) => {
    return { dtype, shape, data_offsets: [begin, end] };
  };
  const [ids, vectors] = [tensor("I64", [2], 0, 16), tensor("F32", [2, 2], 16, 32)];
  const wrong: [unknown, RegExp][] = [
    [
      { other: ids, vectors },
      /Expected a tensor `ids` of int64 or int32 \(rows\) .* got `other`, `ve/,
    ],
    [
      { ids, vectors: tensor("F16", [4, 2], 16, 32) },
      /`vectors` of float32 .*, got float16 \(4, 2\)/,
    ],
    [{ ids, vectors: tensor("F32", [4], 16, 32) }, /`vectors` of float32 .*, got float32 \(4\)/],
    [{ ids, vectors: tensor("F32", [1, 4], 16, 32) }, /`vectors` of .* to have 2 rows, got 1/],
    [{ ids, vectors: tensor("F32", [2, 3], 16, 32) }, /`vectors` of .* 24 bytes, got 16/],
    [{ ids, vectors: tensor("F32", [2, 4], 16, 48) }, /to have \d+ bytes, got \d+: it is damaged/],
    // The official reader (`safetensors`) reports InvalidOffset: tensors may not share bytes.
    [
      { ids, vectors: tensor("F32", [2, 2], 24, 40) },
      /`vectors` .* lie at byte 16 .* got 24 to 40/,
    ],
    [{ ids, vectors, state: tensor("F32", [2, 2], 16, 32) }, /`state` .* lie at byte 32 .* got 16/],
    [
      { ids, vectors, state: tensor("F32", [2, 2], 32, 16) },
      /`state` .* lie at byte 32 .* got 32 /,
    ],
    [
      { ids: tensor("__proto__", [2], 0, 16), vectors },
      /`ids` of int64 or int32 .*, got __proto__ \(2\)/,
    ],
    [{ ids, vectors: { dtype: "F32" } }, /to begin with a header of safetensors/],
  ];
  for (const [header, reason] of wrong) {
    await refused(t, "a.safetensors", safetensorsOf(header), reason);
  }
  await refused(t, "a.safetensors", Buffer.alloc(100, 255), /is none, or is cut short/);
});

test("errors of a Parquet file say what is wrong", async (t) => {
  await refused(
    t,
    "a.parquet",
    "id,v0\n1,2\n",
    /Cannot read the Parquet file .*fewer than any Parquet file/,
  );
  const path = join(startDirectory(t), "b.parquet");
  await writeRows(path, { dim: 2, width: 0 }, [
    { ids: BigInt64Array.of(1n), vectors: Float32Array.of(1, 2), state: undefined },
  ]);
  const text = readFileSync(path).toString("latin1").replaceAll("vector", "victor");
  const other = Buffer.from(text, "latin1");
  await refused(t, "c.parquet", other, /Expected the columns `id` .* `vector` .*, got .*`victor`/);
  truncateSync(path, 40);
  await t.throwsAsync(readRows(path), { instanceOf: InputUnusableError });
});

test("a file name without a known format, and a missing file, are refused", async (t) => {
  await t.throwsAsync(formatOf("a.npy"), { instanceOf: InputUnusableError, message: /\.parquet/ });
  for (const ending of endings) {
    const path = join(startDirectory(t), `none.${ending}`);
    await t.throwsAsync(readRows(path), { instanceOf: InputUnusableError, message: /ENOENT/ });
  }
});
