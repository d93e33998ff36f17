// osiris export MODEL --to FILE: a trained model in one file, for other programs.

import type { Command } from "commander";
import { exportModel, type ModelExportReport } from "../../../index.ts";
import { unfinishedExport } from "../../../storage/exports/export-model.ts";
import {
  type CommonOptions,
  type ConnectionArguments,
  withClient,
  withCommon,
} from "../../support/arguments.ts";
import { exitCodes } from "../../support/failure.ts";
import { bytes, count, plural } from "../../support/format.ts";
import { runDirectory } from "../../support/run-directory.ts";
import { runTask } from "../../views/task-view.ts";

interface ExportOptions extends CommonOptions, ConnectionArguments {
  readonly to: string;
  readonly manifest?: string;
  readonly withOptimizer?: boolean;
  readonly restart?: boolean;
}

/** Adds the command. */
export function addExport(program: Command): void {
  const command = program
    .command("export")
    .argument(
      "<model>",
      "checkpoint directory, .osiris file, or a run of a cluster whose directory is seen here",
    )
    .description("write a trained model, dense weights and whole tables, to one file")
    .requiredOption("--to <FILE>", "file to write: .safetensors, .onnx or .osiris")
    .option(
      "--manifest <HASH>",
      "another checkpoint: its manifest's hash, `best` or `last` (default: the best of a job that " +
        "stops early, else the newest)",
    )
    .option(
      "--with-optimizer",
      "of .osiris: with all of the optimizer's state, to train on from it",
    )
    .option("--restart", "begin anew where an export that was stopped would go on");
  withCommon(withClient(command), [
    "export checkpoints --to model.osiris",
    "export checkpoints --to model.safetensors",
    "export checkpoints --to model.onnx",
    "export r12-1 --to model.safetensors --manifest best",
  ]).action(async (from: string, options: ExportOptions) => {
    const { to, manifest, json, withOptimizer, restart } = options;
    const directory = await runDirectory(from, options);
    process.exitCode = await runTask(
      "export",
      (progress) => exportModel(directory, to, { manifest, withOptimizer, restart, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "export", directory, ...report }));
        else for (const line of exportLines(report)) console.log(line);
        return exitCodes.done;
      },
      bytes,
      () => leftOf(to),
    );
  });
}

/** What Ctrl-C leaves, and what to do about it. */
function leftOf(to: string): string {
  const left = unfinishedExport(to);
  if (left === undefined) return "nothing was changed";
  const { file, bytes: size } = left;
  return (
    `${bytes(size)} lie in ${file}, and the same command goes on from there; ` +
    `to give up, remove ${file} and ${file}.json`
  );
}

function exportLines(report: ModelExportReport) {
  const { file, dataFile, bytes: size, parameters, tables, cut, digest, resumedAt } = report;
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const whole = `${plural(tables.length, "table")} of ${plural(rows, "row")} together`;
  return [
    `${file}: ${plural(parameters, "dense parameter")}, ${whole}, ${bytes(size)}`,
    ...(dataFile === undefined ? [] : [`Tables               ${dataFile}, to be kept beside it`]),
    ...(resumedAt === 0
      ? []
      : [`Went on              from ${bytes(resumedAt)} of an earlier export`]),
    `Digest               ${digest} (step ${count(cut)})`,
  ];
}
