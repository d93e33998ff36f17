// Safetensors against the official library: its reader finds the model's tensors in Osiris's files,
// and Osiris reads the files of its writer.

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import test from "ava";
import { realDisk } from "../../../../src/ports/disk.ts";
import { officialSafetensors, testIf } from "../../../../test/helpers/needs.ts";
import { contentOf, tables, trainedTables } from "../../../../test/helpers/stores/tables.ts";
import { bitsOf, readTensorFile } from "../../../../test/helpers/stores/tensor-file.ts";
import { exportModel } from "../../exports/export-model.ts";
import { formatOf } from "../../tables/export-table.ts";
import { importTable } from "../../tables/import-table.ts";

const execute = promisify(execFile);
const fixtures = "test/fixtures/safetensors";
const names = { F32: "float32", I64: "int64" } as Readonly<Record<string, string>>;

testIf(officialSafetensors)(
  "safetensors' own reader finds every tensor of an export, bit for bit, and the metadata",
  async (t) => {
    const { home, directory } = await trainedTables(t);
    const path = join(home, "model.safetensors");
    await exportModel(directory, path);
    const script = "packages/formats/test/exports/check_safetensors.py";
    const { stdout } = await execute("python3", [script, path], { maxBuffer: 2 ** 24 });
    const found = JSON.parse(stdout);
    const { tensors, notes } = readTensorFile(path);
    t.deepEqual(found.notes, notes);
    const own = [...tensors].map(([name, tensor]) => {
      const sha256 = createHash("sha256").update(bitsOf(tensor)).digest("hex");
      return [name, { dtype: names[tensor.dtype], shape: [...tensor.shape], sha256 }];
    });
    t.deepEqual(found.tensors, Object.fromEntries(own));
    t.true(own.length > tables.length);
  },
);

test("rows that the official library wrote are read and imported bit for bit", async (t) => {
  const path = join(fixtures, "rows.safetensors");
  const expected = JSON.parse(readFileSync(join(fixtures, "rows.json"), "utf8"));
  const { ids, vectors } = await contentOf(path);
  t.deepEqual({ ids, bits: vectors }, expected);
  const file = await (await formatOf(path)).read(path, realDisk);
  t.deepEqual(file.shape, { dim: 40, width: 0 });
  file.close();

  const { home, directory } = await trainedTables(t);
  const out = join(home, "imported");
  const { rows } = await importTable(directory, "columns", { from: path, out });
  t.is(rows, expected.ids.length);
});
