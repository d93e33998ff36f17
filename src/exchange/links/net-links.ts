// The portable carrier of direct links: Node's sockets on the event loop of the thread that opened
// them. Slower than native-links.ts, as each byte is copied once more and TLS shares the thread.

import type { Socket } from "node:net";
import { connect as connectTls, createServer, type TLSSocket } from "node:tls";
import { crc32c } from "../../ports/crc32c.ts";
import { guarded } from "../../wire/http/answering.ts";
import type { DirectFrame } from "./direct-links.ts";
import {
  type ArrivedFrame,
  BrokenRule,
  decodeFarewell,
  encodeFarewell,
  encodeHeader,
  endings,
  FrameReader,
  farewellBytes,
} from "./link-frames.ts";
import type {
  IncomingConnection,
  LinkCarrier,
  LinkTls,
  OutgoingConnection,
} from "./socket-links.ts";

/**
 * Bytes waiting in a socket above which its connection ends. A window of a bridge is smaller, so
 * the limit is reached only if the other host reads nothing.
 */
const pendingBytesMax = 128 * 2 ** 20;

/** Bytes that a key of TLS may protect, about 2^23 records. Node cannot renew it. */
const keyBytesMax = 2 ** 37;

/** TLS 1.3 with a pre-shared key: OpenSSL derives it with the hash of this cipher. */
const cipher = { ciphers: "TLS_AES_128_GCM_SHA256", minVersion: "TLSv1.3" } as const;
const identity = "osiris";

export function createNetCarrier(memory: ArrayBufferLike): LinkCarrier {
  return {
    outgoing: (socket, tls, ended) => openOutgoing(memory, socket, tls, ended),
    incoming: (socket, tls, of) => openIncoming(memory, socket, tls, of),
    close: () => undefined,
  };
}

async function openOutgoing(
  memory: ArrayBufferLike,
  plain: Socket,
  { key }: LinkTls,
  ended: (reason: string) => void,
): Promise<OutgoingConnection> {
  const socket = key === undefined ? plain : await encrypted(plain, key);
  let farewell = Buffer.alloc(0);
  let isEnded = false;
  const end = (reason: string) => {
    if (!isEnded) ended(reason);
    isEnded = true;
    socket.destroy();
  };
  socket.on("data", (bytes: Buffer) => {
    farewell = Buffer.concat([farewell, bytes]).subarray(0, farewellBytes + 1);
  });
  socket.on("error", () => undefined); // It closes then, too.
  socket.on("end", () => socket.destroy());
  socket.on("close", () => end(reasonOf(socket, farewell)));
  socket.resume();
  if (socket.destroyed) end(reasonOf(socket, farewell));
  return {
    send(frame) {
      if (socket.writableLength > pendingBytesMax) end("the other host reads no frames");
      const isUsedUp = key !== undefined && socket.bytesWritten > keyBytesMax;
      if (isUsedUp) end("its TLS key is used up: a new connection replaces this one");
      if (!isEnded) writeFrame(socket, memory, frame);
    },
    end() {
      isEnded = true;
      socket.destroySoon(); // What was sent may still arrive.
    },
  };
}

function writeFrame(socket: Socket, memory: ArrayBufferLike, frame: DirectFrame): void {
  const filled = frame.pieces
    .filter(({ bytes }) => bytes > 0)
    .map(({ at, bytes }) => new Uint8Array(memory, at, bytes));
  let [bytes, crc] = [0, 0];
  for (const piece of filled) {
    bytes += piece.length;
    crc = crc32c(piece, crc);
  }
  socket.cork();
  socket.write(encodeHeader(frame, { bytes, crc }));
  for (const piece of filled) socket.write(piece);
  socket.uncork();
}

function openIncoming(
  memory: ArrayBufferLike,
  plain: Socket,
  { key, openMs }: LinkTls,
  { regions, answer, arrived, ended }: Parameters<LinkCarrier["incoming"]>[2],
): IncomingConnection {
  const reader = new FrameReader(memory, regions);
  let socket = plain;
  let isEnded = false;
  const end = (reason: string) => {
    if (!isEnded) ended(reason);
    isEnded = true;
    socket.destroySoon();
  };
  const take = (bytes: Uint8Array) => {
    if (isEnded) return;
    const frames: ArrivedFrame[] = [];
    let broken: unknown;
    try {
      reader.take(bytes, frames);
    } catch (error) {
      broken = error;
    }
    if (frames.length > 0) arrived(frames);
    if (broken === undefined || isEnded) return;
    if (!(broken instanceof BrokenRule)) throw broken;
    socket.end(encodeFarewell(broken.ending));
    end(broken.message);
  };
  const begin = () => {
    socket.on("error", () => undefined); // It closes then, too.
    socket.on("end", () => socket.destroy());
    socket.on("close", () => end(reasonOf(socket, Buffer.alloc(0))));
    socket.on("data", take);
    socket.resume();
  };
  socket.write(answer);
  if (key === undefined) {
    begin();
  } else {
    // Node decrypts connections that are emitted to a server.
    const options = { ...cipher, pskCallback: () => key, handshakeTimeout: openMs };
    const opened = (secure: TLSSocket) => {
      socket = secure;
      if (isEnded) secure.destroy();
      else begin();
    };
    const server = createServer(
      options,
      guarded(opened, (_, secure) => void secure.destroy()),
    );
    server.on("tlsClientError", (error) => end(`its TLS handshake failed: ${error.message}`));
    server.emit("connection", plain);
  }
  return {
    end() {
      if (!isEnded) socket.end(encodeFarewell("closed"));
      isEnded = true;
      socket.destroySoon();
    },
  };
}

/** The dialer's end of TLS on a connected socket. */
function encrypted(socket: Socket, key: Uint8Array): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const secure = connectTls({
      ...{ socket, ...cipher },
      pskCallback: () => ({ psk: key, identity }),
      checkServerIdentity: () => undefined, // The key is the proof.
    });
    secure.once("secureConnect", () => resolve(secure));
    secure.once("error", (error) => {
      reject(new Error(`its TLS handshake failed: ${error.message}`, { cause: error }));
    });
    secure.once("close", () => reject(new Error("it ended in its TLS handshake")));
  });
}

function reasonOf(socket: Socket, farewell: Buffer): string {
  const { errored } = socket;
  const ending = decodeFarewell(farewell);
  return ending === "cut" && errored !== null ? `it was cut: ${errored.message}` : endings[ending];
}
