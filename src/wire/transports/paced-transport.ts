// A transport that delivers a burst of frames in several turns of the event loop. The thousands of
// parts of a checkpoint arrive in one read of a socket; delivered in one turn, they would delay the
// timers and other messages of the thread.

import { FrameCorruptError } from "../../errors/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import { paced } from "../../ports/turns.ts";
import type { Frame, Transport } from "../messages/transport.ts";

/** Longest delivery of frames in one turn; heartbeats are due every 250 ms. */
const turnMs = 40;

/** `onError`: as of the transport, for errors of receivers. */
export function pacedTransport(
  inner: Transport,
  { clock, onError }: { readonly clock: Clock; readonly onError: (error: unknown) => void },
): Transport {
  const run = paced(clock, turnMs);
  return {
    get address() {
      return inner.address;
    },
    get frameBytesMax() {
      return inner.frameBytesMax;
    },
    bodyBytesMax: inner.bodyBytesMax,
    pending: () => inner.pending(),
    publish: (...frame) => inner.publish(...frame),
    subscribe(subject, receive, options) {
      let isOpen = true;
      const failed = (error: unknown) => {
        if (error instanceof FrameCorruptError) options?.onCorrupt?.();
        onError(error);
      };
      const handOver = (frame: Frame) => {
        run(() => {
          if (isOpen) receive(frame);
        }, failed);
      };
      const subscription = inner.subscribe(subject, handOver, options);
      return {
        unsubscribe() {
          isOpen = false;
          subscription.unsubscribe();
        },
      };
    },
    request: (...question) => inner.request(...question),
    flush: () => inner.flush(),
    status: () => inner.status(),
    onStatus: (tell) => inner.onStatus(tell),
    close: () => inner.close(),
  };
}
