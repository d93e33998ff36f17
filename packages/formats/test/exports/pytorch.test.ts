// The export of a model as a state dict of facebookresearch/dlrm or TorchRec, which PyTorch reads:
// its tensors equal, bit for bit, those that PyTorch wrote for the same model
// (test/fixtures/pytorch).

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "ava";
import { InputUnusableError, InvalidOptionError } from "../../../../src/errors/errors.ts";
import type { ModelOptions } from "../../../../src/model/options.ts";
import { realDisk } from "../../../../src/ports/disk.ts";
import {
  appendToZip,
  zipDirectory,
  zipEnd,
  zipHeader,
  zipPlaceAt,
} from "../../../../storage/disk/write-zip.ts";
import { startDirectory } from "../../../../test/data/data-files.ts";
import {
  apart,
  expectedOfPyTorch,
  logitsOf,
  pytorchFile,
} from "../../../../test/helpers/models/pytorch.ts";
import {
  leavesOut,
  pyTorch,
  python3,
  pythonWithTorch,
  testIf,
} from "../../../../test/helpers/needs.ts";
import { drawModel } from "../../../../test/helpers/stores/drawn-model.ts";
import { exportModel } from "../../exports/export-model.ts";
import { importModel } from "../../imports/import-model.ts";
import { TensorToWrite, torchEntries } from "../../torch/pickle.ts";
import { PickledTensor } from "../../torch/pickled-values.ts";
import { openTorchPath } from "../../torch/read-torch-file.ts";

const fixtures = {
  "dlrm.pt": "dlrm",
  "dlrm-cat.pt": "dlrm",
  "torchrec.pt": "torchrec",
  "torchrec-dcn.pt": "torchrec",
} as const;

/** All tensors of a state dict by name, without a wrapper's prefix. */
function tensorsIn(path: string): Map<string, { shape: readonly number[]; bytes: Uint8Array }> {
  const file = openTorchPath(path, realDisk);
  const value = file.value as Map<string, unknown>;
  const state = (value.get("state_dict") ?? value.get("model") ?? value) as Map<string, unknown>;
  const all = [...state].flatMap(([name, tensor]) => {
    if (!(tensor instanceof PickledTensor)) return [];
    const { shape } = tensor;
    const bytes = file.read(tensor, 0, shape[0] ?? 1);
    return [[name.replace(/^model\./, ""), { shape, bytes }] as const];
  });
  file.close();
  return new Map(all);
}

test("a state dict saved by PyTorch is exported as it came: names, order, shapes and bits", async (t) => {
  const home = startDirectory(t);
  for (const [name, format] of Object.entries(fixtures)) {
    const out = join(home, name);
    await importModel(pytorchFile(name), { out });
    const path = join(home, `out-${name}`);
    const report = await exportModel(out, path, { format });
    t.is(report.format, format);
    t.is(report.bytes, readFileSync(path).length);
    const [own, theirs] = [tensorsIn(path), tensorsIn(pytorchFile(name))];
    t.deepEqual([...own.keys()], [...theirs.keys()], name);
    for (const [tensor, { shape, bytes }] of theirs) {
      t.deepEqual(own.get(tensor)?.shape, shape, tensor);
      t.deepEqual(own.get(tensor)?.bytes, bytes, tensor);
    }
  }
});

test("the dot product orders of DLRM and TorchRec are permuted into each other", async (t) => {
  const home = startDirectory(t);
  const at = (name: string) => join(home, name);
  await importModel(pytorchFile("dlrm.pt"), { out: at("a") });
  await exportModel(at("a"), at("torchrec.pt"), { format: "torchrec" });
  // The exported file holds the job, so the tables keep their names.
  const { jobFrom, names, digest } = await importModel(at("torchrec.pt"), { out: at("b") });
  t.deepEqual([jobFrom, names], ["file", "torchrec"]);
  await exportModel(at("b"), at("dlrm.pt"), { format: "dlrm" });
  t.is((await importModel(at("dlrm.pt"), { out: at("c") })).digest, digest);
  t.deepEqual(tensorsIn(at("dlrm.pt")), tensorsIn(pytorchFile("dlrm.pt")));
  const over = "over_arch.model.0._mlp.0._linear.weight";
  t.notDeepEqual(
    tensorsIn(at("torchrec.pt")).get(over)?.bytes,
    tensorsIn(at("dlrm.pt")).get("top_l.0.weight")?.bytes,
  );
});

test("a stopped export to PyTorch resumes, and ends in the same bytes", async (t) => {
  const home = startDirectory(t);
  await importModel(pytorchFile("dlrm.pt"), { out: join(home, "a") });
  const whole = join(home, "whole.pt");
  await exportModel(join(home, "a"), whole, { format: "dlrm" });
  const path = join(home, "model.pt");
  let saves = 0;
  for (let stops = 1; ; stops++) {
    const controller = new AbortController();
    let renames = 0;
    const disk = {
      ...realDisk,
      rename(from: string, to: string) {
        realDisk.rename(from, to);
        // Stops each export after its third saved mark, so that each gets further than the last.
        if (to.endsWith(".json") && ++renames > 2) {
          saves++;
          controller.abort(new Error("stopped here"));
        }
      },
    };
    const options = { format: "dlrm", markBytes: 1, disk, signal: controller.signal } as const;
    try {
      const { resumedAt } = await exportModel(join(home, "a"), path, options);
      t.true(resumedAt > 0);
      break;
    } catch (error) {
      t.is((error as Error).message, "stopped here");
      t.true(stops < 100);
    }
  }
  t.true(saves > 3, `${saves}`);
  t.is(Buffer.compare(readFileSync(path), readFileSync(whole)), 0);
  t.deepEqual(
    readdirSync(home).filter((name) => name.startsWith("model")),
    ["model.pt"],
  );
});

test("a model that the other program does not have is refused in a sentence", async (t) => {
  const home = startDirectory(t);
  const table = { name: "a", rows: 9, dim: 4 };
  const dlrm = { kind: "dlrm", dense: 2, tables: [table], bottom: [4], top: [3, 1] } as const;
  const cases: readonly (readonly [ModelOptions, "dlrm" | "torchrec", RegExp])[] = [
    [{ kind: "lr", tables: [{ ...table, dim: 1 }] }, "dlrm", /of the kind `lr`/],
    [{ ...dlrm, interaction: "dot+cat" }, "dlrm", /with `interaction: "dot\+cat"`/],
    [{ ...dlrm, interaction: "cat" }, "torchrec", /with `interaction: "cat"`/],
    [{ ...dlrm, tables: [{ ...table, pooling: "mean" }] }, "dlrm", /feature `a` is a mean/],
    [{ ...dlrm, batchNorm: true }, "torchrec", /with `batchNorm`/],
    [{ ...dlrm, dense: 0, bottom: [] }, "dlrm", /without a bottom MLP/],
    [{ ...dlrm, top: [1] }, "torchrec", /whose top MLP has one layer/],
    [
      { ...dlrm, kind: "dcnV2", crossLayers: 2 },
      "torchrec",
      /whose cross layers have whole weights/,
    ],
    [
      { ...dlrm, features: [{ column: "a" }, { column: "b", table: "a" }] },
      "torchrec",
      /whose tables do not belong to one feature each/,
    ],
  ];
  for (const [i, [model, format, message]] of cases.entries()) {
    const { dense = 0 } = model;
    const { checkpoint } = await drawModel({
      ...{ model, data: { kind: "synthetic", samples: 8, dense, batchSize: 8 } },
      checkpoint: { directory: join(home, `${i}`) },
    });
    const made = exportModel(checkpoint.directory, join(home, "m.pt"), { format });
    await t.throwsAsync(made, { instanceOf: InvalidOptionError, message });
  }
  const unnamed = exportModel(join(home, "0"), join(home, "m.pt"));
  const message = /^Expected the format `dlrm` .* or `torchrec` .* for .*m\.pt$/;
  await t.throwsAsync(unnamed, { instanceOf: InputUnusableError, message });
  const odd = exportModel(join(home, "0"), join(home, "m.pt"), { format: "keras" as "dlrm" });
  await t.throwsAsync(odd, { instanceOf: InvalidOptionError, message: /`format`/ });
  t.false(readdirSync(home).includes("m.pt"));
});

/** The output of a Python program with PyTorch. */
function python(...args: readonly string[]): string {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  return execFileSync(pythonWithTorch() ?? "python3", args, { encoding: "utf8", env });
}

testIf(pyTorch)(
  "real PyTorch loads an exported model and computes the model's logits",
  async (t) => {
    const home = startDirectory(t);
    const exported: string[] = [];
    for (const [name, format] of Object.entries(fixtures)) {
      const out = join(home, name);
      await importModel(pytorchFile(name), { out });
      const path = join(home, `out-${name}`);
      await exportModel(out, path, { format });
      exported.push(path, name.replace(".pt", ""));
    }
    const lines = python(pytorchFile("load.py"), ...exported)
      .trimEnd()
      .split("\n");
    t.is(lines.length, Object.keys(fixtures).length);
    for (const [at, name] of Object.keys(fixtures).entries()) {
      const logits: number[] = JSON.parse(lines[at] ?? "");
      t.true(apart(logits, await logitsOf(join(home, name))) < 1e-6, name);
      // PyTorch's own last bits depend on the processor.
      const recorded = expectedOfPyTorch().models[name]?.logits ?? [];
      t.is(logits.length, recorded.length);
      t.true(apart(logits, recorded) < 1e-6, name);
    }
  },
);

test("sizes and offsets beyond 4 GiB are read by this project, Python and real PyTorch", (t) => {
  const path = join(startDirectory(t), "long.pt");
  const values = Float32Array.from({ length: 40 }, (_, i) => i / 3);
  const tensor = new TensorToWrite([5, 8], new Uint8Array(values.buffer));
  const contents = torchEntries({ name: tensor, other: -1.5 }, {}).map(
    ({ name, contents: own }) => [name, own instanceof Uint8Array ? own : own.numbers] as const,
  );
  // The same entries after a sparse 4 GiB entry that nothing refers to.
  const long = { ...zipPlaceAt(0, "model/extra/long", 64), bytes: 2 ** 32 + 5, crc: 0 };
  const file = realDisk.open(path, "write");
  file.write(zipHeader(long), 0);
  const all = appendToZip(file, [long], Object.fromEntries(contents), 64);
  file.write(zipDirectory(all), zipEnd(all));
  file.close();
  t.true(all.every(({ start }) => start % 64 === 0));
  const own = openTorchPath(path, realDisk);
  const value = own.value as Map<string, PickledTensor | number>;
  t.is(value.get("other"), -1.5);
  t.deepEqual(own.read(value.get("name") as PickledTensor, 0, 5), new Uint8Array(values.buffer));
  own.close();
  if (leavesOut(t, python3)) return;
  const list = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1])\n";
  const sizes = `${list}print([one.file_size for one in z.infolist()], z.read("model/version"))`;
  const listed = execFileSync("python3", ["-c", sizes, path], { encoding: "utf8" });
  t.is(listed, `[${all.map(({ bytes }) => bytes).join(", ")}] b'3\\n'\n`);
  if (leavesOut(t, pyTorch)) return;
  const program = "import sys, torch; print(torch.load(sys.argv[1])['name'].reshape(-1).tolist())";
  const printed: number[] = JSON.parse(python("-c", program, path));
  t.deepEqual(Float32Array.from(printed), values);
});
