// osiris warehouse write DATA -o DIRECTORY: writes rows of any files as a table of Parquet files.

import { type Command, Option } from "commander";
import {
  type CommonOptions,
  collected,
  integerFrom,
  withCommon,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { bytes, count, plural } from "../../../cli/support/format.ts";
import { loadJob } from "../../../cli/support/job-file.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { resolveJob } from "../../../internal.ts";
import { writeWarehouse } from "../index.ts";
import { codecs as warehouseCodecs } from "../warehouse/codecs.ts";

interface WriteOptions extends CommonOptions {
  readonly out: string;
  readonly partitionBy?: string;
  readonly rowGroup: number;
  readonly codec: (typeof warehouseCodecs)[number];
  readonly orderFrom?: readonly string[];
}

export function addWrite(warehouse: Command): void {
  const command = warehouse
    .command("write")
    .argument(
      "<data...>",
      "files of .csv, .tsv, .jsonl (perhaps .gz or .zst), .parquet or .arrow, or directories",
    )
    .description("write rows as a table of Parquet files, laid out for training jobs")
    .requiredOption("-o, --out <DIRECTORY>", "new directory of the table")
    .option("--partition-by <COLUMN>", "make one directory for each value of this column")
    .option("--row-group <ROWS>", "most rows of a row group", integerFrom(1, 2 ** 24), 16_384)
    .addOption(codecOption())
    .option(
      "--order-from <JOB>",
      "put the columns that this job reads first; if repeated, those of most jobs come first",
      collected,
    );
  withCommon(command, [
    "warehouse write clicks.csv -o clicks",
    "warehouse write 'logs/*.jsonl.gz' -o clicks --partition-by day --order-from job.yaml",
  ]).action(async (paths: readonly string[], options: WriteOptions) => {
    const { out, partitionBy, rowGroup: groupRows, codec, orderFrom: files = [], json } = options;
    const jobs = await Promise.all(files.map(async (path) => resolveJob(await loadJob(path))));
    process.exitCode = await runTask(
      "write",
      (progress) =>
        writeWarehouse(paths, out, { partitionBy, groupRows, codec, orderFrom: jobs, ...progress }),
      (report) => {
        const { directory, rows, rowGroups, files: made, bytes: size } = report;
        const groups = `${count(rows)} rows in ${plural(rowGroups, "row group")}`;
        const people = `${directory}: ${plural(made, "file")}, ${groups}, ${bytes(size)}`;
        console.log(json ? JSON.stringify({ report: "warehouse.write", ...report }) : people);
        return exitCodes.done;
      },
    );
  });
}

/** The option `--codec`, the compression of Parquet files. */
export function codecOption(usual: (typeof warehouseCodecs)[number] = "snappy"): Option {
  return new Option("--codec <CODEC>", "compression of the files")
    .choices([...warehouseCodecs])
    .default(usual);
}
