// ONNX Runtime finds the row of every id that training finds, for each rule from ids to rows, and
// no row for ids that training refuses.

import test from "ava";
import type { CsvOptions } from "../../../../src/data/options.ts";
import { createRecordEncoder } from "../../../../src/data/records.ts";
import { LocalRows } from "../../../../src/embedding/lookup/ids-to-rows.ts";
import type { TableOptions } from "../../../../src/embedding/tables/options.ts";
import { IdOutOfRangeError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { shapesOf } from "../../../../src/model/features.ts";
import { RandomStream } from "../../../../src/ports/random.ts";
import { drawInteger, rowsInOnnx } from "../../../../test/helpers/models/onnx-rows.ts";
import { rounds } from "../../../../test/helpers/thinned.ts";
import { featureInputs } from "../../exports/onnx/raw-ids.ts";

const wide = { idBits: 64 } as const;
const [int64Min, int64Max] = [-(2n ** 63n), 2n ** 63n - 1n];

type Transforms = NonNullable<CsvOptions["transforms"]>;

interface Column {
  readonly table: Omit<TableOptions, "name" | "dim">;
  readonly offset?: number;
  readonly transforms?: Transforms;
}

const sigrid = { op: "sigridHash", input: "id", output: "made" } as const;
const columns: Readonly<Record<string, Column>> = {
  "rows that are ids": { table: { rows: 1000 }, offset: 100 },
  "rows that are ids of 64 bits": { table: { rows: 1000, ...wide }, offset: -3 },
  "the nearest row": { table: { rows: 1000, ids: "clamp" }, offset: 7 },
  "the nearest row of 64 bits": { table: { rows: 1000, ids: "clamp", ...wide }, offset: -7 },
  "a hash of 32 bits": { table: { rows: 1_000_003, ids: "hash" } },
  "a hash of 32 bits, with an offset": { table: { rows: 4096, ids: "hash" }, offset: 10 ** 12 },
  "a hash of 64 bits": { table: { rows: 1_000_003, ids: "hash", ...wide } },
  "a hash of 64 bits, with an offset": {
    ...{ table: { rows: 77, ids: "hash", ...wide }, offset: Number.MAX_SAFE_INTEGER },
  },
  "SigridHash with a row each": {
    table: { rows: 1_000_003 },
    transforms: [{ ...sigrid, salt: 7, max: 1_000_003 }],
  },
  "SigridHash beyond 32 bits, then a hash of 64": {
    table: { rows: 65_536, ids: "hash", ...wide },
    transforms: [{ ...sigrid, salt: "-9223372036854775808", max: 2 ** 48 }],
  },
  "SigridHash beyond the rows, which refuse": {
    table: { rows: 500 },
    transforms: [{ ...sigrid, max: 1000 }],
  },
  "a remainder, then SigridHash, then the nearest row": {
    ...{ table: { rows: 900_000, ids: "clamp" }, offset: 50 },
    transforms: [
      { op: "positiveModulus", input: "id", output: "rest", modulus: 2 ** 40 - 87 },
      { ...sigrid, input: "rest", salt: -1, max: 1_000_000 },
    ],
  },
  "a remainder": {
    table: { rows: 1_000_003 },
    transforms: [{ op: "positiveModulus", input: "id", output: "made", modulus: 1_000_003 }],
  },
};

for (const [title, { table, offset = 0, transforms }] of Object.entries(columns)) {
  test(`ONNX Runtime finds the row of every id: ${title}`, async (t) => {
    const { data, model } = resolveJob({
      model: { kind: "lr", tables: [{ name: "own", dim: 1, ...table }] },
      data: {
        kind: "csv",
        paths: ["none.csv"],
        label: "label",
        dense: [],
        categorical: [{ column: transforms ? "made" : "id", table: "own", ids: "integer", offset }],
        ...(transforms && { transforms }),
        batchSize: 8,
      },
      checkpoint: { directory: "none" },
    });
    const raw = featureInputs({ data, model }, "raw")[0]?.raw;
    if (raw === undefined) return t.fail("raw ids");
    const encoder = createRecordEncoder(data, shapesOf(model));
    const rowsOf = (ids: readonly bigint[]) => {
      const batch = encoder.encode(ids.map((id) => ({ id: String(id) })));
      return [...new LocalRows().take(batch, model.tables, 0).rows];
    };
    const rowOf = (id: bigint) => {
      try {
        return rowsOf([id])[0];
      } catch (error) {
        if (error instanceof InvalidOptionError || error instanceof IdOutOfRangeError) {
          return table.rows;
        }
        throw error;
      }
    };
    const shift = BigInt(offset);
    const near = [0n, 2n ** 31n, 2n ** 32n, 2n ** 53n, 10n ** 15n, BigInt(table.rows), 2n ** 63n];
    const ends = [...near, ...near.map((id) => -id)].flatMap((id) => [id, id + shift]);
    const edges = ends
      .flatMap((id) => [id - 1n, id, id + 1n])
      .filter((id) => BigInt.asIntN(64, id) === id);
    t.true([0n, -1n, int64Min, int64Max, 2n ** 53n + 1n].every((id) => edges.includes(id)));
    const stream = new RandomStream(3, 1, 4);
    const isRow = transforms === undefined && (table.ids ?? "reject") === "reject";
    const isWide = transforms !== undefined || table.idBits === 64;
    const count = rounds("ids whose rows ONNX Runtime finds", 800, 10_000);
    const drawn = Array.from({ length: count }, () =>
      isRow ? shift + BigInt(stream.below(table.rows)) : drawInteger(stream, isWide),
    );
    // One of the transforms makes ids beyond the table's rows.
    const refuses = transforms !== undefined && raw.most < 1000n;
    const wanted = [...(refuses ? drawn.map(rowOf) : rowsOf(drawn)), ...edges.map(rowOf)];
    const ids = [...drawn, ...edges];
    const found = await rowsInOnnx(raw, ids);
    const wrong = ids.findIndex((_, i) => found[i] !== wanted[i]);
    t.is(wrong, -1, `${ids[wrong]}: ${found[wrong]}, and not ${wanted[wrong]}`);
    t.true(new Set(wanted).size > Math.min(table.rows, count) / 20, `${new Set(wanted).size}`);
    const isLimited = raw.least > int64Min || raw.most < int64Max;
    t.is(wanted.includes(table.rows), transforms === undefined ? isLimited : refuses);
  });
}
