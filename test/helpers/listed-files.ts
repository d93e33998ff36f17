// Which files of the repository may be binary, and which may be large, each with its reason. The
// tidy test refuses all others, so that no commit adds one unnoticed.

import { execFileSync } from "node:child_process";
import { existsSync, lstatSync, readFileSync } from "node:fs";
import { listTree } from "./tree.ts";

/** A file of more bytes must be listed. */
export const listedAboveBytes = 200_000;

/** Allowed files, and the reason. */
export interface Listed {
  readonly paths: RegExp;
  readonly reason: string;
}

/** Binary files. */
export const binaries: readonly Listed[] = [
  {
    paths: /^packages\/sharding\/bench\/networks\/cpu-(4|8|16)\.safetensors$/,
    reason: "cost networks trained with published costs: the bench's stand-in for hardware",
  },
  {
    paths:
      /^packages\/sharding\/bench\/networks\/(dreamshard-(4|8|4-no-costs)|autoshard(-half)?)\.safetensors$/,
    reason: "placement policies that the bench's figures and a test of their plans rest on",
  },
  { paths: /^docs\/pictures\/[\w-]+\.png$/, reason: "screenshots of documents" },
  { paths: /^docs\/pictures\/[\w-]+\.jsonl\.gz$/, reason: "rows that a picture is drawn from" },
  {
    paths: /^test\/fixtures\/golden\/(\w+\/tensors\/)?\w+\.bin\.gz$/,
    reason: "trainings of PyTorch, packed: tests compare ours with them",
  },
  {
    paths: /^test\/fixtures\/arrow\/[\w-]+\.(arrows?|feather)$/,
    reason: "files that pyarrow wrote: our reader has to read them",
  },
  {
    paths: /^test\/fixtures\/parquet\/(\w+\/)?[\w-]+\.parquet$/,
    reason: "files that pyarrow wrote: our reader has to read them",
  },
  {
    paths: /^test\/fixtures\/where\/[\w-]+\.(parquet|arrow)$/,
    reason: "files that pyarrow wrote, in which DuckDB looked for rows: ours have to be the same",
  },
  {
    paths: /^test\/fixtures\/pytorch\/[\w-]+\.(pt|safetensors)$/,
    reason: "models that PyTorch, DLRM and TorchRec saved: imports have to read them",
  },
  {
    paths: /^test\/fixtures\/safetensors\/rows\.safetensors$/,
    reason: "a file that the official library wrote: our reader has to read it",
  },
];

/** Files above `listedAboveBytes`, text or binary. */
export const largeFiles: readonly Listed[] = [
  {
    paths: /^packages\/sharding\/bench\/networks\/autoshard(-half)?\.safetensors$/,
    reason: "130,000 weights in float32, which hardly pack: the policy has an LSTM of two layers",
  },
  {
    paths: /^test\/fixtures\/golden\/(dlrm|wukong|wukong_fullfm)\.bin\.gz$/,
    reason: "the data, weights, gradients and losses of a whole training; packed already",
  },
];

/** A file as the lists check it. */
export interface SeenFile {
  readonly path: string;
  readonly bytes: Uint8Array;
  /**
   * Whether it is a symbolic link: git stores the path of another file, often of one machine only.
   */
  readonly isLink?: boolean;
}

/** One sentence for each binary or large file that is in no list, and for each link. */
export function unlistedOf(files: Iterable<SeenFile>): string[] {
  const found: string[] = [];
  for (const { path, bytes, isLink } of files) {
    if (isLink === true) found.push(`${path} is a link`);
    if (isBinary(bytes) && !isListed(binaries, path)) {
      found.push(`${path} is binary and not listed`);
    }
    if (bytes.length > listedAboveBytes && !isListed(largeFiles, path)) {
      found.push(`${path} has ${bytes.length} bytes and is not listed`);
    }
  }
  return found;
}

/** Whether bytes are binary: text is UTF-8 without a zero byte. */
export function isBinary(bytes: Uint8Array): boolean {
  if (bytes.includes(0)) return true;
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return false;
  } catch {
    return true;
  }
}

function isListed(list: readonly Listed[], path: string): boolean {
  return list.some(({ paths }) => paths.test(path));
}

/** The existing files that git tracks; without git, all files of the rooms and the root. */
export function committedFiles(): string[] {
  const paths = existsSync(".git") ? trackedFiles() : undefined;
  const isThere = (path: string) => lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  return (paths ?? listTree()).filter((path) => !path.endsWith(".tgz") && isThere(path));
}

function trackedFiles(): string[] | undefined {
  try {
    const options = { encoding: "utf8", maxBuffer: 2 ** 24 } as const;
    return execFileSync("git", ["ls-files", "-z"], options).split("\0").filter(Boolean);
  } catch {
    return undefined; // No git, or git does not trust the folder's owner.
  }
}

/** Reads a file of `committedFiles`. */
export function seenFile(path: string): SeenFile {
  if (lstatSync(path).isSymbolicLink()) return { path, bytes: new Uint8Array(), isLink: true };
  return { path, bytes: readFileSync(path) };
}
