// Heads of the most usual requests: a POST with a length, in plain form. What is in any other form
// is not read here, and not refused either: the whole parser of HTTP reads it. So this one may be
// strict, and need not know what other forms mean.
//
// Invariant
//   A1. A head that is read here has the same method, path, headers and body for the whole parser.

/** The head of a request. */
export interface RequestHead {
  /** Path and query. */
  readonly url: string;
  /** By name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly bodyBytes: number;
}

/** Heads beyond this are not usual. */
export const headBytesMax = 4096;
const headersMax = 64;
/** Heads that are kept: clients repeat theirs, with a few lengths of bodies. */
const knownMax = 1024;
const knownBytesMax = 1024;

const startLine = /^POST (\/[\w./:~%?=&+,@-]*) HTTP\/1\.1$/;
const headerName = /^[A-Za-z0-9-]+$/;
const headerValue = /^[\t\x20-\x7e]*$/;
/** The length with what stands before it: node takes nothing behind it. */
const bodyLength = /^ ?\d{1,9}$/;
/** Headers that change how a body or a connection is read. */
const special: ReadonlySet<string> = new Set([
  ...["expect", "http2-settings", "keep-alive", "proxy-connection", "te", "trailer"],
  ...["transfer-encoding", "upgrade"],
]);

/** The head in a text, without the empty line at its end. Undefined: it is in another form. */
export function headOf(text: string): RequestHead | undefined {
  const [first = "", ...lines] = text.split("\r\n");
  const url = startLine.exec(first)?.[1];
  if (url === undefined || lines.length > headersMax) return undefined;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    const given = line.slice(0, Math.max(colon, 0));
    const value = line.slice(colon + 1);
    if (!headerName.test(given) || !headerValue.test(value)) return undefined;
    const name = given.toLowerCase();
    if (special.has(name) || headers.has(name)) return undefined;
    if (name === "content-length" && !bodyLength.test(value)) return undefined;
    headers.set(name, value.trim());
  }
  const length = headers.get("content-length");
  if (length === undefined || !headers.get("host")) return undefined;
  if (!/^(keep-alive)?$/i.test(headers.get("connection") ?? "")) return undefined;
  return { url, headers, bodyBytes: Number(length) };
}

/** Reads heads, and knows those again that it has read. */
export class RequestHeads {
  readonly #known = new Map<string, RequestHead>();

  /** As `headOf`. */
  read(text: string): RequestHead | undefined {
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const head = headOf(text);
    if (head === undefined || text.length > knownBytesMax) return head;
    if (this.#known.size >= knownMax) this.#known.clear();
    this.#known.set(text, head);
    return head;
  }
}
