// osiris cluster-sessions IN OUT: writes a table with rows grouped by session, sorted by time
// within each session.

import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import {
  bytesFrom,
  type CommonOptions,
  integerFrom,
  withCommon,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { aligned, bytes, count, plural } from "../../../cli/support/format.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { clusterSessions, type SessionReport } from "../index.ts";
import { clusteringHomeOf } from "../sessions/cluster-sessions.ts";
import type { codecs as warehouseCodecs } from "../warehouse/codecs.ts";
import { codecOption } from "./write.ts";

interface ClusterArguments extends CommonOptions {
  readonly by: string;
  readonly order: string;
  readonly memory: number;
  readonly rowGroup: number;
  readonly fileRows: number;
  readonly codec: (typeof warehouseCodecs)[number];
  readonly compare?: boolean;
}

export function addClusterSessions(program: Command): void {
  const command = program
    .command("cluster-sessions")
    .argument(
      "<in>",
      "file of .csv, .tsv, .jsonl (perhaps .gz or .zst), .parquet or .arrow, pattern, or directory",
    )
    .argument("<out>", "new directory of the table")
    .description(
      "write rows as Parquet files, grouped by session, so that repeated lists are close together",
    )
    .option("--by <COLUMN>", "column with the session of a row", "session")
    .option(
      "--order <COLUMN>",
      "column with the time of a row: a number, timestamp or ISO date",
      "time",
    )
    .addOption(
      new Option("--memory <BYTES>", "approximate memory for rows while sorting")
        .argParser(bytesFrom)
        .default(2 ** 29, "512MiB"),
    )
    .option(
      "--row-group <ROWS>",
      "approximate rows of a row group",
      integerFrom(1, 2 ** 24),
      16_384,
    )
    .option("--file-rows <ROWS>", "approximate rows of a file", integerFrom(1), 2 ** 20)
    .addOption(codecOption("zstd"))
    .option("--compare", "also write the same rows shuffled, and print how much larger they are");
  withCommon(command, [
    "cluster-sessions impressions.jsonl clustered",
    "cluster-sessions 'logs/*.parquet' clustered --by user --order when --memory 2GB --compare",
  ]).action(async (from: string, out: string, options: ClusterArguments) => {
    const { by, order, memory, rowGroup: groupRows, fileRows, codec, compare, json } = options;
    const settings = { by, order, memory, groupRows, fileRows, codec, compare };
    process.exitCode = await runTask(
      "cluster-sessions",
      (progress) => clusterSessions([from], out, { ...settings, ...progress }),
      (report) => {
        if (json) console.log(JSON.stringify({ report: "cluster-sessions", ...report }));
        else for (const line of linesOf(report)) console.log(line);
        return exitCodes.done;
      },
      // Progress counts each row three times: as read, as sorted and as written.
      (steps) => `${count(steps / 3)} rows`,
      () => {
        const home = clusteringHomeOf(out);
        const goOn = `the same command continues from ${home}; remove it to give up`;
        return existsSync(home) ? goOn : "nothing was changed";
      },
    );
  });
}

function linesOf(report: SessionReport): string[] {
  const { directory, files, rows, rowGroups, sessions, codec, lists, rowsResumed } = report;
  const { bytesBefore, bytes: after, bytesShuffled } = report;
  const mean = rows / Math.max(1, sessions);
  const of = `${plural(rows, "row")} of ${plural(sessions, "session")}, ${mean.toFixed(2)} rows a session`;
  const packed = codec === "none" ? "not compressed" : codec;
  const shuffled =
    bytesShuffled === undefined
      ? []
      : [
          `Shuffled, the same rows take ${bytes(bytesShuffled)}: ${times(bytesShuffled, after)} as much`,
        ];
  const resumed = rowsResumed === 0 ? [] : [`${count(rowsResumed)} rows were sorted before`];
  const table = [
    ["List", "ids", "of distinct lists", "DedupeFactor"],
    ...lists.map(({ column, ids, distinctIds, dedupeFactor }) => {
      const factor = Number.isFinite(dedupeFactor) ? dedupeFactor.toFixed(2) : "-";
      return [column, count(ids), count(distinctIds), factor];
    }),
  ];
  return [
    `${directory}: ${plural(files, "file")}, ${plural(rowGroups, "row group")}; ${of}`,
    ...resumed,
    `Read ${bytes(bytesBefore)}, wrote ${bytes(after)} (${packed}): ${times(bytesBefore, after)} smaller`,
    ...shuffled,
    ...(lists.length === 0 ? [] : aligned(table)),
  ];
}

/** `3.71 times` */
function times(large: number, small: number): string {
  return `${(large / Math.max(1, small)).toFixed(2)} times`;
}
