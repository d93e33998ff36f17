// The data of a report: for a run that a cluster remembers, all its events; for a run that is only
// on disk, its checkpoints and log.

import { arch, cpus, release, type as systemType } from "node:os";
import {
  CheckpointMissingError,
  type ColumnSlices,
  listCheckpoints,
  packageVersion,
  type Run,
  readRunLog,
  realClock,
  runHistory,
  type StepTimes,
  shownOptions,
  stepTimes,
} from "../../../internal.ts";
import { jobOfCheckpoint } from "../../formats/index.ts";
import { thinned } from "./page-answers.ts";
import type { ReportData } from "./page-api.ts";
import { reportText } from "./page-files.ts";

const urgent: ReadonlySet<unknown> = new Set(["warn", "error", "fatal"]);

/**
 * Makes the report of a cluster's run, running or over, as one HTML file.
 * @throws RemoteError if the cluster does not know the run, InputUnusableError
 */
export async function reportOfRun(run: Run): Promise<string> {
  const { name, directory, options } = await run.status();
  const events = [];
  for await (const event of run.past()) events.push({ event });
  const started = events.findLast(({ event }) => event.type === "run.started")?.event;
  const computed = started?.type === "run.started" ? started : undefined;
  return reportText({
    ...{ run: run.run, name, madeAt: realClock.date().toISOString() },
    events: thinned(events).events,
    options,
    environment: environmentOf(computed, directory),
  });
}

/**
 * Makes the report of the run in a checkpoint directory, as one HTML file. `slices`: metrics of its
 * model by the values of columns (`sliceMetrics`), to be included.
 * @throws CheckpointMissingError, CheckpointCorruptError, InputUnusableError
 */
export function reportOfDirectory(
  directory: string,
  { slices }: { readonly slices?: readonly ColumnSlices[] | undefined } = {},
): string {
  const [newest] = listCheckpoints(directory).checkpoints;
  if (newest === undefined) throw new CheckpointMissingError(directory);
  const { run, cut: step, digest, arithmetic, generation } = newest;
  const log = readRunLog(directory, { run }).lines;
  const lines = log.flatMap(({ time, level, message }) =>
    urgent.has(level) ? [{ at: String(time), level: String(level), text: String(message) }] : [],
  );
  const times = timesIn(log);
  const history = runHistory(directory);
  const job = jobOfCheckpoint(directory);
  const data: ReportData = {
    ...{ run, name: job.name, madeAt: realClock.date().toISOString() },
    events: [],
    options: shownOptions(job),
    kept: { directory, step, digest, arithmetic, generation, history, lines, times },
    slices,
    environment: environmentOf(newest, directory),
  };
  return reportText(data);
}

/**
 * The time breakdown at the run's last end; undefined: it has not ended, or its log does not
 * contain one.
 */
function timesIn(log: readonly Readonly<Record<string, unknown>>[]): StepTimes | undefined {
  const ended = log.findLast(({ event, times }) => event === "run.finished" && times !== undefined);
  return stepTimes.safeParse(ended?.times).data;
}

/**
 * The environment; the machine is the one that makes the report, as hosts of the run may differ.
 */
function environmentOf(
  computed:
    | { readonly arithmetic: string; readonly sets?: readonly string[] | undefined }
    | undefined,
  directory: string,
): [string, string][] {
  return [
    ["Osiris", packageVersion()],
    ["Arithmetic", computed?.arithmetic ?? "none yet"],
    ["Instruction sets", computed?.sets?.join(", ") || "not recorded"],
    ["Checkpoints", directory],
    [
      "Report made on",
      `${systemType()} ${release()} ${arch()}, ${cpus()[0]?.model ?? "a processor"}`,
    ],
    ["Node", process.version],
  ];
}
