// Frame faults in the embedded broker: frames are dropped, delayed, duplicated, reordered or
// corrupted. Without rules it costs nothing.

import type { Verdict as FrameVerdict } from "../../src/wire/broker/broker.ts";
import { matches } from "../../src/wire/messages/subjects.ts";
import type { Fault } from "./schedule.ts";

export type FrameFault =
  | Extract<Fault, { from: string }>
  | Extract<Fault, { what: "broker-forget" }>;

interface Rule {
  readonly fault: FrameFault;
  readonly delayMs: number;
  /** Called once at the end of the rule, with the number of affected frames. */
  readonly over: (hits: number) => void;
  hits: number;
}

export class FrameFaults {
  #rules: Rule[] = [];
  readonly #processOf: (client: string) => string | undefined;

  /** `processOf` maps a client's name to its process; frames of unknown clients pass unchanged. */
  constructor(processOf: (client: string) => string | undefined) {
    this.#processOf = processOf;
  }

  /** Begins a fault of frames, which ends after its number of frames or when `stop` is called. */
  begin(
    fault: FrameFault,
    options: { readonly delayMs: number; readonly over: (hits: number) => void },
  ): { stop(): void } {
    const rule: Rule = { fault, ...options, hits: 0 };
    this.#rules.push(rule);
    return { stop: () => this.#end(rule) };
  }

  /** Number of active rules. */
  get alive(): number {
    return this.#rules.length;
  }

  /** The verdict on a frame, for the broker's `intercept`. */
  verdict(from: string, subject: string, to: string): FrameVerdict {
    if (this.#rules.length === 0) return "deliver";
    const [source, target] = [this.#processOf(from), this.#processOf(to)];
    if (source === undefined || target === undefined) return "deliver";
    const rule = this.#rules.find(({ fault }) => isMeant(fault, source, subject, target));
    if (rule === undefined) return "deliver";
    rule.hits++;
    if ("frames" in rule.fault && rule.hits >= rule.fault.frames) this.#end(rule);
    return verdictOf(rule);
  }

  #end(rule: Rule): void {
    if (!this.#rules.includes(rule)) return;
    this.#rules = this.#rules.filter((one) => one !== rule);
    rule.over(rule.hits);
  }
}

function isMeant(fault: FrameFault, source: string, subject: string, target: string): boolean {
  if (fault.what === "broker-forget") return true;
  const meets = (end: string, name: string) => end === "*" || end === `process:${name}`;
  if (fault.what === "partition") {
    const isOneWay = meets(fault.from, source) && meets(fault.to, target);
    return isOneWay || (meets(fault.from, target) && meets(fault.to, source));
  }
  return matches(fault.subject, subject) && meets(fault.from, source) && meets(fault.to, target);
}

function verdictOf({ fault, delayMs }: Rule): FrameVerdict {
  switch (fault.what) {
    case "drop":
    case "partition":
    case "broker-forget":
      return "drop";
    case "delay":
      return { delayMs };
    case "duplicate":
    case "reorder":
    case "corrupt":
      return fault.what;
    default:
      return fault satisfies never;
  }
}
