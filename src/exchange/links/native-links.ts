// The native carrier of direct links: threads of the addon (native/links/links.h) send from and
// receive into the exchange's memory, and this event loop learns of whole frames only. Node's
// socket says the hello; then its descriptor goes to a thread.

import type { Socket } from "node:net";
import { endianness } from "node:os";
import { type Addon, loadAddon } from "../../ports/addon.ts";
import type { DirectFrame } from "./direct-links.ts";
import {
  type ArrivedFrame,
  decodeHeader,
  encodeHeader,
  endingNames,
  endings,
} from "./link-frames.ts";
import type {
  IncomingConnection,
  LinkCarrier,
  LinkTls,
  OutgoingConnection,
} from "./socket-links.ts";

/** Bytes of the buffer into which reports are drained; it holds dozens of the largest reports. */
const drainBytes = 128 * 1024;
const reportHeadBytes = 16;
const kinds = ["arrived", "opened", "ended"] as const;

/** The callbacks of one connection. */
interface Connection {
  arrived(frames: readonly ArrivedFrame[]): void;
  opened(): void;
  ended(reason: string): void;
}

/** The native carrier; undefined where this process has no addon, or no TLS and `isEncrypted`. */
export function createNativeCarrier(
  memory: ArrayBufferLike,
  isEncrypted: boolean,
): LinkCarrier | undefined {
  const addon = endianness() === "LE" && process.platform !== "win32" ? loadAddon() : undefined;
  if (addon?.openLinks === undefined) return undefined;
  if (isEncrypted && addon.hasTls?.() !== true) return undefined;
  return new NativeCarrier(addon, memory);
}

class NativeCarrier implements LinkCarrier {
  readonly #addon: Addon;
  readonly #links: unknown;
  readonly #connections = new Map<number, Connection>();
  readonly #drained = Buffer.alloc(drainBytes);
  #id = 0;

  constructor(addon: Addon, memory: ArrayBufferLike) {
    this.#addon = addon;
    this.#links = addon.openLinks?.(new Uint8Array(memory), () => {
      try {
        this.#drain();
      } catch (error) {
        // Node only warns of an error in a callback of an addon.
        queueMicrotask(() => {
          throw error;
        });
      }
    });
  }

  outgoing(
    socket: Socket,
    { key = noKey, openMs }: LinkTls,
    ended: (reason: string) => void,
  ): Promise<OutgoingConnection> {
    const addon = this.#addon;
    if (key !== noKey && addon.hasTls?.() !== true) {
      return Promise.reject(new Error("this process has no native TLS"));
    }
    const id = ++this.#id;
    const end = () => this.#end(id);
    const send = ({ pieces, ...frame }: DirectFrame) => {
      const filled = pieces.filter(({ bytes }) => bytes > 0);
      const ranges = Float64Array.from(filled.flatMap(({ at, bytes }) => [at, bytes]));
      const header = encodeHeader({ pieces, ...frame });
      if (addon.sendFrame?.(this.#links, id, header, ranges) === true) return;
      end();
      ended("the other host reads no frames");
    };
    return new Promise((resolve, reject) => {
      this.#connections.set(id, {
        arrived: () => undefined,
        opened: () => resolve({ send, end }),
        ended: (reason) => {
          end();
          reject(new Error(reason)); // Before it opened.
          ended(reason);
        },
      });
      if (addon.startSender?.(this.#links, id, descriptorOf(socket), key, openMs) !== true) {
        this.#connections.delete(id);
        reject(new Error("this host has no free thread or descriptor for it"));
      }
      socket.destroy(); // The thread has a descriptor of its own.
    });
  }

  incoming(
    socket: Socket,
    { key = noKey, openMs }: LinkTls,
    { answer, regions, arrived, ended }: Parameters<LinkCarrier["incoming"]>[2],
  ): IncomingConnection {
    const id = ++this.#id;
    const end = () => this.#end(id);
    this.#connections.set(id, {
      arrived,
      opened: () => undefined,
      ended: (reason) => {
        end();
        ended(reason);
      },
    });
    const places = [...regions].flatMap(([route, { first, bytes }]) => [route, first, bytes]);
    const descriptor = descriptorOf(socket);
    const of = [descriptor, key, openMs, answer, Float64Array.from(places)] as const;
    if (this.#addon.startReceiver?.(this.#links, id, ...of) !== true) {
      queueMicrotask(() => ended("this host has no free thread or descriptor for it"));
    }
    socket.destroy(); // The thread has a descriptor of its own.
    return { end };
  }

  close(): void {
    this.#connections.clear();
    this.#addon.closeLinks?.(this.#links);
  }

  #end(id: number): void {
    this.#connections.delete(id);
    this.#addon.stopLink?.(this.#links, id);
  }

  /** Passes on what threads have reported. A report of an ended connection is dropped. */
  #drain(): void {
    const from = this.#drained;
    for (;;) {
      const bytes = Number(this.#addon.drainLinks?.(this.#links, from));
      if (bytes === 0) return;
      let frames: ArrivedFrame[] = [];
      for (let at = 0; at < bytes; ) {
        const end = at + reportHeadBytes + from.readUInt32LE(at);
        const kind = kinds[from.readUInt32LE(at + 4)] ?? "ended";
        const id = from.readUInt32LE(at + 8);
        const content = from.subarray(at + reportHeadBytes, end);
        const ending = endingNames[from.readInt32LE(at + 12)] ?? "cut";
        at = end;
        if (kind === "arrived") {
          frames.push(decodeHeader(content).frame);
          const isLast = at >= bytes || from.readUInt32LE(at + 8) !== id;
          if (!isLast && from.readUInt32LE(at + 4) === 0) continue; // More frames of it follow.
          this.#connections.get(id)?.arrived(frames);
          frames = [];
        } else if (kind === "opened") {
          this.#connections.get(id)?.opened();
        } else {
          const text = content.length > 0 ? `it was cut: ${content.toString()}` : endings[ending];
          this.#connections.get(id)?.ended(text);
        }
      }
    }
  }
}

const noKey = new Uint8Array(0);

/** The descriptor of a connected socket, which Node does not document; -1: it has none. */
function descriptorOf(socket: Socket): number {
  const { _handle: handle } = socket as { readonly _handle?: { readonly fd?: number } | null };
  return handle?.fd ?? -1;
}
