// The observer of a process: its log, and the traces of steps. Actors and threads only write to it.

import { z } from "zod";
import { RemoteError } from "../../src/errors/errors.ts";
import { type Clock, realClock } from "../../src/ports/clock.ts";
import type { Observation } from "../../src/ports/launcher.ts";
import type { Log } from "../../src/ports/log.ts";
import type { Incident } from "../runtime/incident.ts";
import type { Network } from "../runtime/mailbox.ts";
import { logIncident } from "./event-lines.ts";
import { type LogOptions, openProcessLog } from "./process-log.ts";

/** Options of the export of step traces. */
export const tracingOptions = z.strictObject({
  /** URL of a collector for OTLP over HTTP: `http://127.0.0.1:4318`. */
  endpoint: z.url({ protocol: /^https?$/ }),
  /**
   * Traces every n-th step of the runs that this process supervises, on all their hosts: the step
   * before each multiple of n. @default 100
   */
  everySteps: z.int().min(1).default(100),
});

export interface Observer {
  readonly log: Log;
  readonly tracedEvery: number | undefined;
  /** Takes an observation of a thread, except reports of refused frames: see `observing`. */
  observe(observation: Observation): void;
  /** Reports a failure that belongs to no run, and logs it. */
  incident(incident: Incident): void;
  /** Exports the remaining traces. */
  close(): Promise<void>;
}

/**
 * The handler of observations of a process's threads: counts refused frames, and passes the rest
 * on.
 */
export function observing(
  observer: Observer,
  network: Pick<Network, "onCorrupt">,
): (observation: Observation) => void {
  return (observation) => {
    if ("refused" in observation) network.onCorrupt(new RemoteError(observation.refused));
    else observer.observe(observation);
  };
}

/** Opens the observer. `secrets`: credentials of this process, which are redacted. */
export async function openObserver(
  options: {
    readonly log: LogOptions | undefined;
    readonly tracing: z.output<typeof tracingOptions> | undefined;
  },
  secrets: readonly (string | undefined)[],
  onIncident: (incident: Incident) => void,
  clock: Clock = realClock,
): Promise<Observer> {
  const { tracing } = options;
  const log = await openProcessLog(options.log, secrets);
  const traces = tracing && (await import("./trace-export.ts")).openTraceExport(tracing.endpoint);
  const logRefused = refusedLines(log, clock);
  return {
    log,
    tracedEvery: tracing?.everySteps,
    observe(observation) {
      if ("traced" in observation) traces?.take(observation.traced);
      else if ("line" in observation)
        log.write(observation.line.level, observation.line.message, observation.line.fields);
    },
    incident(incident) {
      if (incident.reason.code === "FRAME_CORRUPT") logRefused(incident);
      else logIncident(log, incident);
      onIncident(incident);
    },
    close: async () => traces?.close(),
  };
}

/** Most log lines per second about refused frames: a hostile sender must not fill the disk. */
const refusedLinesMax = 10;

/**
 * Writes at most `refusedLinesMax` lines per second, then a line with the number of omitted ones.
 */
function refusedLines(log: Log, clock: Clock): (incident: Incident) => void {
  let untilMs = Number.NEGATIVE_INFINITY;
  let lines = 0;
  return (incident) => {
    if (clock.now() >= untilMs) {
      const leftOut = lines - refusedLinesMax;
      if (leftOut > 0) log.write("warn", `${leftOut} more frames were refused`, { actor: "wire" });
      lines = 0;
      untilMs = clock.now() + 1000;
    }
    if (lines++ < refusedLinesMax) logIncident(log, incident);
  };
}
