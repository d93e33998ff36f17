// Log lines of a run's events, and of failures that a process's supervisors repaired.

import type { Log, LogLevel } from "../../src/ports/log.ts";
import type { RunEvent } from "../run/state/run-events.ts";
import type { Incident } from "../runtime/incident.ts";

/** Levels of events; events that are not listed are `info`. Frequent events are `debug`. */
const levels: Readonly<Partial<Record<RunEvent["type"], LogLevel>>> = {
  "run.preparing": "debug",
  "run.replanned": "debug",
  "run.workers": "debug",
  "run.progress": "debug",
  "run.alert": "warn",
  "run.cache": "warn",
  "run.damaged": "warn",
  "run.lost": "warn",
  "run.draining": "warn",
  "run.straggler": "warn",
  "run.incident": "warn",
  "run.failed": "error",
};

/**
 * The usual level of an event type; for some types, the level of a line also depends on the event.
 */
export function levelOf(type: RunEvent["type"]): LogLevel {
  return levels[type] ?? "info";
}

/** Writes the line of an event. */
export function logEvent(log: Log, event: RunEvent): void {
  const { type, run, generation } = event;
  const about = { run, ...(generation === 0 ? {} : { generation }), actor: actorOf(event) };
  log.write(pressing(event), messageOf(event), { ...about, ...detailsOf(event), event: type });
}

function pressing(event: RunEvent): LogLevel {
  if (event.type === "run.tier" && event.state !== "serving") return "warn";
  if (event.type === "run.link" && event.broker > 0) return "warn";
  // The user requested it.
  if (event.type === "run.failed" && event.error.code === "RUN_CANCELLED") return "info";
  return levelOf(event.type);
}

/** Logs a failure that belongs to no run. */
export function logIncident(log: Log, incident: Incident): void {
  const { offender, supervisor, context, reason } = incident;
  const { code, cause } = reason;
  const fields = { actor: offender, supervisor, context, code, cause };
  log.write("warn", `${offender} failed: ${reason.message}`, fields);
}

function actorOf(event: RunEvent): string {
  if (event.type === "run.incident") return event.offender;
  if (event.type === "run.tier" || event.type === "run.durable") return `tier:${event.device}`;
  if (event.type === "run.drained") return `reader:${event.reader}`;
  return event.type === "run.straggler" ? `device:${event.device}` : "coordinator:0";
}

function messageOf(event: RunEvent): string {
  switch (event.type) {
    case "run.incident":
      return `${event.offender} failed: ${event.error.message}`;
    case "run.failed":
      return event.error.message;
    case "run.damaged":
      return damagedLine(event);
    case "run.cache":
      return `the data cache ${event.path} was damaged (${event.reason}) and was rebuilt`;
    case "run.alert":
    case "run.tier":
      return event.message;
    default:
      return event.type.slice("run.".length);
  }
}

/** The message about a damaged checkpoint that was skipped. */
export function damagedLine({ path, kept, reason }: RunEvent & { type: "run.damaged" }): string {
  const aside = kept === null ? "" : `; it is kept as ${kept}`;
  return `the checkpoint at ${path} is damaged (${reason}) and was skipped${aside}`;
}

/**
 * The fields of an event for its log line, without curves and without the content of the message.
 */
function detailsOf(event: RunEvent): Readonly<Record<string, unknown>> {
  const { type: _type, run: _run, generation: _generation, seq: _seq, ...body } = event;
  if (event.type === "run.finished") {
    // The times are logged for reports of the directory after the cluster has forgotten the run.
    const { status, step, digest, auc, samplesPerSecond, times } = event.result;
    return { status, step, digest, auc, samplesPerSecond, times };
  }
  if (event.type === "run.incident") {
    const { incident, step, host, noticedBy, supervisor, context, error } = event;
    const where = { step, host, noticedBy, supervisor, context };
    return { incident, ...where, code: error.code, cause: error.cause };
  }
  if (event.type === "run.recovered") {
    return { ...body, incidents: event.incidents.map(({ incident }) => incident) };
  }
  if (event.type === "run.failed") return { code: event.error.code, cause: event.error.cause };
  return Object.fromEntries(
    Object.entries(body).filter(([name]) => !["tiers", "times", "message"].includes(name)),
  );
}
