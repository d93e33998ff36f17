// Reads a run's events from JetStream by sequence number. Needs only permission for
// $JS.API.DIRECT.GET of the stream, and leaves no state on the server.

import { NotPermittedError, RequestFailedError } from "../../src/errors/errors.ts";
import { decodeBody } from "../../src/wire/messages/body.ts";
import { headerOf } from "../../src/wire/messages/headers.ts";
import type { Transport } from "../../src/wire/messages/transport.ts";
import type { RunEvent } from "../run/state/run-events.ts";

/** Longest wait for one message. */
const answerMs = 2000;

export class StreamedEvents {
  readonly #transport: Transport;
  readonly #at: { readonly stream: string; readonly subject: string };
  /** The next sequence in the stream, and the number of the last event before it. */
  #place = 1;
  #seq = -1;

  constructor(transport: Transport, at: { readonly stream: string; readonly subject: string }) {
    this.#transport = transport;
    this.#at = at;
  }

  /**
   * Reads events from number `since` on; undefined: there is no stream, or no permission to read
   * it.
   */
  async read(since: number, most: number): Promise<readonly RunEvent[] | undefined> {
    if (since <= this.#seq) {
      this.#place = 1;
      this.#seq = -1;
    }
    const events: RunEvent[] = [];
    try {
      while (events.length < most) {
        const event = await this.#next();
        if (event === undefined) break;
        if (event.seq >= since) events.push(event);
      }
    } catch (error) {
      const isRefused = error instanceof RequestFailedError || error instanceof NotPermittedError;
      if (!isRefused) throw error;
      return events.length > 0 ? events : undefined;
    }
    return events;
  }

  async #next(): Promise<RunEvent | undefined> {
    const { stream, subject } = this.#at;
    const asked = JSON.stringify({ seq: this.#place, next_by_subj: subject });
    const frame = await this.#transport.request(
      `$JS.API.DIRECT.GET.${stream}`,
      new TextEncoder().encode(asked),
      { deadlineMs: answerMs },
    );
    const place = headerOf(frame.headers, "nats-sequence");
    if (place === undefined) return undefined; // No later event yet.
    const event = decodeBody(frame) as RunEvent;
    this.#place = Number(place) + 1;
    this.#seq = event.seq;
    return event;
  }
}
