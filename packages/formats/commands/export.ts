// osiris export MODEL --to FILE: a trained model in one file, for other programs.

import type { Command } from "commander";
import {
  type CommonOptions,
  type ConnectionArguments,
  withClient,
  withCommon,
  withModelRoots,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { bytes, count, plural } from "../../../cli/support/format.ts";
import { runDirectory } from "../../../cli/support/named-run.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { InvalidOptionError, type ProgressOptions } from "../../../internal.ts";
import { type DeltaReport, exportDelta, ServedModel } from "../../serve/index.ts";
import { unfinishedExport } from "../exports/export-model.ts";
import { exportModel, type ModelExportOptions, type ModelExportReport } from "../index.ts";

interface ExportOptions extends CommonOptions, ConnectionArguments {
  readonly to: string;
  readonly format?: ModelExportReport["format"];
  readonly ids?: NonNullable<ModelExportOptions["ids"]>;
  readonly manifest?: string;
  readonly withOptimizer?: boolean;
  readonly restart?: boolean;
  readonly since?: string;
  readonly delta?: readonly string[];
}

export function addExport(program: Command): void {
  const command = program
    .command("export")
    .argument(
      "<model>",
      "checkpoint directory, .osiris file, or a cluster's run whose directory can be read here",
    )
    .description("write a trained model, dense weights and whole tables, to one file")
    .requiredOption(
      "--to <FILE>",
      "file to write: .safetensors, .onnx, .osiris or .pt; .delta with --since",
    )
    .option(
      "--format <FORMAT>",
      "tensor names in a .pt file: dlrm (facebookresearch/dlrm) or torchrec (default: by ending)",
    )
    .option(
      "--ids <FORM>",
      "inputs of an .onnx file: `rows`, numbers of table rows; or `raw`, ids as in the data, for " +
        "features whose ids the file can map to rows (default: rows)",
    )
    .option(
      "--manifest <HASH>",
      "use this checkpoint: its manifest's hash, `best` or `last` (default: the best of a job that " +
        "stops early, else the newest)",
    )
    .option(
      "--with-optimizer",
      "also write the optimizer's state to a .osiris or .pt file, to continue training from it",
    )
    .option("--restart", "start from the beginning instead of resuming an interrupted export")
    .option(
      "--since <CUT>",
      "write a delta, the changes since this checkpoint: its step, or its manifest's hash",
    )
    .option(
      "--delta <FILE...>",
      "apply these deltas to the checkpoint, and write the resulting model",
    );
  withCommon(withModelRoots(withClient(command)), [
    "export checkpoints --to model.osiris",
    "export checkpoints --to model.safetensors",
    "export checkpoints --to model.onnx",
    "export checkpoints --to model.onnx --ids raw",
    "export checkpoints --to model.pt --format torchrec",
    "export r12-1 --to model.safetensors --manifest best",
    "export r12-1 --since 4000 --to 4000-now.delta",
    "export r12-1 --manifest 4f1c --delta 4000-now.delta --to model.safetensors",
  ]).action(async (from: string, options: ExportOptions) => {
    const { to, format, ids, manifest, since, delta, withOptimizer, restart } = options;
    const directory = await runDirectory(from, options);
    if (since !== undefined) await writeDelta(directory, since, options);
    else if (delta !== undefined) await writeApplied(directory, delta, options);
    else {
      await runExport(
        options,
        directory,
        (progress) =>
          exportModel(directory, to, {
            ...{ format, ids, manifest, withOptimizer, restart },
            ...progress,
          }),
        exportLines,
        () => leftOf(to),
      );
    }
  });
}

/** Runs `task` with a progress bar, and prints its report as lines or, with `--json`, as JSON. */
async function runExport<Report extends object>(
  { json }: ExportOptions,
  directory: string,
  task: (progress: ProgressOptions) => Promise<Report>,
  linesOf: (report: Report) => readonly string[],
  left = () => "nothing was changed",
): Promise<void> {
  const print = (report: Report) => {
    if (json) console.log(JSON.stringify({ report: "export", directory, ...report }));
    else for (const line of linesOf(report)) console.log(line);
    return exitCodes.done;
  };
  process.exitCode = await runTask("export", task, print, bytes, left);
}

/** A sentence on the unfinished file that Ctrl-C leaves, and how to resume or remove it. */
function leftOf(to: string): string {
  const left = unfinishedExport(to);
  if (left === undefined) return "nothing was changed";
  const { file, bytes: size } = left;
  return (
    `${bytes(size)} are in ${file}, and the same command resumes from there; ` +
    `to give up, remove ${file} and ${file}.json`
  );
}

async function writeDelta(directory: string, since: string, options: ExportOptions) {
  const { to, manifest, delta } = options;
  if (delta !== undefined) {
    const message = "Expected `--since`, which writes a delta, or `--delta`, which applies some";
    throw new InvalidOptionError("since", `${message}, got both`);
  }
  if (!to.endsWith(".delta")) {
    const message = `Expected \`--to\` to be a file ending in \`.delta\` with \`--since\`, got ${to}`;
    throw new InvalidOptionError("to", message);
  }
  const task = (progress: ProgressOptions) =>
    exportDelta(directory, to, { since, manifest, ...progress });
  await runExport(options, directory, task, deltaLines);
}

/** Opens the checkpoint as a served model, applies the deltas to it, and exports the result. */
async function writeApplied(
  directory: string,
  deltas: readonly string[],
  options: ExportOptions,
): Promise<void> {
  const { to, manifest } = options;
  if (!to.endsWith(".safetensors")) {
    const message = `Expected \`--to\` to be a file ending in \`.safetensors\` with \`--delta\`, got ${to}`;
    throw new InvalidOptionError("to", message);
  }
  await runExport(
    options,
    directory,
    async (progress) => {
      const which = manifest === undefined ? {} : { manifest };
      await using served = await ServedModel.open(directory, {
        ...{ ...which, arithmetic: "auto", signal: progress.signal },
      });
      for (const delta of deltas) await served.applyDelta(delta, { signal: progress.signal });
      await served.export(to, progress);
      return { file: to, ...served.version, deltas: deltas.length };
    },
    ({ file, digest, step, deltas: applied }) => [
      `${file}: after ${plural(applied, "delta")}`,
      `Digest               ${digest} (step ${count(step)})`,
    ],
  );
}

function deltaLines({ file, bytes: size, from, to, tables }: DeltaReport): string[] {
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const changed = tables.reduce((sum, table) => sum + table.changed, 0);
  const ids = tables.reduce((sum, table) => sum + table.ids, 0);
  const moved = ids === 0 ? "" : `, ${plural(ids, "id")} admitted or evicted`;
  return [
    `${file}: ${count(changed)} of ${plural(rows, "row")}${moved}, ${bytes(size)}`,
    `From                 ${from.digest} (step ${count(from.step)})`,
    `To                   ${to.digest} (step ${count(to.step)})`,
  ];
}

function inputsLine({
  file,
  vectors,
  withoutVectors: why,
}: NonNullable<ModelExportReport["inputs"]>) {
  const vectorsText =
    why === undefined ? plural(vectors, "test vector") : `no test vectors (${why})`;
  return `${file}: how to make them from the data's columns, with ${vectorsText}`;
}

/** Lines that list the features whose inputs are not raw ids, grouped by the reason. */
function notRawLines({ notRaw = [] }: NonNullable<ModelExportReport["inputs"]>) {
  const names = new Map<string, string[]>();
  for (const { feature, why } of notRaw) {
    names.set(why, [...(names.get(why) ?? []), `\`${feature}\``]);
  }
  return Array.from(names, ([why, own]) => `No raw ids           of ${own.join(", ")}: ${why}`);
}

function exportLines(report: ModelExportReport) {
  const { file, dataFile, inputs, bytes: size, parameters, tables, cut, digest } = report;
  const { resumedAt } = report;
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const whole = `${plural(tables.length, "table")} of ${plural(rows, "row")} together`;
  return [
    `${file}: ${plural(parameters, "dense parameter")}, ${whole}, ${bytes(size)}`,
    ...(dataFile === undefined ? [] : [`Tables               ${dataFile}, to be kept beside it`]),
    ...(inputs === undefined
      ? []
      : [`Inputs               ${inputsLine(inputs)}`, ...notRawLines(inputs)]),
    ...(resumedAt === 0
      ? []
      : [`Resumed              from ${bytes(resumedAt)} of an earlier export`]),
    `Digest               ${digest} (step ${count(cut)})`,
  ];
}
