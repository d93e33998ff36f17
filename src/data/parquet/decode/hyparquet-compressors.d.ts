// The functions of the package that pages are unpacked with.

declare module "hyparquet-compressors" {
  /** All codecs, as hyparquet takes them. */
  export const compressors: Record<string, (input: Uint8Array, size: number) => Uint8Array>;
  export function decompressLz4(input: Uint8Array, size: number): Uint8Array;
  export function decompressLz4Raw(input: Uint8Array, size: number): Uint8Array;
  export function decompressZstd(input: Uint8Array, output?: Uint8Array): Uint8Array;
}
