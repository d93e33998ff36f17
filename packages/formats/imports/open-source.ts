// Opens a file of tensors; the format is recognised by the first bytes, not by the name.

import { type Disk, InputUnusableError, zipMagic } from "../../../internal.ts";
import { legacyMagic } from "../torch/read-torch-file.ts";
import { openOnnx } from "./onnx-source.ts";
import { openPyTorch } from "./pytorch-source.ts";
import { openSafetensors } from "./safetensors-source.ts";
import type { TensorSource } from "./tensor-source.ts";

/** @throws InputUnusableError where the file cannot be read, or is of no known format */
export function openSource(path: string, disk: Disk): TensorSource {
  let file: ReturnType<Disk["open"]>;
  try {
    file = disk.open(path, "read");
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.replace(/, \w+ '.*$/, "") : String(cause);
    throw new InputUnusableError(path, `Cannot read ${path}: ${why}`, { cause });
  }
  try {
    const head = new Uint8Array(16);
    const count = file.read(head, 0);
    const begins = (magic: Uint8Array) => magic.every((byte, i) => head[i] === byte);
    if (begins(zipMagic)) return openPyTorch(file, path);
    if (begins(legacyMagic)) {
      const message = `Expected ${path} in the format of PyTorch 1.6 and later, got that before it`;
      throw new InputUnusableError(path, `${message}: load it and save it again with torch.save`);
    }
    // Safetensors: a JSON header after 8 bytes with its length.
    if (count > 8 && head[8] === 0x7b) return openSafetensors(file, path);
    // ONNX: begins with field 1, the IR version, which is a small number.
    if (head[0] === 0x08 && (head[1] ?? 0) < 0x40) return openOnnx(file, path, disk);
    const message =
      `Expected ${path} to be a file of torch.save (.pt), of safetensors, or an ONNX model that ` +
      "`osiris export` wrote";
    throw new InputUnusableError(path, `${message}; its first bytes are of none of them`);
  } catch (error) {
    file.close();
    throw error;
  }
}
