// Parser for heads of the most common requests: a plain POST with a content length. Any other form
// is neither parsed nor refused here, but left to the full HTTP parser. So this parser may be
// strict, and need not know what other forms mean.
//
// Invariant
//   A1. A head that is accepted here has the same method, path, headers and body for the full
//       parser.

/** The head of a request. */
export interface RequestHead {
  /** Path and query. */
  readonly url: string;
  /** Headers by name in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly bodyBytes: number;
}

/** Longer heads are left to the full parser. */
export const headBytesMax = 4096;
const headersMax = 64;
/** Cached heads: clients repeat theirs, with a few different body lengths. */
const knownMax = 1024;
const knownBytesMax = 1024;

const startLine = /^POST (\/[\w./:~%?=&+,@-]*) HTTP\/1\.1$/;
const headerName = /^[A-Za-z0-9-]+$/;
const headerValue = /^[\t\x20-\x7e]*$/;
/** A content length with at most one blank before it: node allows nothing after it. */
const bodyLength = /^ ?\d{1,9}$/;
/** Headers that change how a body or a connection is read. */
const special: ReadonlySet<string> = new Set([
  ...["expect", "http2-settings", "keep-alive", "proxy-connection", "te", "trailer"],
  ...["transfer-encoding", "upgrade"],
]);

/** Parses a head, given without the empty line at its end. Undefined: it has another form. */
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

/** Parses heads, with a cache. */
export class RequestHeads {
  readonly #known = new Map<string, RequestHead>();

  /** As `headOf`, from the cache if possible. */
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
