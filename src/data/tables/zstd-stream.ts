// Decompresses a Zstandard stream incrementally, with the original decoder in WebAssembly; zstd.ts
// handles frames of known size. The package's own stream API neither reports damage nor frees its
// memory if it is abandoned, so this code calls the WebAssembly module directly. A stream may
// consist of several frames.

import assert from "node:assert/strict";
import type { ZSTDDecoder as AnyDecoder } from "zstddec/stream";
import { CorruptFile } from "./damage.ts";
import { checkUnpacked } from "./memory-budget.ts";

/** Sizes of the decoder's input and output buffers. */
const [sourceBytes, targetBytes] = [0x2_0000, 0x4_0000];
/** Bytes of a ZSTD_inBuffer or ZSTD_outBuffer: address, size and position, 32 bits each. */
const structBytes = 12;

/** The exports of the module. Addresses and sizes are numbers. */
interface Zstd {
  readonly memory: { readonly buffer: ArrayBuffer };
  malloc(bytes: number): number;
  free(address: number): void;
  ZSTD_createDCtx(): number;
  ZSTD_freeDCtx(context: number): void;
  /** Returns a hint of the next input size: 0 at the end of a frame; negative for an error. */
  ZSTD_decompressStream(context: number, output: number, input: number): number;
}

/**
 * Decompresses the frames in `packed`. The decoder limits the window of a frame to 128 MiB; the
 * total output is limited as for a page (`checkUnpacked`). @throws CorruptFile
 */
export async function* unpackedZstd(packed: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const zstd = await loadZstd();
  const context = zstd.ZSTD_createDCtx();
  const output = zstd.malloc(2 * structBytes + sourceBytes + targetBytes);
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
        new Uint8Array(zstd.memory.buffer).set(piece, source);
        bytesIn += piece.length;
        let [used, filled] = [0, 0];
        do {
          const structs = new DataView(zstd.memory.buffer, output, 2 * structBytes);
          const given = [target, targetBytes, 0, source, piece.length, used];
          for (const [i, value] of given.entries()) structs.setUint32(4 * i, value, true);
          wanted = zstd.ZSTD_decompressStream(context, output, input);
          if (wanted < 0) throw new CorruptFile(faultOf(-wanted));
          const after = new DataView(zstd.memory.buffer, output, 2 * structBytes); // May have grown.
          [filled, used] = [after.getUint32(8, true), after.getUint32(20, true)];
          bytesOut += filled;
          checkUnpacked("it", bytesOut, bytesIn);
          if (filled > 0) yield Buffer.from(new Uint8Array(zstd.memory.buffer, target, filled));
        } while (used < piece.length || (filled === targetBytes && wanted !== 0));
      }
    }
    if (wanted !== 0) throw new CorruptFile("it ends within a frame of Zstandard");
  } finally {
    zstd.free(output);
    zstd.ZSTD_freeDCtx(context);
  }
}

/** The message for an error code of zstd (zstd_errors.h). */
function faultOf(code: number): string {
  if (code === 16) return "it looks back more than 128 MiB: pack it without zstd's `--long`";
  if (code === 32) return "it is packed with a dictionary of Zstandard: pack it without";
  if (code === 64) return "there is no memory to unpack its Zstandard";
  return `its Zstandard is damaged (error ${code} of zstd)`;
}

let loading: Promise<Zstd> | undefined;

/**
 * Loads the module. The package does not expose it, but passes it to the overridable method
 * `_init`.
 */
function loadZstd(): Promise<Zstd> {
  loading ??= (async () => {
    const { ZSTDDecoder } = await import("zstddec/stream");
    let zstd: Zstd | undefined;
    class Decoder extends ZSTDDecoder {
      override _init(result: Parameters<AnyDecoder["_init"]>[0]): void {
        super._init(result);
        // WebAssembly types exports without their signatures; `Zstd` declares the calls below.
        zstd = result.instance.exports as unknown as Zstd;
      }
    }
    await new Decoder().init();
    assert(zstd !== undefined, "the decoder is ready");
    return zstd;
  })();
  return loading;
}
