// Messages: a catalogue defines and encodes them, and checks every incoming frame.
//
// A message on the wire is a msgpack list:
//
//   [ version, type, run, generation, from, body ]
//      1        "device.grant", "r7", 4, "coordinator:0", { fromStep: 0, toStep: 200 }

import { z } from "zod";
import { FrameCorruptError } from "../../errors/errors.ts";
import { decodeValue, encodeValue } from "./body.ts";
import type { Frame } from "./transport.ts";

/** The version of the envelope. Frames of another version are refused. */
export const envelopeVersion = 1;

/** The messages of a catalogue: the type, as `actor.action`, and the schema of the body. */
export type Schemas = Readonly<Record<string, z.ZodType>>;

/** A decoded frame: its sender, its run and generation, and its body. */
export interface Message<Type extends string, Body> {
  readonly type: Type;
  readonly run: string;
  /** A receiver drops the message if this is not its own generation. */
  readonly generation: number;
  /** The sender, as `role:index`. */
  readonly from: string;
  readonly body: Body;
}

/** Any message of a catalogue, as `decode` returns it. A switch on `type` narrows `body`. */
export type MessageOf<Catalogue extends Schemas> = {
  [Type in keyof Catalogue & string]: Message<Type, z.output<Catalogue[Type]>>;
}[keyof Catalogue & string];

/** Any message of a catalogue, as `encode` takes it: defaults of the body may be left out. */
export type OutgoingOf<Catalogue extends Schemas> = {
  [Type in keyof Catalogue & string]: Message<Type, z.input<Catalogue[Type]>>;
}[keyof Catalogue & string];

export interface MessageCatalogue<Catalogue extends Schemas> {
  readonly schemas: Catalogue;
  /** The payload of a message. The caller owns it. */
  encode(message: OutgoingOf<Catalogue>): Uint8Array;
  /** The message in a frame, its body checked. @throws FrameCorruptError */
  decode(frame: Pick<Frame, "subject" | "payload">): MessageOf<Catalogue>;
}

/** A catalogue of messages. */
export function defineMessages<const Catalogue extends Schemas>(
  schemas: Catalogue,
): MessageCatalogue<Catalogue> {
  return {
    schemas,
    encode: ({ type, run, generation, from, body }) =>
      encodeValue([envelopeVersion, type, run, generation, from, body]),
    decode: ({ subject, payload }) => {
      const [type, run, generation, from, content] = openEnvelope(subject, payload);
      const schema = Object.hasOwn(schemas, type) ? schemas[type] : undefined;
      if (schema === undefined) {
        throw new FrameCorruptError(subject, `there is no message \`${type}\``);
      }
      const body = check(subject, `the body of \`${type}\``, schema, content);
      // The pair (type, body) was checked against the catalogue just above.
      return { type, run, generation, from, body } as MessageOf<Catalogue>;
    },
  };
}

const envelope = z.tuple([
  z.string().max(128),
  z.string().max(128),
  z.int().min(0),
  z.string().max(128),
  z.unknown(),
]);

function openEnvelope(subject: string, payload: Uint8Array): z.output<typeof envelope> {
  const value = decodeValue(subject, payload);
  if (!Array.isArray(value)) throw new FrameCorruptError(subject, "it is not an envelope");
  const [version, ...rest] = value;
  if (version !== envelopeVersion) {
    const given = typeof version === "number" ? version : `a ${typeof version}`;
    const reason = `expected version ${envelopeVersion} of the envelope, got ${given}`;
    throw new FrameCorruptError(subject, reason);
  }
  return check(subject, "the envelope", envelope, rest);
}

function check<Schema extends z.ZodType>(
  subject: string,
  what: string,
  schema: Schema,
  value: unknown,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? "" : ` at ${issue.path.join(".")}`;
  const reason = `${what}${where}: ${issue?.message ?? "invalid"}`;
  throw new FrameCorruptError(subject, reason, { cause: result.error });
}
