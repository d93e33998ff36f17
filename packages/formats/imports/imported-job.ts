// The job of an imported model. Where the file has none it is derived: layers and tables from the
// shapes of the tensors, optimizers from their state. The paths and columns of the data cannot be
// derived, so the job contains a placeholder: a CSV file with columns named after the tables.
//
// The job can be written as a YAML file, which continues to train the model; a derived job needs
// the user's data paths first.

import { Document, isMap, isSeq } from "yaml";
import {
  type Disk,
  InputUnusableError,
  InvalidOptionError,
  type JobOptions,
  writeWhole,
} from "../../../internal.ts";
import type { ForeignKind } from "../dlrm-names/foreign-tensors.ts";

/** Tensor shapes by the names that the other program uses. */
export type Shapes = ReadonlyMap<string, readonly number[]>;

const bags = /^sparse_arch\.embedding_bag_collection\.embedding_bags\.(.+)\.weight$/;
const numbered = /^emb_l\.(\d+)\.weight$/;
/** Samples of a batch in the derived job; the user may change it. */
const batchSize = 2048;

/**
 * Derives the job of a state dict.
 * @throws InvalidOptionError naming the shapes that fit no supported model
 */
export function deriveJob(kind: ForeignKind, shapes: Shapes): JobOptions {
  const refuse = (why: string) => {
    const message = `Expected a model whose job follows from the shapes of its tensors: ${why}`;
    return new InvalidOptionError("job", `${message}; name the job, with \`--job\``);
  };
  const tables = tablesOf(kind, shapes);
  const layer = layerName[kind];
  const bottom = mlpOf(shapes, (i) => layer.bottom(i));
  const top = mlpOf(shapes, (i) => layer.top(i, shapes));
  const [dim] = tables.map((table) => table.dim);
  if (dim === undefined) throw refuse("it has no tables");
  if (bottom.widths.length === 0 || bottom.widths.at(-1) !== dim) {
    throw refuse(`its bottom MLP does not end in ${dim} columns, as its first table has`);
  }
  if (top.widths.at(-1) !== 1) throw refuse("its top MLP does not end in one logit");
  const vectors = tables.length + 1;
  const pairs = dim + (vectors * (vectors - 1)) / 2;
  const common = { dense: bottom.inputs, tables, bottom: bottom.widths, top: top.widths };
  const rank = shapes.get("inter_arch.crossnet.V_kernels.0")?.[0];
  const crossLayers = [...shapes.keys()].filter((name) => /\.V_kernels\.\d+$/.test(name)).length;
  if (rank !== undefined) {
    if (top.inputs !== vectors * dim) throw refuse(`its top MLP takes ${top.inputs} columns`);
    return withData({ kind: "dcnV2", ...common, crossLayers, rank });
  }
  if (top.inputs === pairs) return withData({ kind: "dlrm", ...common });
  if (kind === "dlrm" && top.inputs === vectors * dim) {
    return withData({ kind: "dlrm", ...common, interaction: "cat" });
  }
  const itself = pairs + vectors === top.inputs;
  throw refuse(
    `its top MLP takes ${top.inputs} columns, where the dot products of ${vectors} vectors of ` +
      `${dim} make ${pairs}${itself ? " without those of a vector with itself, which this model has" : ""}`,
  );
}

/** Names of the tables, in the other program's order. */
export function tableNames(kind: ForeignKind, shapes: Shapes): string[] {
  return tablesOf(kind, shapes).map(({ name }) => name);
}

/** The embedding tables, in the other program's order. */
function tablesOf(kind: ForeignKind, shapes: Shapes) {
  const named = [...shapes].flatMap(([name, [rows = 0, dim = 0]]) => {
    const table = (kind === "dlrm" ? numbered : bags).exec(name)?.[1];
    return table === undefined ? [] : [{ name: table, rows, dim }];
  });
  if (kind === "torchrec") return named;
  return named
    .sort((a, b) => Number(a.name) - Number(b.name))
    .map(({ name, ...shape }) => ({ name: `emb_${name}`, ...shape }));
}

const layerName = {
  dlrm: {
    bottom: (i: number) => `bot_l.${2 * i}`,
    top: (i: number, _: Shapes) => `top_l.${2 * i}`,
  },
  torchrec: {
    bottom: (i: number) => `dense_arch.model._mlp.${i}._linear`,
    top(i: number, shapes: Shapes) {
      const hidden = (at: number) => `over_arch.model.0._mlp.${at}._linear`;
      if (shapes.has(`${hidden(i)}.weight`)) return hidden(i);
      // The last layer, which follows the hidden ones, has a different name.
      return i > 0 && shapes.has(`${hidden(i - 1)}.weight`) ? "over_arch.model.1" : "";
    },
  },
} as const;

function mlpOf(shapes: Shapes, nameOf: (layer: number) => string) {
  const widths: number[] = [];
  let inputs = 0;
  for (let i = 0; ; i++) {
    const shape = shapes.get(`${nameOf(i)}.weight`);
    if (shape === undefined) return { widths, inputs };
    if (i === 0) inputs = shape[1] ?? 0;
    widths.push(shape[0] ?? 0);
  }
}

function withData(model: JobOptions["model"] & { readonly dense: number }): JobOptions {
  const tables = model.tables ?? [];
  return {
    name: "imported",
    model,
    data: {
      kind: "csv",
      paths: ["data.csv"],
      label: "label",
      dense: Array.from({ length: model.dense }, (_, i) => `dense_${i}`),
      categorical: tables.map(({ name }) => ({ column: name, ids: "integer" as const })),
      batchSize,
    },
    checkpoint: { directory: "checkpoints/imported" },
  };
}

/** The facts in the comment at the head of the file. */
interface About {
  readonly file: string;
  readonly directory: string;
  readonly isMade: boolean;
}

/** Checks that `path` is free, so that no file of the user is lost. @throws InputUnusableError */
export function checkJobFile(path: string, disk: Disk): void {
  if (!disk.exists(path)) return;
  const message = `Expected a new file for the job, but ${path} is there; name another one`;
  throw new InputUnusableError(path, message);
}

/** Writes the job. @throws InputUnusableError where the file cannot be written */
export async function writeJob(
  path: string,
  job: JobOptions,
  about: About,
  disk: Disk,
): Promise<void> {
  const bytes = new TextEncoder().encode(textOf(job, about));
  await writeWhole(disk, path, async (file) => file.write(bytes, 0));
}

function textOf(job: JobOptions, { file, directory, isMade }: About): string {
  const continued = {
    ...job,
    checkpoint: { ...job.checkpoint, directory: `${directory}-trained` },
    warmStart: { from: directory },
  };
  const document = new Document(continued);
  const made =
    ` Made by \`osiris import\` of ${file}: layers and tables by the shapes of its tensors. Name\n` +
    " your own data, where ids are rows of the tables, and a learning rate; docs/jobs.md has every option.\n";
  const trains = ` \`osiris train THIS-FILE\` continues to train the model in ${directory}.`;
  document.commentBefore = `${isMade ? made : ` The job of ${file}.\n`}${trains}`;
  for (const path of [["model"], ["data"]]) {
    const section = document.getIn(path);
    if (!isMap(section)) continue;
    for (const { value } of section.items) {
      if (!isSeq(value)) continue;
      const isFlat = value.items.every((item) => !isMap(item));
      if (isFlat) value.flow = true;
      for (const item of value.items) if (isMap(item)) item.flow = true;
    }
  }
  return document.toString({ lineWidth: 100 });
}
