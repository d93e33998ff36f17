// osiris ingest --features STREAM --events STREAM -o DIRECTORY: joins two streams into a table.

import { type Command, Option } from "commander";
import {
  bytesFrom,
  type CommonOptions,
  type CredentialArguments,
  collected,
  credentialsFor,
  integerFrom,
  numberFrom0,
  secondsFrom,
  usualPort,
  withCommon,
  withCredentials,
} from "../../../cli/support/arguments.ts";
import { exitCodes } from "../../../cli/support/failure.ts";
import { count, plural } from "../../../cli/support/format.ts";
import { runTask } from "../../../cli/views/task-view.ts";
import { InvalidOptionError } from "../../../internal.ts";
import { type IngestReport, ingest } from "../index.ts";
import { columnTypes as ingestColumnTypes } from "../warehouse/inferred-type.ts";
import { codecOption } from "./write.ts";

type ColumnType = keyof typeof ingestColumnTypes;

interface IngestArguments extends CommonOptions, CredentialArguments {
  readonly nats: string;
  readonly features: string;
  readonly events: string;
  readonly shards?: number;
  readonly out: string;
  readonly follow?: boolean;
  readonly window: number;
  readonly lateness: number;
  readonly id: string;
  readonly time: string;
  readonly timeUnit: "s" | "ms" | "us";
  readonly label: string;
  readonly value?: readonly string[];
  readonly rule: "max" | "sum" | "first" | "last";
  readonly column?: readonly string[];
  readonly partition: "date" | "hour" | "none";
  readonly rowGroup: number;
  readonly fileRows: number;
  readonly fileSpan: number;
  readonly codec: "snappy" | "zstd" | "gzip" | "brotli" | "none";
  readonly stateBytes: number;
  readonly quarantineMax: number;
  readonly rejectedMax: number;
}

export function addIngest(program: Command): void {
  const command = program
    .command("ingest")
    .description(
      "join a JetStream stream of features and one of events into a table of Parquet files",
    )
    .requiredOption("--features <STREAM>", "stream of requests with their features")
    .requiredOption("--events <STREAM>", "stream of events with their labels, such as clicks")
    .requiredOption(
      "-o, --out <DIRECTORY>",
      "directory of the table: new, or of an earlier ingestion, which continues",
    )
    .option(
      "--shards <N>",
      "read N streams instead of each: STREAM-0, STREAM-1, …",
      integerFrom(1, 4096),
    )
    .option("-f, --follow", "continue with new messages, until Ctrl-C");
  withJoin(command);
  withFiles(command);
  const address = new Option("--nats <URL>", "address of the server")
    .default(`nats://127.0.0.1:${usualPort}`)
    .env("OSIRIS_NATS");
  const token = new Option("--token <TOKEN>", "token of the server").env("OSIRIS_TOKEN");
  withCommon(withCredentials(command.addOption(address)).addOption(token), [
    "ingest --features impressions --events clicks -o clicks",
    "ingest --features impressions --events clicks -o clicks --follow --window 10m",
    "ingest --features impressions --events clicks -o clicks --shards 16",
    "ingest --features f --events e -o t --value dwell --column price=DOUBLE --column 'tags=list<STRING>'",
  ]).action(async (options: IngestArguments) => {
    process.exitCode = await run(options);
  });
}

function withJoin(command: Command): void {
  const unit = new Option("--time-unit <UNIT>", "unit of numeric times since 1970");
  const rule = new Option("--rule <RULE>", "how several events of a request give one label");
  command
    .addOption(
      new Option("--window <TIME>", "longest time from a request to one of its events")
        .argParser(secondsFrom)
        .default(300, "5m"),
    )
    .addOption(
      new Option("--lateness <TIME>", "leave out messages that are later than this in their stream")
        .argParser(secondsFrom)
        .default(60, "1m"),
    )
    .option("--id <MEMBER>", "message member with the request's id", "request")
    .option("--time <MEMBER>", "message member with the time", "time")
    .addOption(unit.choices(["s", "ms", "us"]).default("ms"))
    .option("--label <MEMBER>", "event member with the label", "label")
    .option(
      "--value <MEMBER>",
      "event member with a number to store, too; may be repeated",
      collected,
    )
    .addOption(rule.choices(["max", "sum", "first", "last"]).default("max"))
    .option(
      "--column <NAME=TYPE>",
      `type of a column (${Object.keys(ingestColumnTypes).join(", ")}); may be repeated`,
      collected,
    )
    .addOption(
      new Option("--state-bytes <BYTES>", "memory limit for requests and events in the window")
        .argParser(bytesFrom)
        .default(2 ** 29, "512MiB"),
    )
    .option("--quarantine-max <N>", "bad messages to keep as examples", integerFrom(0, 10_000), 100)
    .option(
      "--rejected-max <SHARE>",
      "fail if more of a file's messages are bad",
      numberFrom0,
      0.01,
    );
}

function withFiles(command: Command): void {
  const partition = new Option("--partition <BY>", "one directory for each date or hour (UTC)");
  command
    .addOption(partition.choices(["date", "hour", "none"]).default("date"))
    .option("--row-group <ROWS>", "most rows of a row group", integerFrom(1, 2 ** 24), 16_384)
    .option("--file-rows <ROWS>", "most rows of a file", integerFrom(1, 2 ** 31), 262_144)
    .addOption(
      new Option("--file-span <TIME>", "longest time span of a file's rows")
        .argParser(secondsFrom)
        .default(3600, "1h"),
    )
    .addOption(codecOption());
}

function run(options: IngestArguments): Promise<number> {
  const { features, events, out, id, time, timeUnit, label, rule, partition, codec } = options;
  const { json, follow, nats, fileRows, stateBytes, quarantineMax, rejectedMax } = options;
  const hasBar = process.stderr.isTTY;
  return runTask(
    "ingest",
    ({ onProgress, signal }) =>
      ingest({
        ...credentialsFor(nats, options),
        ...{
          nats,
          features,
          events,
          out,
          shards: options.shards,
          follow,
          id,
          time,
          timeUnit,
          label,
          rule,
          partition,
        },
        ...{ codec, fileRows, stateBytes, quarantineMax, rejectedMax, signal },
        windowMs: Math.round(1000 * options.window),
        latenessMs: Math.round(1000 * options.lateness),
        fileSpanMs: Math.round(1000 * options.fileSpan),
        groupRows: options.rowGroup,
        values: [...(options.value ?? [])],
        columns: Object.fromEntries((options.column ?? []).map(columnOf)),
        onProgress({ finished: files, rows, read, total }) {
          onProgress?.(read, total);
          if (files.length === 0) return;
          if (json) console.log(JSON.stringify({ report: "ingest.finished", files, rows }));
          else if (!hasBar) console.error(`${files.join(", ")}: ${count(rows)} rows so far`);
        },
      }),
    (report) => {
      if (json) console.log(JSON.stringify({ report: "ingest", ...report }));
      else for (const line of linesOf(report, options)) console.log(line);
      return report.stopped && follow !== true ? exitCodes.cancelled : exitCodes.done;
    },
    (messages) => `${count(messages)} messages`,
  );
}

function columnOf(text: string): readonly [string, ColumnType] {
  const at = text.lastIndexOf("=");
  const type = text.slice(at + 1);
  if (at > 0 && Object.hasOwn(ingestColumnTypes, type)) {
    return [text.slice(0, at), type as ColumnType];
  }
  const types = Object.keys(ingestColumnTypes).join(", ");
  throw new InvalidOptionError(
    "--column",
    `Expected \`--column\` to be NAME=TYPE with one of the types ${types}, got ${text}`,
  );
}

function linesOf(report: IngestReport, { features, events }: IngestArguments): string[] {
  const { directory, files, openRows, waiting, counts, quarantine, unknownNames, stopped } = report;
  const { rows, negatives, lateFeatures, repeatedFeatures, lateEvents } = counts;
  const { matchedEvents, missedEvents, orphanEvents, unknownValues } = counts;
  const positions = `${plural(files.length, "file")} written`;
  const outcomes: [number, string][] = [
    [waiting, `messages of ${features} wait for events`],
    [lateFeatures, `late messages of ${features} left out`],
    [repeatedFeatures, `repeated messages of ${features} left out`],
    [lateEvents, `late messages of ${events} left out`],
    [missedEvents, "events after the window of their request"],
    [orphanEvents, "events without a request"],
    [unknownValues, `values left out, as there is no column for them (${unknownNames.join(", ")})`],
    [quarantine.count, "bad messages left out"],
  ];
  const open = openRows === 0 ? "" : `, ${count(openRows)} of them in the open end`;
  return [
    `${directory}: ${plural(rows, "row")}${open}; ${positions}${stopped ? "; stopped" : ""}`,
    `${count(rows - negatives)} rows with events, ${count(negatives)} without; ${count(matchedEvents)} events matched`,
    ...outcomes.filter(([value]) => value > 0).map(([value, what]) => `${count(value)} ${what}`),
    ...quarantine.kept.slice(0, 3).map(({ stream, sequence, reason }) => {
      return `  ${stream}, message ${sequence}: ${reason}`;
    }),
  ];
}
