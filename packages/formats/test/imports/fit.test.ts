// Which files fit which models: what is imported, what is converted, and what is refused in one
// sentence that names every mismatch.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { type ExecutionContext } from "ava";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import { type JobOptions, resolveJob } from "../../../../src/job/job.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import {
  apart,
  expectedOfPyTorch,
  logitsOf,
  pytorchFile,
} from "../../../../test/helpers/models/pytorch.ts";
import { drawModel } from "../../../../test/helpers/stores/drawn-model.ts";
import { bitsOf, readTensorFile } from "../../../../test/helpers/stores/tensor-file.ts";
import {
  bytesOf,
  tensor,
  text,
  torchOf,
  zipOf,
} from "../../../../test/helpers/stores/torch-bytes.ts";
import { exportModel } from "../../exports/export-model.ts";
import { importModel } from "../../imports/import-model.ts";

const { models } = expectedOfPyTorch();

test("an export of any model imports with its job, and is exported unchanged", async (t) => {
  const home = startDirectory(t);
  const table = { name: "a", rows: 30, dim: 4 };
  const tables = [table, { ...table, name: "b", rowBlocks: 4, precision: "int8" } as const];
  const { checkpoint } = await drawModel({
    name: "mine",
    model: {
      kind: "wukong",
      dense: 3,
      tables,
      bottom: [4],
      layers: [{ interacted: 2, compressed: 1 }],
      top: [5, 1],
    },
    data: { kind: "synthetic", samples: 8, dense: 3, batchSize: 8 },
    optimizer: { dense: { kind: "adam", ema: {} }, sparse: { kind: "adam", ema: {} } },
    checkpoint: { directory: join(home, "drawn") },
  } as JobOptions);
  const first = join(home, "first.safetensors");
  await exportModel(checkpoint.directory, first);
  await exportModel(checkpoint.directory, join(home, "first.onnx"), { inlineBytesMax: 0 });
  const digests = new Set<string>();
  for (const name of ["first.safetensors", "first.onnx"]) {
    const out = join(home, `out-${name}`);
    const report = await importModel(join(home, name), { out });
    t.like(report, { jobFrom: "file", names: "osiris", cut: 0, rounded: 0, roundedRows: 0 });
    t.is(report.job.name, "mine");
    t.is(report.optimizer.sparse.state, "fresh");
    digests.add(report.digest);
    const again = join(home, `${name}.safetensors`);
    await exportModel(out, again);
    t.deepEqual([...readTensorFile(again).tensors], [...readTensorFile(first).tensors]);
  }
  t.is(digests.size, 1);
});

test("a file written by the official safetensors library gives PyTorch's logits", async (t) => {
  const out = join(startDirectory(t), "imported");
  const report = await importModel(pytorchFile("dlrm-cat.safetensors"), { out });
  t.like(report, { format: "safetensors", names: "dlrm", types: ["float32", "float64"] });
  t.is(report.rounded, 0);
  t.true(apart(await logitsOf(out), models["dlrm-cat.pt"]?.logits ?? []) < 1e-6);
});

/** The job that an import derives from a file's shapes. */
async function jobOf(home: string, file: string): Promise<JobOptions> {
  return (await importModel(pytorchFile(file), { out: join(home, `job-of-${file}`) })).job;
}

test("TorchRec's tables are found by name, whatever the order of features", async (t) => {
  const home = startDirectory(t);
  const made = await jobOf(home, "torchrec.pt");
  const [a, b, c] = made.model.tables ?? [];
  const tables = [c, a, b].flatMap((one) => one ?? []);
  const { data: _data, ...rest } = made;
  const data = { ...made.data, categorical: tables.map(({ name }) => name) };
  const job = { ...rest, data, model: { ...made.model, tables } } as JobOptions;
  const out = join(home, "imported");
  await importModel(pytorchFile("torchrec.pt"), { out, job });
  const own = await logitsOf(out, [2, 0, 1]);
  t.true(apart(own, models["torchrec.pt"]?.logits ?? []) < 1e-6);
  const dcn = await jobOf(home, "torchrec-dcn.pt");
  const other = { ...dcn, data, model: { ...dcn.model, tables } } as JobOptions;
  await t.throwsAsync(
    importModel(pytorchFile("torchrec-dcn.pt"), { out: `${out}-2`, job: other }),
    {
      instanceOf: InvalidOptionError,
      message: /t_cat_2, t_cat_0, t_cat_1 in this order, got t_cat_0, t_cat_1, t_cat_2/,
    },
  );
});

/**
 * Writes a file of a small DLRM, with `others` replacing its tensors, or removing them (undefined).
 */
function smallFile(home: string, others: Readonly<Record<string, Uint8Array | undefined>> = {}) {
  const shapes: Readonly<Record<string, readonly number[]>> = {
    "emb_l.0.weight": [2, 2],
    "bot_l.0.weight": [2, 1],
    "bot_l.0.bias": [2],
    "top_l.0.weight": [1, 3],
    "top_l.0.bias": [1],
  };
  const all = new Map(Object.entries(shapes).map(([name, shape]) => [name, plain(shape)]));
  for (const [name, own] of Object.entries(others)) {
    if (own === undefined) all.delete(name);
    else all.set(name, own);
  }
  const items = [...all].map(([name, own]) => bytesOf(text(name), own));
  const numbers = Float32Array.of(Number.NaN, 2, -0.5, 3, 1, 1, 1, 1);
  // A NaN with a payload, which an import must keep.
  new Uint32Array(numbers.buffer)[0] = 0xffc1_2345;
  const doubles = Float64Array.of(0.1, 1, 2, 1e300);
  const halves = Uint16Array.of(0x3c00, 0x4000, 0xfc00, 0x3555);
  const storages = [numbers, doubles, halves].map(({ buffer }) => new Uint8Array(buffer));
  const path = join(home, "small.pt");
  writeFileSync(path, torchOf(bytesOf("}(", ...items, "u"), storages));
  return path;
}

function plain(shape: readonly number[], type = "FloatStorage", offset = 0): Uint8Array {
  const strides = shape.map((_, i) => shape.slice(i + 1).reduce((a, b) => a * b, 1));
  const key = { DoubleStorage: "1", HalfStorage: "2", BFloat16Storage: "2" }[type] ?? "0";
  return tensor({ type, key, count: key === "0" ? 8 : 4, offset, shape, strides });
}

test("float32 values keep their bits; other types are converted and reported", async (t) => {
  const home = startDirectory(t);
  const others = {
    "top_l.0.bias": plain([1], "DoubleStorage"),
    "bot_l.0.bias": plain([2], "HalfStorage", 2),
    "bot_l.0.weight": plain([2, 1], "BFloat16Storage"),
  };
  const out = join(home, "imported");
  const report = await importModel(smallFile(home, others), { out });
  t.deepEqual(report.types, ["bfloat16", "float16", "float32", "float64"]);
  t.is(report.rounded, 1);
  t.is(report.notFinite, 3);
  const path = join(home, "out.safetensors");
  await exportModel(out, path);
  const { tensors } = readTensorFile(path);
  const bits = (name: string) => bitsOf(tensors.get(name));
  t.is(bits("embedding_bags.emb_0.weight")[0], 0xffc1_2345);
  t.is(bits("top.0.weight")[0], 0xffc1_2345);
  t.is(tensors.get("top.0.bias")?.values[0], Math.fround(0.1));
  const half = Number(tensors.get("bottom.0.bias")?.values[1]);
  t.deepEqual([tensors.get("bottom.0.bias")?.values[0], half], [-Infinity, 0.333251953125]);
  t.is(tensors.get("bottom.0.weight")?.values[1], 2);
  const large = smallFile(home, { "top_l.0.bias": plain([1], "DoubleStorage", 3) });
  const message =
    /numbers within the range of float32 in `top_l\.0\.bias` of .*small\.pt, got 1e\+300/;
  const refused = importModel(large, { out: join(home, "other") });
  await t.throwsAsync(refused, { instanceOf: InputUnusableError, message });
  t.false(existsSync(join(home, "other")));
});

async function isRefused(
  t: ExecutionContext,
  file: string,
  message: RegExp,
  job?: JobOptions,
): Promise<void> {
  const out = `${file}-out`;
  await t.throwsAsync(importModel(file, { out, job }), { message });
  t.false(existsSync(out));
}

test("tensors that are missing, left over or of another shape are all named at once", async (t) => {
  const home = startDirectory(t);
  await isRefused(t, smallFile(home, { "top_l.0.bias": undefined }), /without `top_l\.0\.bias`$/);
  const both = { "v_W_l.0": plain([2]), "top_l.0.bias": plain([2]), "bot_l.0.bias": undefined };
  const sentence =
    /got them without `bot_l\.0\.bias`; with `top_l\.0\.bias` of \(2\), not \(1\); with `v_W_l\.0` left over$/;
  await isRefused(t, smallFile(home, both), sentence);
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`w.${i}`, plain([1])]));
  await isRefused(t, smallFile(home, many), /with `w\.0`, .* and 12 more left over$/);
  const whole = { "top_l.0.bias": plain([1], "LongStorage") };
  await isRefused(t, smallFile(home, whole), /got at byte|of int64, which is no type of weights/);
  // A model with dot products of each vector with itself (--arch-interaction-itself).
  const itself = { "top_l.0.weight": plain([1, 5]) };
  await isRefused(t, smallFile(home, itself), /takes 5 columns.*which this model has/);
  await isRefused(t, smallFile(home, { "emb_l.0.weight": undefined }), /`emb_l|to have the names/);
  const { job } = await importModel(smallFile(home), { out: join(home, "fits") });
  const wider = { ...job, model: { ...job.model, top: [4, 1] } } as JobOptions;
  await isRefused(t, smallFile(home), /without `top_l\.2\.weight`.*not \(4, 3\)/, wider);
  const lr = {
    ...job,
    model: { kind: "lr", dense: 1, tables: [{ name: "emb_0", rows: 2, dim: 1 }] },
  };
  await isRefused(t, smallFile(home), /Expected a model that facebookresearch/, lr as JobOptions);
  const table = { name: "emb_0", rows: 2, dim: 2, idBits: 64, dynamic: {} };
  const dynamic = { ...job, model: { ...job.model, tables: [table] } } as JobOptions;
  await isRefused(t, smallFile(home), /dynamic ids/, dynamic);
  const stored = { name: "emb_0", rows: 2, dim: 2, precision: "int8" };
  const narrow = { ...job, model: { ...job.model, tables: [stored] } } as JobOptions;
  await isRefused(t, smallFile(home), /numbers within the range of int8 in row 0/, narrow);
});

test("files of other formats and non-empty output directories are refused", async (t) => {
  const home = startDirectory(t);
  const legacy = /in the format of PyTorch 1\.6 and later, got an earlier one.*save it again/;
  await isRefused(t, copied(home, pytorchFile("legacy.pt")), legacy);
  const other = join(home, "text.pt");
  writeFileSync(other, "label,a\n1,2\n3,4\n5,6\n");
  await isRefused(t, other, /its first bytes are of none of them/);
  writeFileSync(other, zipOf({ "proof.json": "" }));
  await isRefused(t, other, /is one of Osiris already: name it in the place of a checkpoint dir/);
  await isRefused(t, join(home, "no.pt"), /^Cannot read .*no\.pt: ENOENT: no such file/);
  await isRefused(
    t,
    copied(home, pytorchFile("views.pt")),
    /to have the names of facebookresearch/,
  );
  const taken = join(home, "taken");
  mkdirSync(taken);
  writeFileSync(join(taken, "mine"), "");
  const into = importModel(smallFile(home), { out: taken });
  await t.throwsAsync(into, { instanceOf: InputUnusableError, message: /new or empty/ });
  const wrong = importModel(smallFile(home), { out: join(home, "b"), from: "keras" as "dlrm" });
  await t.throwsAsync(wrong, { instanceOf: InvalidOptionError, message: /`from`/ });
  const forced = importModel(smallFile(home), { out: join(home, "b"), from: "osiris" });
  await t.throwsAsync(forced, { instanceOf: InvalidOptionError, message: /which has no job/ });
  t.deepEqual(readdirSync(taken), ["mine"]);
});

function copied(home: string, path: string): string {
  const to = join(home, "copied.pt");
  writeFileSync(to, readFileSync(path));
  return to;
}

test("an import that is stopped leaves no file", async (t) => {
  const home = startDirectory(t);
  const out = join(home, "imported");
  for (const share of [0, 0.4, 0.9]) {
    const controller = new AbortController();
    const onProgress = (done: number, total: number) => {
      if (done >= share * total) controller.abort(new Error("stopped here"));
    };
    const options = { out, onProgress, signal: controller.signal };
    const stopped = importModel(pytorchFile("dlrm.pt"), options);
    await t.throwsAsync(stopped, { message: "stopped here" });
    t.deepEqual(readdirSync(home), []);
  }
});

test("the job file written beside the checkpoint is valid, and warm-starts from it", async (t) => {
  const home = startDirectory(t);
  const [out, writeJob] = [join(home, "imported"), join(home, "job.yaml")];
  await importModel(pytorchFile("torchrec.pt"), { out, writeJob });
  const { parse } = await import("yaml");
  const job = resolveJob(parse(readFileSync(writeJob, "utf8")));
  t.is(job.warmStart?.from, out);
  t.deepEqual([job.optimizer.dense.kind, job.optimizer.sparse.kind], ["adam", "adam"]);
  const again = importModel(pytorchFile("torchrec.pt"), { out: `${out}-2`, writeJob });
  await t.throwsAsync(again, { instanceOf: InputUnusableError, message: /Expected a new file/ });
  t.false(existsSync(`${out}-2`));
});
