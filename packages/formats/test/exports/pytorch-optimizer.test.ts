// The optimizer state of a model is exported with it and imported again: it equals, bit for bit,
// the state that PyTorch saved for the same model (test/fixtures/pytorch), and PyTorch continues to
// train from it.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import type { JobOptions } from "../../../../src/job/job.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import { openCheckpoint } from "../../../../storage/checkpoints/open-checkpoint.ts";
import { rowsOfTable, storedTables } from "../../../../storage/checkpoints/table-rows.ts";
import { progressOf } from "../../../../storage/disk/progress.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import { startTrained } from "../../../../test/helpers/devices/trained.ts";
import { apart, expectedOfPyTorch, pytorchFile } from "../../../../test/helpers/models/pytorch.ts";
import { pyTorch, pythonWithTorch, testIf } from "../../../../test/helpers/needs.ts";
import { thinned } from "../../../../test/helpers/thinned.ts";
import { exportModel } from "../../exports/export-model.ts";
import { importModel } from "../../imports/import-model.ts";
import { PickledTensor } from "../../torch/pickled-values.ts";
import { openTorchPath } from "../../torch/read-torch-file.ts";

const fixtures = {
  "dlrm.pt": ["dlrm", "opt_state_dict"],
  "dlrm-rowwise.pt": ["dlrm", "opt_state_dict"],
  "torchrec.pt": ["torchrec", "optimizer"],
} as const;

/** The optimizer state of each parameter: tensors as their bytes, numbers as they are. */
function stateIn(path: string, key: string) {
  const file = openTorchPath(path, realDisk);
  const saved = (file.value as Map<string, unknown>).get(key) as Map<string, unknown>;
  const all = [...(saved.get("state") as Map<number | string, Map<string, unknown>>)];
  const state = all.map(([parameter, own]) => {
    const values = [...own].map(([name, value]) => {
      if (!(value instanceof PickledTensor)) return [name, value] as const;
      const rows = value.shape[0] ?? 1;
      return [name, { shape: value.shape, bytes: file.read(value, 0, rows) }] as const;
    });
    const plain = typeof parameter === "number" ? parameter : parameter.replace(/^model\./, "");
    return [plain, new Map(values)] as const;
  });
  file.close();
  return { state: new Map(state), groups: saved.get("param_groups") };
}

test("optimizer state saved by PyTorch is exported as it came, and imports again", async (t) => {
  const home = startDirectory(t);
  for (const [name, [format, key]] of Object.entries(fixtures)) {
    const first = await importModel(pytorchFile(name), { out: join(home, name) });
    t.is(first.optimizer.sparse.state, "imported");
    const path = join(home, `out-${name}`);
    const report = await exportModel(join(home, name), path, { format, withOptimizer: true });
    t.is(report.bytes, readFileSync(path).length);
    const [own, theirs] = [stateIn(path, key), stateIn(pytorchFile(name), key)];
    t.deepEqual([...own.state.keys()], [...theirs.state.keys()], name);
    for (const [parameter, state] of theirs.state) {
      for (const [part, value] of state) {
        const found = own.state.get(parameter)?.get(part);
        if (part === "step") t.is(found, 6, `${name} ${parameter}`);
        else t.deepEqual(found, value, `${name} ${parameter} ${part}`);
      }
      t.is(own.state.get(parameter)?.size, state.size);
    }
    // The digest covers weights and state, so an equal digest means the same model and state.
    const again = await importModel(path, { out: join(home, `again-${name}`) });
    t.is(again.digest, first.digest, name);
    t.is(again.cut, 6);
    t.deepEqual(again.optimizer, first.optimizer);
    const without = join(home, `without-${name}`);
    await exportModel(join(home, name), without, { format });
    const fresh = await importModel(without, { out: join(home, `fresh-${name}`) });
    t.is(fresh.optimizer.sparse.state, "fresh");
    t.not(fresh.digest, first.digest);
  }
});

/** The optimizer state of each row in a checkpoint's tables, as bits. */
async function rowStates(directory: string): Promise<Map<string, number[]>> {
  const checkpoint = openCheckpoint(directory, "last");
  const states = new Map<string, number[]>();
  for (const stored of storedTables(checkpoint)) {
    for await (const { rows, state } of rowsOfTable(checkpoint, stored, progressOf({}))) {
      for (const [i, row] of rows.entries()) {
        const own = state.slice(i * stored.width, (i + 1) * stored.width);
        states.set(`${stored.spec.name} ${row}`, [...new Uint32Array(own.buffer)]);
      }
    }
  }
  return states;
}

function jobOf(home: string, optimizer: JobOptions["optimizer"], dim = 4) {
  return {
    model: {
      kind: "dlrm",
      dense: 2,
      tables: [
        // Most rows of A are never looked up: their state is the initial one.
        { name: "A", rows: 3000, dim, initScale: 0.3 },
        { name: "B", rows: 40, dim, initScale: 0.3, rowBlocks: 4 },
      ],
      bottom: [dim],
      top: [8, 1],
    },
    data: { kind: "synthetic", samples: 32, dense: 2, batchSize: 16, cache: join(home, "cache") },
    optimizer: optimizer ?? {},
    checkpoint: { directory: join(home, "checkpoints") },
  } satisfies JobOptions;
}

test("optimizers that PyTorch has make the round trip, untrained rows included", async (t) => {
  const dense = [
    { kind: "sgd", momentum: 0.5 },
    { kind: "adagrad", initialAccumulator: 0.25 },
    { kind: "adam" },
    { kind: "lamb" },
  ] as const;
  const sparse = [
    { kind: "adagrad", initialAccumulator: 0.5 },
    { kind: "rowWiseAdagrad", initialAccumulator: 0.125 },
    { kind: "adam" },
    { kind: "lamb" },
    { kind: "partialRowWiseAdam" },
    { kind: "partialRowWiseLamb" },
  ] as const;
  for (const [i, own] of thinned("optimizers there and back", [...sparse.entries()])) {
    const home = startDirectory(t);
    const job = jobOf(home, { dense: dense[i % dense.length], sparse: own } as never);
    const trained = await startTrained(job, { devices: 2 });
    await trained.train({ cut: 1 });
    await trained.train({ cut: 2 });
    for (const format of ["dlrm", "torchrec"] as const) {
      const path = join(home, `${format}.pt`);
      await exportModel(job.checkpoint.directory, path, { format, withOptimizer: true });
      const out = join(home, format);
      // The job comes from the file; the import has all rows of the tables.
      const { optimizer, cut } = await importModel(path, { out });
      t.is(optimizer.sparse.state, "imported", own.kind);
      t.is(optimizer.dense.state, "imported");
      t.is(cut, 2);
      const [before, after] = [await rowStates(job.checkpoint.directory), await rowStates(out)];
      t.is(after.size, 3040);
      t.true(before.size > 30 && before.size < 200, `${before.size}`);
      for (const [row, state] of before) t.deepEqual(after.get(row), state, row);
      const back = join(home, `${format}-back.pt`);
      await exportModel(out, back, { format, withOptimizer: true });
      const key = format === "dlrm" ? "opt_state_dict" : "optimizer";
      t.deepEqual(stateIn(back, key), stateIn(path, key), `${own.kind} ${format}`);
    }
  }
});

test("an optimizer without a PyTorch state is refused, and nothing is written", async (t) => {
  const cases = [
    [{ sparse: { kind: "ftrl" } }, /got `ftrl`: leave `--with-optimizer` out/],
    [{ sparse: { kind: "adagrad", ema: {} }, dense: { kind: "adagrad", ema: {} } }, /`ema`/],
  ] as const;
  for (const [optimizer, message] of cases) {
    const home = startDirectory(t);
    const job = jobOf(home, optimizer as never);
    await (await startTrained(job)).train({ cut: 1 });
    const path = join(home, "m.pt");
    const options = { format: "dlrm", withOptimizer: true } as const;
    const refused = exportModel(job.checkpoint.directory, path, options);
    await t.throwsAsync(refused, { instanceOf: InvalidOptionError, message });
    t.false(existsSync(path) || existsSync(`${path}.part`));
  }
  const home = startDirectory(t);
  const job = jobOf(home, { sparse: { kind: "adam" } });
  await (await startTrained(job)).train({ cut: 1 });
  await exportModel(job.checkpoint.directory, join(home, "m.osiris"));
  const options = { format: "dlrm", withOptimizer: true } as const;
  const refused = exportModel(join(home, "m.osiris"), join(home, "m.pt"), options);
  const message = /was exported without the optimizer's state/;
  await t.throwsAsync(refused, { instanceOf: InputUnusableError, message });
});

testIf(pyTorch)("real PyTorch trains on from exported state as if uninterrupted", async (t) => {
  const home = startDirectory(t);
  // The fixture states no learning rates: the job sets them, and PyTorch reads them from the
  // exported `param_groups`.
  const { job } = await importModel(pytorchFile("dlrm.pt"), { out: join(home, "made") });
  const rates = { kind: "adagrad", learningRate: 0.05, epsilon: 1e-3 } as const;
  const own = { ...job, optimizer: { dense: rates, sparse: rates } };
  await importModel(pytorchFile("dlrm.pt"), { out: join(home, "a"), job: own });
  const path = join(home, "out.pt");
  await exportModel(join(home, "a"), path, { format: "dlrm", withOptimizer: true });
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const args = [pytorchFile("resume.py"), path];
  const printed = execFileSync(pythonWithTorch() ?? "python3", args, { encoding: "utf8", env });
  const { logits = [], continued = [] } = expectedOfPyTorch().models["dlrm.pt"] ?? {};
  const made: number[] = JSON.parse(printed);
  t.true(apart(made, logits) > 1e-3);
  t.true(apart(made, continued) < 1e-6, `${apart(made, continued)}`);
});
