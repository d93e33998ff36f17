// Follows the direct links of a generation in the heartbeats of its hosts. Publishes run.link when
// frames between hosts change their way, and run.alert where clocks are apart. Pure functions.

import type { LinkReport } from "../../../src/wire/messages/fields.ts";
import type { EventBody } from "./run-events.ts";

/** The links of each host, as it last reported them, and what was published. */
export interface LinkWatch {
  readonly latest: ReadonlyMap<number, LinkReport>;
  readonly published: string;
  /** Hosts whose clocks were reported. */
  readonly apart: ReadonlySet<number>;
}

export const noLinks: LinkWatch = { latest: new Map(), published: "", apart: new Set() };

/** Most reasons in an event. */
const reasonsMax = 8;

/** Takes the report of one of `hosts` hosts. Returns the events to publish. */
export function withLinks(
  watch: LinkWatch,
  host: number,
  report: LinkReport,
  { hosts, step }: { readonly hosts: number; readonly step: number },
): { readonly watch: LinkWatch; readonly events: readonly EventBody[] } {
  const latest = new Map(watch.latest).set(host, report);
  const events: EventBody[] = [];
  const apart = new Set(watch.apart);
  if (report.apart !== undefined && !apart.has(host)) {
    const { host: other, seconds } = report.apart;
    const ahead = `${Math.abs(seconds).toFixed(1)} s ${seconds > 0 ? "ahead" : "behind"}`;
    const message =
      `The clock of ${other} is ${ahead} of host:${host}'s: times in logs and traces of the two ` +
      "cannot be compared; synchronise the clocks (NTP)";
    events.push({ type: "run.alert", code: "CLOCKS_APART", step, message });
    apart.add(host);
  }
  const all = [...latest.values()];
  const sum = (of: "direct" | "broker") => all.reduce((total, own) => total + own[of], 0);
  const reasons = [...latest]
    .flatMap(([from, own]) => own.reasons.map((one) => ({ from: `host:${from}`, ...one })))
    .slice(0, reasonsMax);
  const state = { direct: sum("direct"), broker: sum("broker"), reasons };
  const published = JSON.stringify(state);
  const isNews = published !== watch.published && latest.size === hosts;
  if (isNews) events.push({ type: "run.link", ...state });
  return { watch: { latest, published: isNews ? published : watch.published, apart }, events };
}
