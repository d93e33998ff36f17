// The broker's parser of the NATS client protocol: bytes in, commands out, wherever TCP cuts the
// bytes.
//
//   CONNECT {json}   PUB subject [reply] bytes   HPUB subject [reply] headerBytes bytes
//   SUB subject [queue] sid   UNSUB sid [max]   PING   PONG        each line ends with CR LF
//
// Text is decoded as Latin-1, one character per byte, so that subjects in any encoding are
// forwarded unchanged.
//
// Invariants
//   P1. At most one control line and one payload are held, both within their limits.
//   P2. Bytes of an unknown client never throw: they are a violation, and the parser stops.
//   P3. A payload that arrived in one piece is a view of it; a payload in pieces is copied together
//       once.

/** Receives a parser's commands. A verb is refused before its payload is read. */
export interface CommandSink {
  /** Why this client may not use this verb now. A reason stops the parser. */
  refusalOf(verb: string): Violation | undefined;
  connect(json: string): void;
  /** `message` is the headers, `headerBytes` long, and the payload. The sink may keep it. */
  publish(command: Publication): void;
  subscribe(pattern: string, queue: string | undefined, sid: string): void;
  /** `max`: end only after this many frames, counted from the subscription's beginning. */
  unsubscribe(sid: string, max: number | undefined): void;
  ping(): void;
  pong(): void;
}

export interface Publication {
  readonly subject: string;
  readonly reply: string | undefined;
  readonly message: Buffer;
  readonly headerBytes: number;
}

export interface ParserLimits {
  readonly controlLineBytesMax: number;
  readonly payloadBytesMax: number;
}

/** Why a client is disconnected, in the words and the spelling of a nats-server. */
export type Violation =
  | "Unknown Protocol Operation"
  /** A known verb with the wrong words. A nats-server closes without this line. */
  | "Parser Error"
  | "maximum control line exceeded"
  | "Maximum Payload Violation"
  | "Authorization Violation"
  | "message headers not supported";

const newline = 0x0a;
const carriageReturn = 0x0d;
const nothing = Buffer.alloc(0);

interface Awaited {
  readonly subject: string;
  readonly reply: string | undefined;
  readonly headerBytes: number;
  readonly messageBytes: number;
}

/** The parser of one connection. */
export class ProtocolParser {
  readonly #sink: CommandSink;
  readonly #limits: ParserLimits;
  /** The beginning of an unfinished control line. */
  #line: Buffer = nothing;
  /** The publication with an unfinished payload. */
  #awaited: Awaited | undefined;
  /** The unfinished payload, with CR LF, where it comes in pieces. */
  #pieces: Buffer | undefined;
  #piecesBytes = 0;
  #isStopped = false;

  constructor(sink: CommandSink, limits: ParserLimits) {
    this.#sink = sink;
    this.#limits = limits;
  }

  /** Parses the next bytes. Returns the violation that disconnects the client, if there is one. */
  push(chunk: Buffer): Violation | undefined {
    let at = 0;
    while (at < chunk.length && !this.#isStopped) {
      const next = this.#awaited === undefined ? this.#takeLine(chunk, at) : this.#take(chunk, at);
      if (typeof next === "string") {
        this.stop();
        return next;
      }
      at = next;
    }
    return undefined;
  }

  /** Drops held bytes and ignores further ones. */
  stop(): void {
    this.#isStopped = true;
    this.#line = nothing;
    this.#pieces = undefined;
  }

  #takeLine(chunk: Buffer, at: number): number | Violation {
    const end = chunk.indexOf(newline, at);
    const rest = chunk.subarray(at, end < 0 ? chunk.length : end);
    if (this.#line.length + rest.length > this.#limits.controlLineBytesMax) {
      return "maximum control line exceeded"; // P1
    }
    if (end < 0) {
      this.#line = Buffer.concat([this.#line, rest]);
      return chunk.length;
    }
    const bytes = this.#line.length === 0 ? rest : Buffer.concat([this.#line, rest]);
    this.#line = nothing;
    const hasReturn = bytes[bytes.length - 1] === carriageReturn;
    const line = bytes.toString("latin1", 0, bytes.length - (hasReturn ? 1 : 0));
    return this.#command(line) ?? end + 1;
  }

  #command(line: string): Violation | undefined {
    const [, word = "", text = ""] = /^([A-Za-z]*)[ \t]*(.*)$/s.exec(line) ?? [];
    const verb = word.toUpperCase();
    const refusal = this.#sink.refusalOf(verb);
    if (refusal !== undefined) return refusal;
    // Blank and tab only: in UTF-8 a character may end with the byte of a Latin-1 blank.
    const words = text.split(/[ \t]+/).filter((one) => one !== "");
    const isBare = words.length === 0 && needsWords.has(verb);
    if (!verbs.has(verb) || isBare) return "Unknown Protocol Operation";
    if (text.includes("\r")) return "Parser Error";
    switch (verb) {
      case "CONNECT":
        this.#sink.connect(text);
        return undefined;
      case "PUB":
        return this.#publication(words, false);
      case "HPUB":
        return this.#publication(words, true);
      case "SUB":
        return this.#subscription(words);
      case "UNSUB":
        return this.#unsubscription(words);
      case "PING":
        this.#sink.ping();
        return undefined;
      default:
        this.#sink.pong();
        return undefined;
    }
  }

  #publication(words: readonly string[], hasHeaders: boolean): Violation | undefined {
    const sizes = hasHeaders ? 2 : 1;
    const [subject, reply] = words;
    const total = countOf(words[words.length - 1]);
    const headerBytes = hasHeaders ? countOf(words[words.length - 2]) : 0;
    const isComplete = words.length === sizes + 1 || words.length === sizes + 2;
    if (!isComplete || subject === undefined || total === undefined || headerBytes === undefined) {
      return "Parser Error";
    }
    if (headerBytes > total) return "Parser Error";
    if (total > this.#limits.payloadBytesMax) return "Maximum Payload Violation";
    this.#awaited = {
      subject,
      reply: words.length === sizes + 2 ? reply : undefined,
      headerBytes,
      messageBytes: total,
    };
    return undefined;
  }

  #subscription(words: readonly string[]): Violation | undefined {
    const [pattern, second, third] = words;
    if (pattern === undefined || second === undefined || words.length > 3) return "Parser Error";
    if (third === undefined) this.#sink.subscribe(pattern, undefined, second);
    else this.#sink.subscribe(pattern, second, third);
    return undefined;
  }

  #unsubscription(words: readonly string[]): Violation | undefined {
    const [sid, limit] = words;
    if (sid === undefined || words.length > 2) return "Parser Error";
    this.#sink.unsubscribe(sid, countOf(limit)); // As a nats-server does: -1 and x are no maximum.
    return undefined;
  }

  /** Reads the awaited payload and its CR LF. */
  #take(chunk: Buffer, at: number): number | Violation {
    const messageBytes = this.#awaited?.messageBytes ?? 0;
    const wholeBytes = messageBytes + 2;
    if (this.#pieces === undefined && chunk.length - at >= wholeBytes) {
      return this.#finish(chunk.subarray(at, at + wholeBytes)) ?? at + wholeBytes; // P3
    }
    this.#pieces ??= Buffer.allocUnsafeSlow(wholeBytes);
    const end = Math.min(chunk.length, at + wholeBytes - this.#piecesBytes);
    this.#piecesBytes += chunk.copy(this.#pieces, this.#piecesBytes, at, end);
    if (this.#piecesBytes < wholeBytes) return end;
    const whole = this.#pieces;
    this.#pieces = undefined;
    this.#piecesBytes = 0;
    return this.#finish(whole) ?? end;
  }

  #finish(whole: Buffer): Violation | undefined {
    const awaited = this.#awaited;
    this.#awaited = undefined;
    const bytes = whole.length - 2;
    if (awaited === undefined) return undefined;
    if (whole[bytes] !== carriageReturn || whole[bytes + 1] !== newline) {
      return "Unknown Protocol Operation";
    }
    const { subject, reply, headerBytes } = awaited;
    this.#sink.publish({ subject, reply, message: whole.subarray(0, bytes), headerBytes });
    return undefined;
  }
}

const verbs = new Set(["CONNECT", "PUB", "HPUB", "SUB", "UNSUB", "PING", "PONG"]);
const needsWords = new Set(["PUB", "HPUB", "SUB", "UNSUB"]);

/** A count in decimal digits; undefined for any other text. */
function countOf(word: string | undefined): number | undefined {
  return word !== undefined && /^\d{1,9}$/.test(word) ? Number(word) : undefined;
}
