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
      `heartbeats go every ${beatMs} ms: use a broker nearer by, or a less busy one`,
    ),
    check(
      "broker max_payload",
      payload,
      mebibytes,
      "set `max_payload` to 1 MB at least, and 8 MB at most",
    ),
    check(
      "broker ping",
      "ok",
      "this client asks every 3 s, and dials anew after 2 answers that stayed out",
    ),
    check(
      "broker JetStream",
      hasJetStream ? "ok" : "warn",
      hasJetStream ? "there" : "not there",
      "without it a lease lies in a directory that all roots see; start the server with `-js` to keep it there",
    ),
    check(
      "broker login",
      mustLogin || isLocal ? "ok" : "warn",
      mustLogin ? "needed" : "nobody is asked who he is",
      "who reaches it may submit and cancel runs: give it users or a token",
    ),
    check(
      "broker encryption",
      isEncrypted || isLocal ? "ok" : "warn",
      isEncrypted ? "TLS" : "none",
      "rows and credentials are readable on the way: use TLS",
    ),
    check(
      "broker clock",
      isAhead ? "warn" : "ok",
      isKnown ? `${ms(aheadMs)} ahead of this machine's` : "it tells no time",
      "dates of events and logs will not agree: set the clocks by NTP",
    ),
  ];
}

export function ms(value: number): string {
  return `${value.toFixed(Math.abs(value) < 10 ? 2 : 0)} ms`;
}
