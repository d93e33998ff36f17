// A transport whose payloads may be larger than a frame: they travel in chunks
// (src/wire/messages/chunks.ts), requests and their answers included. All connections are of this
// kind.
//
// Invariants
//   K1. A payload that fits into a frame is sent as one, unchanged.
//   K2. A frame with another checksum or place than announced was not received.

import type { Clock } from "../../ports/clock.ts";
import { bodyBytesMax, type Chunk, ChunkAssembler, chunksOf } from "../messages/chunks.ts";
import { headerBytesOf } from "../messages/headers.ts";
import type {
  Frame,
  FrameTransport,
  PublishOptions,
  RequestOptions,
  SubscribeOptions,
  Subscription,
  Transport,
} from "../messages/transport.ts";

/** Wraps a connection. `onError` is called for chunks that are corrupt. */
export function withChunks(
  inner: FrameTransport,
  { clock, onError }: { readonly clock: Clock; readonly onError: (error: unknown) => void },
): Transport {
  const assembler = new ChunkAssembler(clock);
  let receivers = 0;
  const framesOf = (payload: Uint8Array, options: PublishOptions): Chunk[] | undefined => {
    const frameBytes = payload.length + headerBytesOf(options.headers);
    if (frameBytes <= inner.frameBytesMax) return undefined; // K1
    return chunksOf(payload, options.headers, inner.frameBytesMax);
  };
  return {
    get address() {
      return inner.address;
    },
    get frameBytesMax() {
      return inner.frameBytesMax;
    },
    bodyBytesMax,
    pending: () => inner.pending(),
    publish(subject, payload, options = {}) {
      const chunks = framesOf(payload, options);
      if (chunks === undefined) return inner.publish(subject, payload, options);
      for (const chunk of chunks) {
        inner.publish(subject, chunk.payload, { ...options, headers: chunk.headers });
      }
    },
    subscribe(subject, receive, options: SubscribeOptions = {}): Subscription {
      const receiver = receivers++;
      const assemble = (frame: Frame) => {
        const whole = assembler.add(frame, receiver);
        if (whole === undefined) options.onChunk?.();
        else receive(whole);
      };
      const subscription = inner.subscribe(subject, assemble, options);
      return {
        unsubscribe() {
          subscription.unsubscribe();
          assembler.forget(receiver);
        },
      };
    },
    async request(subject, payload, options: RequestOptions) {
      const receiver = receivers++;
      const collect = (frame: Frame) => {
        try {
          return assembler.add(frame, receiver);
        } catch (error) {
          onError(error); // K2
          return undefined;
        }
      };
      const chunks = framesOf(payload, options);
      const last = chunks?.pop();
      // The last chunk alone has the reply subject, which the receiver keeps for the whole.
      for (const chunk of chunks ?? []) {
        inner.publish(subject, chunk.payload, { headers: chunk.headers });
      }
      const { headers = options.headers } = last ?? {};
      const named = headers === undefined ? {} : { headers };
      const how = { ...options, ...named, collect };
      try {
        return await inner.request(subject, last?.payload ?? payload, how);
      } finally {
        assembler.forget(receiver);
      }
    },
    flush: () => inner.flush(),
    status: () => inner.status(),
    onStatus: (tell) => inner.onStatus(tell),
    async close() {
      assembler.forget();
      await inner.close();
    },
  };
}
