// osiris warehouse compact DIRECTORY: merges many small files into few with large row groups.

import type { Command } from "commander";
import { type CommonOptions, integerFrom, withCommon } from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { bytes, plural } from "../../../cli/support/format.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { compactWarehouse } from "../index.ts";
import type { codecs as warehouseCodecs } from "../warehouse/codecs.ts";
import { codecOption } from "./write.ts";

interface CompactOptions extends CommonOptions {
  readonly rowGroup: number;
  readonly fileRows: number;
  readonly codec: (typeof warehouseCodecs)[number];
}

export function addCompact(warehouse: Command): void {
  const command = warehouse
    .command("compact")
    .argument("<directory>", "directory of Parquet files, with or without partitions")
    .description(
      "merge the many files of each partition into few, which replace them once verified",
    )
    .option("--row-group <ROWS>", "most rows of a row group", integerFrom(1, 2 ** 24), 16_384)
    .option("--file-rows <ROWS>", "most rows of a file", integerFrom(1), 2 ** 20)
    .addOption(codecOption());
  withCommon(command, [
    "warehouse compact clicks",
    "warehouse compact clicks --row-group 65536 --codec gzip",
  ]).action(async (directory: string, options: CompactOptions) => {
    const { rowGroup: groupRows, fileRows, codec, json } = options;
    process.exitCode = await runTask(
      "compact",
      (progress) => compactWarehouse(directory, { groupRows, fileRows, codec, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "warehouse.compact", ...report }));
        else if (report.partitions.length === 0) console.log(`${directory}: nothing to compact`);
        else {
          for (const one of report.partitions) {
            const before = `${plural(one.filesBefore, "file")} of ${bytes(one.bytesBefore)}`;
            const after = `${plural(one.filesAfter, "file")} of ${bytes(one.bytesAfter)}`;
            const groups = `${one.rowGroupsBefore} to ${plural(one.rowGroupsAfter, "row group")}`;
            const rows = plural(one.rows, "row");
            console.log(`${one.directory}: ${before} to ${after}, ${groups}, ${rows}`);
          }
        }
        return exitCodes.done;
      },
    );
  });
}
