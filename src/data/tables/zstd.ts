// Decompresses Zstandard with the original decoder in WebAssembly, which is twenty times faster
// than JavaScript: frames of known size, and streams. Node.js has zstd built in from version 22.15
// on, but Osiris supports older versions. The package's own API does not report damage, so this
// code calls the WebAssembly module directly.

import assert from "node:assert/strict";
import type { ZSTDDecoder as AnyDecoder } from "zstddec/stream";
import { CorruptFile } from "./damage.ts";
import { checkUnpacked } from "./memory-budget.ts";

/** Sizes of the input and output buffers of a stream. */
const [sourceBytes, targetBytes] = [0x2_0000, 0x4_0000];
/** Bytes of a ZSTD_inBuffer or ZSTD_outBuffer: address, size and position, 32 bits each. */
const structBytes = 12;

/** The exports of the module. Sizes are numbers; addresses are signed, as of any 32-bit integer. */
interface Zstd {
  readonly memory: { readonly buffer: ArrayBuffer };
  malloc(bytes: number): number;
  free(address: number): void;
  /** Returns the number of bytes in the target; negative for an error. */
  ZSTD_decompress(target: number, size: number, source: number, sourceBytes: number): number;
  ZSTD_createDCtx(): number;
  ZSTD_freeDCtx(context: number): void;
  /** Returns a hint of the next input size: 0 at the end of a frame; negative for an error. */
  ZSTD_decompressStream(context: number, output: number, input: number): number;
}

let zstd: Zstd | undefined;
let loading: Promise<Zstd> | undefined;

/**
 * Loads the decoder. Must resolve before `unpackZstd` is called. The package does not expose the
 * module, but passes it to the overridable method `_init` of the first decoder. The class keeps it
 * for other copies of this file: a process may load a rollup and modules.
 */
export function readyZstd(): Promise<Zstd> {
  loading ??= (async () => {
    const { ZSTDDecoder } = await import("zstddec/stream");
    const shared: typeof ZSTDDecoder & { osiris?: Zstd } = ZSTDDecoder;
    class Decoder extends ZSTDDecoder {
      override _init(result: Parameters<AnyDecoder["_init"]>[0]): void {
        super._init(result);
        // The exports of WebAssembly have no signatures; `Zstd` declares the functions used here.
        shared.osiris = result.instance.exports as unknown as Zstd;
      }
    }
    await new Decoder().init();
    zstd = shared.osiris;
    assert(zstd !== undefined, "the decoder is ready");
    return zstd;
  })();
  return loading;
}

/** Decompresses the frames of `packed` into `out`. @throws CorruptFile if they do not fill it */
export function unpackZstd(out: Uint8Array, packed: Uint8Array): void {
  assert(zstd !== undefined, "readyZstd has resolved");
  const source = zstd.malloc(packed.length + out.length) >>> 0;
  if (source === 0) throw new CorruptFile(faultOf(noMemory));
  try {
    const target = source + packed.length;
    new Uint8Array(zstd.memory.buffer, source).set(packed);
    const filled = zstd.ZSTD_decompress(target, out.length, source, packed.length);
    if (filled < 0) throw new CorruptFile(faultOf(-filled));
    if (filled !== out.length) {
      throw new CorruptFile(`its Zstandard has ${filled} bytes, and not ${out.length}`);
    }
    out.set(new Uint8Array(zstd.memory.buffer, target, filled)); // The memory may have grown.
  } finally {
    zstd.free(source);
  }
}

/**
 * Decompresses a stream of frames incrementally. The decoder limits the window of a frame to 128
 * MiB; the total output is limited as for a page (`checkUnpacked`). @throws CorruptFile
 */
export async function* unpackZstdStream(packed: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const decoder = await readyZstd();
  const context = decoder.ZSTD_createDCtx();
  const output = decoder.malloc(2 * structBytes + sourceBytes + targetBytes);
  const input = output + structBytes;
  const source = input + structBytes;
  const target = source + sourceBytes;
  let wanted = 0;
  let [bytesIn, bytesOut] = [0, 0];
  try {
    assert(context > 0 && output > 0, "the decoder has memory");
    for await (const chunk of packed) {
      for (let from = 0; from < chunk.length; from += sourceBytes) {
        const piece = chunk.subarray(from, from + sourceBytes);
        new Uint8Array(decoder.memory.buffer).set(piece, source);
        bytesIn += piece.length;
        let [used, filled] = [0, 0];
        do {
          const structs = new DataView(decoder.memory.buffer, output, 2 * structBytes);
          const given = [target, targetBytes, 0, source, piece.length, used];
          for (const [i, value] of given.entries()) structs.setUint32(4 * i, value, true);
          wanted = decoder.ZSTD_decompressStream(context, output, input);
          if (wanted < 0) throw new CorruptFile(faultOf(-wanted));
          // The memory may have grown.
          const after = new DataView(decoder.memory.buffer, output, 2 * structBytes);
          [filled, used] = [after.getUint32(8, true), after.getUint32(20, true)];
          bytesOut += filled;
          checkUnpacked("it", bytesOut, bytesIn);
          if (filled > 0) yield Buffer.from(new Uint8Array(decoder.memory.buffer, target, filled));
        } while (used < piece.length || (filled === targetBytes && wanted !== 0));
      }
    }
    if (wanted !== 0) throw new CorruptFile("it ends within a frame of Zstandard");
  } finally {
    decoder.free(output);
    decoder.ZSTD_freeDCtx(context);
  }
}

/** Error codes of zstd (zstd_errors.h). */
const [longWindow, otherDictionary, noMemory, moreBytes] = [16, 32, 64, 70];

/** The message for an error code of zstd. */
function faultOf(code: number): string {
  if (code === longWindow)
    return "it looks back more than 128 MiB: pack it without zstd's `--long`";
  if (code === otherDictionary)
    return "it is packed with a dictionary of Zstandard: pack it without";
  if (code === noMemory) return "there is no memory to unpack its Zstandard";
  if (code === moreBytes) return "its Zstandard has more bytes than it should";
  return `its Zstandard is damaged (error ${code} of zstd)`;
}
