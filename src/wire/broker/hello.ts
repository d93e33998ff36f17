// The fields of a client's CONNECT that the broker knows; other fields are ignored.

import { z } from "zod";

const flag = z.boolean().nullish();
const text = z.string().nullish();

const hello = z.object({
  verbose: flag,
  pedantic: flag,
  echo: flag,
  headers: flag,
  no_responders: flag,
  protocol: z.number().nullish(),
  name: text,
  user: text,
  pass: text,
  auth_token: text,
});

type Given = z.output<typeof hello>;

export type Hello = { readonly [Field in keyof Given]-?: NonNullable<Given[Field]> };

/** The credentials that a client sends. */
export type Login = Pick<Hello, "user" | "pass" | "auth_token">;

/** A client before its CONNECT: verbose and pedantic, as a NATS server takes it to be. */
export const noHello: Hello = {
  verbose: true,
  pedantic: true,
  echo: true,
  headers: false,
  no_responders: false,
  protocol: 0,
  name: "",
  user: "",
  pass: "",
  auth_token: "",
};

/**
 * Applies a CONNECT to a client's settings. As in nats-server, a field that is left out or null
 * keeps its value. Undefined: the text is not a JSON object, or a field has the wrong type.
 */
export function helloOf(json: string, before: Hello): Hello | undefined {
  try {
    const given: unknown = JSON.parse(Buffer.from(json, "latin1").toString("utf8"));
    const fields = Object.entries(hello.parse(given ?? {}));
    const set = fields.filter(([, value]) => value !== null && value !== undefined);
    return { ...before, ...Object.fromEntries(set) };
  } catch {
    return undefined;
  }
}
