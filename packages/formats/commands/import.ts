// osiris import FILE -o DIRECTORY: a model that another program trained, as a checkpoint.

import type { Command } from "commander";
import { type CommonOptions, withCommon } from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { count, plural } from "../../../cli/support/format.ts";
import { loadJob } from "../../../cli/support/job-file.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { namesKinds } from "../dlrm-names/foreign-tensors.ts";
import { importModel, type ModelImportReport } from "../index.ts";

interface ImportOptions extends CommonOptions {
  readonly out: string;
  readonly job?: string;
  readonly from?: (typeof namesKinds)[number];
  readonly fresh?: boolean;
  readonly writeJob?: string;
}

export function addImport(program: Command): void {
  const command = program
    .command("import")
    .argument(
      "<file>",
      "file of torch.save (.pt) or safetensors, or an ONNX file of `osiris export`",
    )
    .description("make a checkpoint of a model that another program trained")
    .requiredOption("-o, --out <DIRECTORY>", "new directory for the checkpoint")
    .option(
      "--job <FILE>",
      "job of the model (default: the file's, else derived from the shapes of the tensors)",
    )
    .option(
      "--from <NAMES>",
      `naming scheme of the tensors: ${namesKinds.join(", ")} (default: detected)`,
    )
    .option("--fresh", "reset the optimizer's state, even if the file has it")
    .option(
      "--write-job <FILE>",
      "also write the model's job, a YAML file to continue training with",
    );
  withCommon(command, [
    "import dlrm.pt --out imported --write-job imported.yaml",
    "import torchrec.pt --out imported --job job.yaml",
    "import model.safetensors --out imported",
  ]).action(async (file: string, options: ImportOptions) => {
    const { out, from, fresh: isFresh, writeJob, json } = options;
    const job = options.job === undefined ? undefined : await loadJob(options.job);
    process.exitCode = await runTask(
      "import",
      (progress) => importModel(file, { out, job, from, isFresh, writeJob, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "import", ...report }));
        else for (const line of importLines(report, writeJob)) console.log(line);
        return exitCodes.done;
      },
    );
  });
}

const jobs = {
  given: "that of --job",
  file: "that in the file",
  shapes: "made of the shapes of the tensors",
} as const;

function importLines(report: ModelImportReport, writeJob: string | undefined): string[] {
  const { directory, parameters, tables, format, names, types, optimizer, cut, digest } = report;
  const rows = tables.reduce((sum, table) => sum + table.rows, 0);
  const whole = `${plural(tables.length, "table")} of ${plural(rows, "row")} together`;
  const others = types.filter((type) => type !== "float32");
  const state = ({ state: own, why }: (typeof optimizer)["dense"]) => {
    return why === undefined ? own : `${own} (${why})`;
  };
  const lines = [
    `${directory}: ${plural(parameters, "dense parameter")}, ${whole}`,
    `Names                ${names}, in a file of ${format}`,
    `Job                  ${jobs[report.jobFrom]}`,
    `Optimizer's state    of dense parameters: ${state(optimizer.dense)}`,
    `                     of rows: ${state(optimizer.sparse)}`,
    `Digest               ${digest} (step ${count(cut)})`,
  ];
  if (others.length > 0) {
    const rounded = report.rounded > 0 ? `, ${plural(report.rounded, "number")} rounded` : "";
    lines.push(`Converted            from ${others.join(", ")} to float32${rounded}`);
  }
  if (report.roundedRows > 0) {
    lines.push(
      `Rounded to nearest   ${plural(report.roundedRows, "row")}, to the table's precision`,
    );
  }
  if (report.notFinite > 0) {
    const kept = "NaN or infinity, kept as they are";
    lines.push(`Warning              ${plural(report.notFinite, "number")} that is ${kept}`);
  }
  const next = writeJob ?? "JOB";
  const from = writeJob === undefined ? ` --warm-start ${directory}` : "";
  lines.push(`To go on training    osiris train ${next}${from}`);
  return lines;
}
