// Forgeries: frames of a cluster, each with one thing made wrong, and some replayed unchanged. The
// same draws and the same recorded frames give the same forgeries.

import { decode, encode } from "@msgpack/msgpack";
import type { RandomStream } from "../../../src/ports/random.ts";
import { messages } from "../../../src/wire/messages/messages.ts";
import { parseSubject, roles, subjectOf } from "../../../src/wire/messages/subjects.ts";
import { drawsOf, type HostileFrame, hostileFrame, hostileValue, oneOf } from "./hostile.ts";

export interface Forgery extends HostileFrame {
  readonly subject: string;
  readonly wrong: string;
}

/** The frame is valid, and replayed. */
export const saidAgain = "said again";

type Heard = HostileFrame & { readonly subject: string };
type Scope = { readonly cluster: string; readonly run: string; readonly generation: number };

/** The most frames recorded per role and action: the first ones and the latest ones. */
const rememberedMax = 40;

/** The frames received on the subjects of actors. */
export class Overheard {
  readonly #frames = new Map<string, Heard[]>();

  hear(frame: Heard): void {
    const to = parseSubject(frame.subject);
    if (to === undefined) return;
    const name = `${to.role} ${to.action}`;
    const list = this.#frames.get(name) ?? [];
    if (list.length >= rememberedMax) list.splice(rememberedMax / 2, 1);
    this.#frames.set(name, [...list, frame]);
  }

  /** The recorded actions of all roles: `device device-run`. */
  get names(): readonly string[] {
    return [...this.#frames.keys()].sort();
  }

  /** Draws a frame for this role in this generation, or else in any generation. */
  draw(stream: RandomStream, role: string | undefined, scope: Scope): Heard | undefined {
    const names = this.names.filter((name) => role === undefined || name.startsWith(`${role} `));
    if (names.length === 0) return undefined;
    const all = this.#frames.get(oneOf(stream, names)) ?? [];
    const { run, generation } = scope;
    const own = all.filter(({ subject }) => subject.includes(`.${run}.${generation}.`));
    return oneOf(stream, own.length > 0 ? own : all);
  }
}

/** Makes forgery `index`: to any role, of this generation or of the cluster. */
export function forgeryOf(index: number, overheard: Overheard, scope: Scope): Forgery | undefined {
  const stream = drawsOf(index);
  const role = oneOf(stream, roles);
  const heard = overheard.draw(stream, role, scope);
  if (heard === undefined) return misdirected(stream, role, overheard, scope);
  const isMessage = role !== "frames" && role !== "copies";
  const makers = [...ofFrames, ...(isMessage ? ofMessages : role === "frames" ? ofExchange : [])];
  const { subject, payload, headers } = heard;
  // Removes the checksum unless the checksum is the fault, so that checks after the wire's find the
  // fault.
  const { "osiris-crc": _, ...others } = headers;
  const forged = oneOf(stream, makers)({ stream, heard: { subject, payload, headers: others } });
  if (forged?.wrong === saidAgain || forged?.wrong === "one byte") {
    return { subject, payload: forged.payload ?? payload, headers, wrong: forged.wrong };
  }
  return forged && { subject, payload, headers: others, ...forged };
}

interface Making {
  readonly stream: RandomStream;
  readonly heard: Heard;
}
type Maker = (making: Making) => (Partial<Heard> & { readonly wrong: string }) | undefined;

const ofFrames: readonly Maker[] = [
  () => ({ wrong: saidAgain }),
  ({ stream, heard: { payload } }) => {
    if (payload.length === 0) return undefined;
    const bytes = Uint8Array.from(payload);
    const at = stream.below(bytes.length);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << stream.below(8));
    return { payload: bytes, wrong: "one byte" };
  },
  ({ stream, heard: { payload } }) =>
    payload.length === 0
      ? undefined
      : { payload: payload.subarray(0, stream.below(payload.length)), wrong: "cut short" },
  ({ stream, heard: { payload } }) => {
    const bytes = stream.below(20) === 0 ? 900_000 : 1 + stream.below(100);
    const room = new Uint8Array(payload.length + bytes).fill(0x5b);
    room.set(payload);
    return { payload: room, wrong: "too long" };
  },
  ({ stream }) => {
    const frame = hostileFrame(stream, { run: "r1" });
    return { ...frame, wrong: "anything" };
  },
];

/** Frames of another generation, or of a host outside this generation. */
const ofExchange: readonly Maker[] = [
  ({ stream, heard: { headers } }) => {
    const [generation, from, sequence] = (headers["osiris-frame"] ?? "").split(" ").map(Number);
    const other = [
      [2 ** 40, from, sequence],
      [generation, 7, sequence],
    ];
    return {
      headers: { ...headers, "osiris-frame": oneOf(stream, other).join(" ") },
      wrong: "the sender",
    };
  },
];

type Envelope = [version: number, type: string, run: string, generation: number, ...unknown[]];

/** Makes a frame with a changed envelope. */
function enveloped(change: (envelope: Envelope, stream: RandomStream) => unknown): Maker {
  return ({ stream, heard: { payload } }) => {
    const envelope = decode(payload) as Envelope;
    const changed = change(envelope, stream);
    return changed === undefined
      ? undefined
      : { payload: encode(changed, { ignoreUndefined: true }), wrong: "the envelope" };
  };
}

const ofMessages: readonly Maker[] = [
  enveloped(([_, ...rest]) => [2, ...rest]),
  enveloped(([version, type, run, generation, ...rest], stream) => {
    const other = oneOf(stream, [generation + 1, Math.abs(generation - 1), 2 ** 40, -1, 0.5]);
    return [version, type, run, other, ...rest];
  }),
  enveloped(([version, type, run, ...rest], stream) => {
    return [version, type, oneOf(stream, [`${run}0`, "", "cluster ", "*", "__proto__"]), ...rest];
  }),
  enveloped(([version, _, ...rest], stream) => {
    return [version, oneOf(stream, ["chaos.throw", "host.none", "toString"]), ...rest];
  }),
  enveloped((envelope) => envelope.slice(0, -1)),
  // A body field with a value that its schema refuses, or a required field removed.
  enveloped(([version, type, run, generation, from, body], stream) => {
    const fields = Object.entries(body as Record<string, unknown>);
    const [name] = fields[stream.below(Math.max(1, fields.length))] ?? [];
    if (name === undefined) return undefined;
    const value = oneOf(stream, [hostileValue(stream, 30), undefined, -1, 0.5, 2 ** 60, {}, "x"]);
    const wrong = { ...(body as object), [name]: value };
    const schema = messages.schemas[type as keyof typeof messages.schemas];
    if (schema.safeParse(wrong).success) return undefined;
    return [version, type, run, generation, from, wrong];
  }),
  // To another action, generation or run, for receivers of all subjects.
  ({ stream, heard: { subject } }) => {
    const to = parseSubject(subject);
    if (to === undefined) return undefined;
    const action = oneOf(stream, ["device-run", "chaos-throw", "x"]);
    const other = oneOf(stream, [
      { ...to, action: action === to.action ? "x" : action },
      { ...to, generation: to.generation + 1 },
      { ...to, run: `${to.run}0` },
    ]);
    return { subject: subjectOf(other), wrong: "the subject" };
  },
];

/** A message recorded for another role, sent to a role that accepts no such message. */
function misdirected(
  stream: RandomStream,
  role: (typeof roles)[number],
  overheard: Overheard,
  scope: Scope,
): Forgery | undefined {
  const heard = overheard.draw(stream, undefined, scope);
  if (heard === undefined) return undefined;
  const isOfRun = stream.below(2) === 0;
  const { cluster } = scope;
  const own = isOfRun ? scope : { cluster, run: "cluster", generation: 0 };
  const action = parseSubject(heard.subject)?.action ?? "x";
  const subject = subjectOf({ ...own, role, index: stream.below(2), action });
  const { payload, headers } = heard;
  return { subject, payload, headers, wrong: "who it came to" };
}
