// The streams of pages: one never-ending response of server-sent events per tab. It begins with
// `hello`, continues with the events that a reconnected page missed, and then sends new events,
// batched some times a second, and changes of the cluster's overview.
//
// Invariants
//   S1. The number of a message `events` is that of its last event: a page that reconnects with it
//       misses no event and receives none twice; or it is informed of the gap.
//   S2. A page that does not read is cut off when its buffer is full, so that its memory is
//       bounded.
//   S3. A page receives events of its own tenant only; the operator's page receives all.

import type { ServerResponse } from "node:http";
import type { Cancel, Clock } from "../../../internal.ts";
import { type ClusterWatch, changesOf, reportFor } from "./cluster-watch.ts";
import type { Visitor } from "./dashboard-options.ts";
import { type EventRing, type KeptEvent, seenTogether } from "./event-ring.ts";
import type { Hello } from "./page-api.ts";

/** Interval at which new events are sent, batched. */
const togetherMs = 200;
/** Most progress events of one run in a batch: a run emits four per second. */
const progressMax = 50;
/** Interval of comment lines, which keep a proxy from closing an idle stream. */
const heartbeatMs = 15_000;
/** Most buffered bytes of a page. S2 */
const bufferedBytesMax = 8 * 2 ** 20;
/** Most open tabs, over all browsers. */
export const streamsMax = 100;

interface Stream {
  readonly response: ServerResponse;
  readonly visitor: Visitor;
  /** Number of the last event that was sent. */
  last: number;
  /** The last sent JSON of each part of the overview. */
  readonly sent: Map<string, string>;
}

export class PageStreams {
  readonly #ring: EventRing;
  readonly #watch: ClusterWatch;
  readonly #clock: Clock;
  #hello: Pick<Hello, "epoch" | "cluster" | "version">;
  readonly #open = new Set<Stream>();
  #telling: Cancel | undefined;
  #heartbeat: Cancel | undefined;

  constructor(parts: {
    readonly ring: EventRing;
    readonly watch: ClusterWatch;
    readonly clock: Clock;
    readonly hello: Pick<Hello, "epoch" | "cluster" | "version">;
  }) {
    this.#ring = parts.ring;
    this.#watch = parts.watch;
    this.#clock = parts.clock;
    this.#hello = parts.hello;
  }

  get count(): number {
    return this.#open.size;
  }

  /**
   * Opens a page's stream, until the page closes it. `lastId`: the last id that the page received.
   */
  open(response: ServerResponse, visitor: Visitor, lastId: string | undefined): void {
    const { epoch } = this.#hello;
    const [from, number] = (lastId ?? "").split(":");
    const received = from === epoch ? Number(number) : Number.NaN;
    const isBack = Number.isSafeInteger(received) && this.#ring.after(received) !== undefined;
    const last = isBack ? received : this.#ring.last;
    const stream: Stream = { response, visitor, last, sent: new Map() };
    response.writeHead(200, {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-store",
      "x-accel-buffering": "no",
    });
    response.write("retry: 1000\n\n");
    const { tenant = null, allow } = visitor;
    const hello: Hello = { ...this.#hello, tenant, allow, isGap: !isBack };
    write(stream, "hello", JSON.stringify(hello), `${epoch}:${last}`);
    this.#open.add(stream);
    const leave = this.#watch.look();
    response.on("close", () => {
      leave();
      this.#open.delete(stream);
      if (this.#open.size === 0) this.#rest();
    });
    this.#tellStream(stream);
    this.sendReport();
    this.#beat();
  }

  /** Schedules the sending of new events. */
  tellEvents(): void {
    if (this.#open.size === 0 || this.#telling !== undefined) return;
    this.#telling = this.#clock.after(togetherMs, () => {
      this.#telling = undefined;
      for (const stream of this.#open) this.#tellStream(stream);
    });
  }

  /** Sends the changes of a new overview. */
  sendReport(): void {
    const { report } = this.#watch;
    if (report === undefined) return;
    for (const stream of this.#open) {
      const changes = changesOf(reportFor(report, stream.visitor.tenant), stream.sent);
      if (Object.keys(changes).length > 0) write(stream, "report", JSON.stringify(changes));
    }
  }

  /** Begins a new epoch, after events were lost: pages reconnect, and learn of the gap. S1 */
  restart(epoch: string): void {
    this.#hello = { ...this.#hello, epoch };
    this.close();
  }

  close(): void {
    this.#rest();
    for (const { response } of this.#open) response.end();
  }

  #tellStream(stream: Stream): void {
    const missed = this.#ring.after(stream.last);
    if (missed === undefined) {
      stream.response.destroy(); // The page reconnects, and learns of the gap.
      return;
    }
    stream.last = this.#ring.last;
    const all = missed.filter((one) => isSeenBy(one, stream.visitor));
    const thinned = seenTogether(all, progressMax);
    if (thinned.length === 0) return;
    const id = `${this.#hello.epoch}:${stream.last}`; // S1
    write(stream, "events", `[${thinned.map(({ text }) => text).join(",")}]`, id);
  }

  #beat(): void {
    this.#heartbeat ??= this.#clock.after(heartbeatMs, () => {
      this.#heartbeat = undefined;
      for (const { response } of this.#open) response.write(": still here\n\n");
      if (this.#open.size > 0) this.#beat();
    });
  }

  #rest(): void {
    this.#telling?.();
    this.#heartbeat?.();
    this.#telling = undefined;
    this.#heartbeat = undefined;
  }
}

/** Whether a viewer may see an event. S3 */
function isSeenBy({ tenant: own }: KeptEvent, { tenant }: Visitor): boolean {
  return tenant === undefined || tenant === own;
}

/** Writes a message; JSON contains no line breaks, so that one line of data holds it. */
function write({ response }: Stream, name: string, data: string, id?: string): void {
  const numbered = id === undefined ? "" : `id: ${id}\n`;
  response.write(`${numbered}event: ${name}\ndata: ${data}\n\n`);
  if (response.writableLength > bufferedBytesMax) response.destroy(); // S2
}
