// Incidents for people: the first cause, the failures that followed, the actions and the end.

import type { IncidentRecord, RunEvent } from "../../internal.ts";
import { count, duration, plural } from "../support/format.ts";

export function incidentLines(incident: IncidentRecord): string[] {
  const { error, waits = [], followed, actions } = incident;
  const after = (ms: number) => `   +${(ms / 1000).toFixed(2)} s`.padEnd(12);
  const neighbours = waits.map(({ waiter, awaited, what, forMs }) => {
    return `   ${waiter} had waited ${duration(forMs / 1000)} for ${what} (${awaited})`;
  });
  return [
    `Incident ${incident.incident}, ${incident.at}: ${incident.offender} failed ${whereOf(incident)}`,
    `   ${error.code}: ${error.message}`,
    ...neighbours,
    ...followed.map((one) => `${after(one.afterMs)}${one.actor} failed by it: ${one.message}`),
    ...actions.map(({ by, did, afterMs }) => `${after(afterMs)}${by} ${did}`),
    `   ${endOf(incident)}`,
  ];
}

function whereOf({ step, batch, host, context, generation, noticedBy }: IncidentRecord): string {
  const parts = [
    ...(generation === 0 ? [] : [`in generation ${generation}`]),
    ...(step === undefined ? [] : [`after step ${count(step)}`]),
    ...(batch === undefined ? [] : [`at batch ${count(batch.index)} of epoch ${batch.pass}`]),
    ...(host === undefined ? [] : [`on host:${host}`]),
    `doing: ${context}`,
    ...(noticedBy === undefined ? [] : [`noticed by ${noticedBy}`]),
  ];
  return parts.join(", ");
}

/** The line of updates that asynchronous training lost. */
export function lostLine({ actor, from, updates }: RunEvent & { type: "run.lost" }): string {
  const lost = updates === 0 ? "" : `; ${plural(updates, "update")} since then lost`;
  return `  ${actor} continues from the ${from}${lost}; the others trained on`;
}

/** How an incident ended; "lasts" for an open one. */
export function endOf({ end }: Pick<IncidentRecord, "end">): string {
  if (end === undefined) return "lasts";
  const { how, generation, step, afterMs } = end;
  const when = `after ${duration(afterMs / 1000)}`;
  if (how === "failed") return `the run ended by it ${when}`;
  if (how === "mended") return "mended without a restore";
  return `restored at generation ${generation}, step ${count(step)}, ${when}`;
}
