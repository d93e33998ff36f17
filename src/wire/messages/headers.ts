// The headers of a frame: which ones are valid, and how many bytes they take on the wire.

import { expected } from "../../ports/check-options.ts";

/** Bytes of `headers` in a frame. They count against the largest frame. */
export function headerBytesOf(headers: Readonly<Record<string, string>> | undefined): number {
  const entries = Object.entries(headers ?? {});
  if (entries.length === 0) return 0;
  let bytes = "NATS/1.0\r\n\r\n".length;
  for (const [name, value] of entries) bytes += Buffer.byteLength(`${name}: ${value}\r\n`);
  return bytes;
}

/** The headers as they arrive: names checked, values trimmed. */
export function checkHeaders(
  headers: Readonly<Record<string, string>> | undefined,
): Readonly<Record<string, string>> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (!/^[!-9;-~]+$/.test(name)) {
      throw expected("headers", "named in visible ASCII without `:`", name);
    }
    if (/[\r\n]/.test(value)) throw expected(`headers.${name}`, "a single line", value);
    checked[name] = value.trim();
  }
  return checked;
}

/** The value of a header; the case of its name does not matter. Undefined: there is none. */
export function headerOf(
  headers: Readonly<Record<string, string>>,
  name: string,
): string | undefined {
  const wanted = name.toLowerCase();
  for (const [key, value] of Object.entries(headers)) {
    if (key.toLowerCase() === wanted) return value;
  }
  return undefined;
}
