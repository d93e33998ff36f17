// The doctor's findings: one line per check, and the pure evaluation of a broker's probe.

import { beatMs } from "../../src/ports/deadlines.ts";
import type { ServerProbe } from "../../src/wire/transports/probe.ts";

/** The result of one check. */
export interface Check {
  readonly name: string;
  /** `warn`: a run would work, but perhaps not well. `fail`: a run would fail. */
  readonly state: "ok" | "warn" | "fail";
  /** The finding, as text. */
  readonly found: string;
  /** Advice, unless the state is `ok`. */
  readonly advice?: string | undefined;
}

/** Makes a check; `advice` is dropped if the state is `ok`. */
export function check(name: string, state: Check["state"], found: string, advice?: string): Check {
  return { name, state, found, ...(state === "ok" || advice === undefined ? {} : { advice }) };
}

/** Compares a value with its thresholds: `fail` or `warn` if it reaches one, else `ok`. */
export function judged(value: number, { warn, fail }: { warn: number; fail: number }) {
  if (value >= fail) return "fail" as const;
  return value >= warn ? ("warn" as const) : ("ok" as const);
}

/** Largest message of a run except frames of the exchange: a generation spec, a result. */
const payloadBytesMin = 256 * 1024;
const usualPayloadBytes = 2 ** 20;
/** Above this, memory is at risk: a server holds a whole payload in memory for each connection. */
const largePayloadBytes = 8 * 2 ** 20;
/** A round trip that is negligible for heartbeats. */
const roundTripMsUsual = 25;
const aheadMsMax = 1000;

/** Evaluates the probe of a broker. */
export function brokerChecks(probe: ServerProbe): Check[] {
  const { address, version, roundTripMs, payloadBytesMax, hasJetStream, isLocal } = probe;
  const { mustLogin, isEncrypted, aheadMs, connectMs } = probe;
  const mebibytes = `${(payloadBytesMax / 2 ** 20).toFixed(2)} MiB`;
  const payload =
    payloadBytesMax < payloadBytesMin
      ? "fail"
      : payloadBytesMax < usualPayloadBytes || payloadBytesMax > largePayloadBytes
        ? "warn"
        : "ok";
  const trip = judged(roundTripMs, { warn: roundTripMsUsual, fail: beatMs });
  const isKnown = aheadMs !== undefined;
  const isAhead = isKnown && Math.abs(aheadMs) > aheadMsMax;
  return [
    check("broker", "ok", `${address}, version ${version}, connected in ${ms(connectMs)}`),
    check(
      "broker round trip",
      trip,
      ms(roundTripMs),
      `heartbeats are sent every ${beatMs} ms: use a nearer or a less busy broker`,
    ),
    check(
      "broker max_payload",
      payload,
      mebibytes,
      "set `max_payload` to a size between 1 MB and 8 MB",
    ),
    check(
      "broker ping",
      "ok",
      "the client sends a ping every 3 s, and reconnects after 2 pings without an answer",
    ),
    check(
      "broker JetStream",
      hasJetStream ? "ok" : "warn",
      hasJetStream ? "available" : "not available",
      "leases and copies of runs need a shared directory instead: start the server with `-js`",
    ),
    check(
      "broker login",
      mustLogin || isLocal ? "ok" : "warn",
      mustLogin ? "required" : "not required",
      "anybody who reaches the broker can submit and cancel runs: configure users or a token",
    ),
    check(
      "broker encryption",
      isEncrypted || isLocal ? "ok" : "warn",
      isEncrypted ? "TLS" : "none",
      "rows and credentials are readable on the network: use TLS",
    ),
    check(
      "broker clock",
      isAhead ? "warn" : "ok",
      isKnown ? `${ms(aheadMs)} ahead of this machine's` : "the server does not report its time",
      "dates of events and logs will disagree: synchronise the clocks by NTP",
    ),
  ];
}

export function ms(value: number): string {
  return `${value.toFixed(Math.abs(value) < 10 ? 2 : 0)} ms`;
}
