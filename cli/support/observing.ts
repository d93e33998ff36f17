// Observability of a process: its log, as JSON lines on stderr for log collectors or as readable
// lines on a terminal; and the traces of steps.

import { type Command, Option } from "commander";
import { logOptionLevels } from "../../actors/observe/process-log.ts";
import type { ClusterOptions, LogOptions } from "../../internal.ts";
import { integerFrom } from "./arguments.ts";

export interface ObservingArguments {
  readonly logLevel?: LogOptions["level"];
  readonly traceEvery: number;
}

/** Adds `--log-level` and `--trace-every`. */
export function withObserving(command: Command): Command {
  const log = "lowest level of log lines on stderr (JSON, or text on a terminal)";
  const traces = "send a trace of every N-th step to the collector at OTEL_EXPORTER_OTLP_ENDPOINT";
  return command
    .addOption(new Option("--log-level <LEVEL>", log).choices(logOptionLevels).env("OSIRIS_LOG"))
    .addOption(
      new Option("--trace-every <N>", traces)
        .argParser(integerFrom(1))
        .default(100)
        .env("OSIRIS_TRACE_EVERY"),
    );
}

/** The log and traces that options and environment ask for; `usual` is the default log level. */
export function observingOf(
  { logLevel, traceEvery: everySteps }: ObservingArguments,
  usual: LogOptions["level"],
): Pick<ClusterOptions, "log" | "tracing"> {
  const endpoint = process.env.OTEL_EXPORTER_OTLP_ENDPOINT;
  const tracing =
    endpoint === undefined || endpoint === "" ? {} : { tracing: { endpoint, everySteps } };
  return { log: logTo(logLevel ?? usual), ...tracing };
}

/** Default log level of a service: `info` for log collectors, `warn` on a terminal. */
export const usualLevel = (): LogOptions["level"] => (process.stderr.isTTY ? "warn" : "info");

function logTo(level: LogOptions["level"]): LogOptions {
  const { stderr } = process;
  const write = (line: string) => stderr.write(`${stderr.isTTY ? readable(line) : line}\n`);
  return { level, write: (line) => void write(line) };
}

/** Fields with a fixed place at the head of a line; `forMachines` are left out of it. */
const placed = new Set(["time", "level", "message", "run", "generation", "step", "actor"]);
const forMachines = new Set(["machine", "pid", "event"]);

/** A line of JSON as people read it: `12:04:31.120 warn r1 g2 s40 device:1 what happened k=v`. */
export function readable(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>;
  const { time, level, message, run, generation, step, actor } = fields;
  const details = Object.entries(fields).flatMap(([name, value]) => {
    if (placed.has(name) || forMachines.has(name)) return [];
    return [`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`];
  });
  const head = [
    String(time).slice("2026-01-01T".length, -1),
    String(level).padEnd(5),
    run,
    generation === undefined ? undefined : `g${generation}`,
    step === undefined ? undefined : `s${step}`,
    actor,
    message,
  ];
  return [...head, ...details].filter((one) => one !== undefined).join(" ");
}
