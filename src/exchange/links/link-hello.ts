// How a direct link opens (docs/wire.md). The receiver greets with a nonce, the dialer answers with
// its hello, which proves that it knows the token, and the receiver proves the same in its answer:
//
//   receiver ──▶ greeting:  mark version flags · · nonce
//   dialer   ──▶ hello:     mark version flags from to · generation · run · nonce · proof
//   receiver ──▶ answer:    mark version code · · proof
//
// The token itself never travels, and a recorded hello is worth nothing, as the nonces are new in
// each. An encrypted link goes on with TLS 1.3, whose pre-shared key comes from the token and both
// nonces. Any version begins with a mark and a version, of 4 bytes each.
//
// Invariants (D3 of direct-links.ts)
//   H1. A receiver reads exactly the bytes of a hello, and parses them in order: a stranger's bytes
//       fail at the mark, and nothing after it is parsed.
//   H2. A token opens one connection.

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { Socket } from "node:net";
import { linkVersion } from "./direct-links.ts";

const marks = { greeting: 0x474c534f, hello: 0x484c534f, answer: 0x414c534f }; // "OSLG", H, A
const prefixBytes = 8;
const nonceBytes = 32;
const proofBytes = 32;
const greetingBytes = 48;
const helloBytes = 128;
const answerBytes = 48;

/** Bytes of a token. */
export const tokenBytes = 32;

/** Why a receiver refuses. It sends the reason as a number: the index in this list. */
const refusals = {
  none: "",
  mark: "these are not the bytes of a direct link",
  version: "the versions of direct links differ",
  encryption: "only one end encrypts",
  run: "the clusters or the runs differ",
  generation: "the generations differ",
  host: "the numbers of the hosts do not agree",
  token: "the token is not the one that was agreed",
  full: "too many connections are opening",
} as const;

export type Refusal = keyof typeof refusals;

const refusalNames = Object.keys(refusals) as readonly Refusal[];

/** A connection was refused, or did not open: the message says why. */
export class NotOpened extends Error {
  readonly refusal: Refusal;

  constructor(message: string, refusal: Refusal = "mark") {
    super(message);
    this.refusal = refusal;
  }
}

/** The values on which both ends must agree. */
export interface HelloPlace {
  readonly place: { readonly cluster: string; readonly run: string; readonly generation: number };
  readonly isEncrypted: boolean;
}

/** An opened connection: the pre-shared key of its TLS; the receiver has not sent its answer. */
export interface Opened {
  readonly key: Buffer;
}

/** The dialer's end of the hello. @throws NotOpened */
export async function sayHello(
  socket: Socket,
  to: HelloPlace & { readonly from: number; readonly to: number; readonly token: Uint8Array },
): Promise<Opened> {
  const hello = Buffer.alloc(helloBytes);
  writePrefix(hello, "hello", to.isEncrypted);
  const greeting = await readMarked(socket, "greeting", greetingBytes, to.isEncrypted).catch(
    (error: unknown) => {
      socket.write(hello); // The receiver sees the difference, too.
      throw error;
    },
  );
  hello.writeUInt32LE(to.from, 12);
  hello.writeUInt32LE(to.to, 16);
  hello.writeBigUInt64LE(BigInt(to.place.generation), 24);
  runOf(to.place).copy(hello, 32, 0, 32);
  randomBytes(nonceBytes).copy(hello, 64);
  proofOf(to.token, "hello", greeting, hello.subarray(0, helloBytes - proofBytes)).copy(hello, 96);
  socket.write(hello);
  const answer = await readMarked(socket, "answer", answerBytes);
  const code = refusalNames[answer.readUInt32LE(8)];
  if (code === undefined) throw refused("mark");
  if (code !== "none") throw new NotOpened(`it refused: ${refusals[code]}`, code);
  const proof = proofOf(to.token, "answer", greeting, hello, answer.subarray(0, 16));
  if (!timingSafeEqual(proof, answer.subarray(16))) {
    throw refused("token");
  }
  return { key: proofOf(to.token, "key", greeting, hello) };
}

/**
 * The receiver's end of the hello. Returns the sender's host, and the answer that its connection
 * begins with. The token of a host, `tokenOf`, is used up by `use`. @throws NotOpened
 */
export async function takeHello(
  socket: Socket,
  at: HelloPlace & {
    readonly host: number;
    tokenOf(host: number): Uint8Array | undefined;
    use(host: number): void;
  },
): Promise<Opened & { readonly host: number; readonly answer: Buffer }> {
  const greeting = Buffer.alloc(greetingBytes);
  writePrefix(greeting, "greeting", at.isEncrypted);
  randomBytes(nonceBytes).copy(greeting, 16);
  socket.write(greeting);
  const hello = await readMarked(socket, "hello", helloBytes, at.isEncrypted);
  const [host, to] = [hello.readUInt32LE(12), hello.readUInt32LE(16)];
  if (!runOf(at.place).equals(hello.subarray(32, 64))) throw refused("run");
  if (hello.readBigUInt64LE(24) !== BigInt(at.place.generation)) throw refused("generation");
  if (to !== at.host || host === at.host) throw refused("host");
  const token = at.tokenOf(host);
  if (token === undefined) throw refused("token");
  const proof = proofOf(token, "hello", greeting, hello.subarray(0, helloBytes - proofBytes));
  if (!timingSafeEqual(proof, hello.subarray(helloBytes - proofBytes))) throw refused("token");
  at.use(host); // H2
  const answer = encodeAnswer("none");
  proofOf(token, "answer", greeting, hello, answer.subarray(0, 16)).copy(answer, 16);
  return { host, answer, key: proofOf(token, "key", greeting, hello) };
}

/** An answer without proof. */
export function encodeAnswer(code: Refusal): Buffer {
  const answer = Buffer.alloc(answerBytes);
  writePrefix(answer, "answer", false);
  answer.writeUInt32LE(refusalNames.indexOf(code), 8);
  return answer;
}

function refused(code: Refusal): NotOpened {
  return new NotOpened(refusals[code], code);
}

function writePrefix(to: Buffer, mark: keyof typeof marks, isEncrypted: boolean): void {
  to.writeUInt32LE(marks[mark]);
  to.writeUInt32LE(linkVersion, 4);
  to.writeUInt32LE(isEncrypted ? 1 : 0, 8);
}

function runOf({ cluster, run }: HelloPlace["place"]): Buffer {
  return createHash("sha256")
    .update(JSON.stringify([cluster, run]))
    .digest();
}

function proofOf(token: Uint8Array, purpose: string, ...parts: readonly Uint8Array[]): Buffer {
  const hmac = createHmac("sha256", token).update(`osiris direct link ${purpose}\n`);
  for (const part of parts) hmac.update(part);
  return hmac.digest();
}

/** Reads one message of the hello. @throws NotOpened where its mark or version is wrong */
async function readMarked(
  socket: Socket,
  mark: keyof typeof marks,
  bytes: number,
  isEncrypted?: boolean,
): Promise<Buffer> {
  const prefix = await exactly(socket, prefixBytes); // H1
  if (prefix.readUInt32LE() !== marks[mark]) throw refused("mark");
  const version = prefix.readUInt32LE(4);
  if (version !== linkVersion) {
    const versions = `it has ${version}, this host ${linkVersion}`;
    throw new NotOpened(`${refusals.version}: ${versions}`, "version");
  }
  const rest = await exactly(socket, bytes - prefixBytes);
  if (isEncrypted !== undefined && (rest.readUInt32LE() === 1) !== isEncrypted) {
    throw refused("encryption");
  }
  if (socket.readableLength > 0) throw refused("mark");
  return Buffer.concat([prefix, rest]);
}

/** The next bytes of a socket. @throws NotOpened where it ends before */
function exactly(socket: Socket, bytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const end = () => {
      socket.off("readable", look).off("end", ended).off("close", ended);
    };
    const ended = () => {
      end();
      reject(new NotOpened(socket.errored?.message ?? "it ended before its hello"));
    };
    const look = () => {
      const found: Buffer | null = socket.read(bytes);
      if (found === null) return;
      end();
      if (found.length === bytes) resolve(found);
      else ended();
    };
    socket.on("readable", look).on("end", ended).on("close", ended);
    if (socket.destroyed) ended();
    else look();
  });
}
