// Import of tables with dynamic ids from exports that hold the ids; files without ids, or with ids
// that do not fit the table, are refused.

import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { loadModel } from "../../../../storage/model/load-model.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { pytorchFile } from "../../../../test/helpers/models/pytorch.ts";
import { runCli } from "../../../../test/helpers/processes/cli.ts";
import { drawModel, drawnIds } from "../../../../test/helpers/stores/drawn-model.ts";
import { exportModel } from "../../exports/export-model.ts";
import { importModel, openSource } from "../../imports/import-model.ts";

function jobOf(home: string): JobOptions {
  const wide = { idBits: 64, dim: 4, initScale: 0.5 } as const;
  return {
    model: {
      kind: "dlrm",
      dense: 1,
      tables: [
        { name: "user", rows: 600, rowBlocks: 4, dynamic: {}, ...wide },
        { name: "item", rows: 24, dynamic: {}, precision: "int8", ...wide },
        { name: "city", rows: 40, dim: 4, initScale: 0.5 },
      ],
      bottom: [4],
      top: [6, 1],
    },
    data: {
      ...{ kind: "csv", paths: [join(home, "none.csv")], label: "y", dense: ["x"], batchSize: 8 },
      categorical: [
        { column: "user", ids: "integer" },
        { column: "item", ids: "integer" },
        { column: "city", ids: "integer" },
      ],
    },
    checkpoint: { directory: join(home, "checkpoints") },
  };
}

/** The bytes of all tensors of a file. */
function tensorsIn(path: string): Map<string, Uint8Array> {
  const source = openSource(path, realDisk);
  const all = [...source.tensors].map(([name, tensor]) => {
    return [name, tensor.read(0, tensor.shape[0] ?? 1)] as const;
  });
  source.close();
  return new Map(all);
}

async function exported(t: ExecutionContext, name: string) {
  const home = startDirectory(t);
  const job = await drawModel(jobOf(home));
  const path = join(home, name);
  await exportModel(job.checkpoint.directory, path);
  return { home, job, path };
}

for (const name of ["m.safetensors", "m.onnx"]) {
  test(`the ids and rows of an export are imported, and exported unchanged: ${name}`, async (t) => {
    const { home, job, path } = await exported(t, name);
    const out = join(home, "imported");
    const { jobFrom } = await importModel(path, { out });
    t.is(jobFrom, "file");
    const users = [...drawnIds(job.model, 0), 5n];
    const records = users.map((user, i) => {
      const items = drawnIds(job.model, 1);
      return { x: i / 9, user, item: items[i % items.length] ?? 0n, city: i % 40 };
    });
    await using before = await loadModel(job.checkpoint.directory);
    await using after = await loadModel(out);
    const wanted = await before.predict(records);
    t.true(new Set(wanted).size > 250);
    t.deepEqual([...(await after.predict(records))], [...wanted]);
    const again = join(home, `again-${name}`);
    await exportModel(out, again);
    t.deepEqual(tensorsIn(again), tensorsIn(path));
  });
}

test("after an import, trained ids keep their rows, and new ids get free rows", async (t) => {
  const home = startDirectory(t);
  const wide = { idBits: 64, dim: 4, initScale: 0.5 } as const;
  const job = (samples: number, seed: number): JobOptions => ({
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [{ name: "A", rows: 2048, rowBlocks: 2, dynamic: {}, ...wide }],
      bottom: [4],
      top: [1],
      interaction: "cat",
    },
    data: { kind: "synthetic", samples, dense: 2, batchSize: 64, cache: "cache", seed },
    optimizer: { sparse: { kind: "rowWiseAdagrad" } },
    checkpoint: { directory: `trained-${seed}` },
  });
  const run = async (...args: string[]) => {
    const { code, stderr } = await runCli(args, home);
    t.is(code, 0, `${args.join(" ")}: ${stderr}`);
  };
  const idsIn = (name: string) => {
    const tensors = tensorsIn(join(home, name));
    const [ids = new Uint8Array(), rows = new Uint8Array()] = ["ids", "id_rows"].map((one) =>
      tensors.get(`embedding_bags.A.${one}`),
    );
    const numbers = ({ buffer }: Uint8Array) => [...new BigInt64Array(buffer)];
    return new Map(numbers(ids).map((id, i) => [id, numbers(rows)[i]]));
  };
  writeFileSync(join(home, "first.json"), JSON.stringify(job(320, 1)));
  await run("train", "first.json");
  await run("export", "trained-1", "--to", "first.safetensors");
  await run("import", "first.safetensors", "-o", "imported");
  const next = { ...job(640, 2), warmStart: { from: "imported" } };
  writeFileSync(join(home, "next.json"), JSON.stringify(next));
  await run("train", "next.json");
  await run("export", "trained-2", "--to", "next.safetensors");
  const [before, after] = [idsIn("first.safetensors"), idsIn("next.safetensors")];
  t.true(before.size > 50, `${before.size}`);
  for (const [id, row] of before) t.is(after.get(id), row);
  t.true(after.size > before.size, `${before.size} ${after.size}`);
  t.is(new Set(after.values()).size, after.size);
});

test("a file without ids, or with ids of another table, is refused in a sentence", async (t) => {
  const { home, job, path } = await exported(t, "m.safetensors");
  const out = join(home, "out");
  const { job: made } = await importModel(pytorchFile("dlrm.pt"), { out: join(home, "made") });
  const [first, ...others] = (made.model as unknown as { tables: { name: string }[] }).tables;
  const tables = [{ ...first, idBits: 64, dynamic: {} }, ...others];
  const dynamic = { ...made, model: { ...made.model, tables } } as JobOptions;
  const none = importModel(pytorchFile("dlrm.pt"), { out, job: dynamic });
  const message =
    /Expected the ids that have the rows of table `emb_0`.*as an export of Osiris to safetensors or ONNX/;
  await t.throwsAsync(none, { instanceOf: InvalidOptionError, message });
  // A job whose table has other row blocks, or fewer rows.
  const options = jobOf(home);
  const changed = (change: object, ofItem = {}): JobOptions => {
    const [user, item, ...more] = (options.model as unknown as { tables: object[] }).tables;
    const own = {
      ...options.model,
      tables: [{ ...user, ...change }, { ...item, ...ofItem }, ...more],
    };
    return { ...options, model: own } as JobOptions;
  };
  const blocks = importModel(path, { out, job: changed({ rowBlocks: 8 }) });
  const another = /the id -?\d+ in a row of another of the table's 8 row blocks/;
  await t.throwsAsync(blocks, { instanceOf: InputUnusableError, message: another });
  const fewer = importModel(path, { out, job: changed({}, { rows: 4 }) });
  await t.throwsAsync(fewer, { instanceOf: InputUnusableError, message: /row \d+ of 4/ });
  t.false(existsSync(out));
  t.is(job.model.tables.length, 3);
});
