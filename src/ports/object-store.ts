// The object store port: the few requests that Osiris makes to an S3-compatible store. Objects are
// written whole. Only `create` depends on what is there, and only it may decide between writers:
// no listing, no If-Match and no conditional multipart upload is trusted (decision 45).

import { resolve } from "node:path";

/** Whether the name of a store is an address of objects, `s3://bucket/prefix`, and no path. */
export const isObjectAddress = (name: string): boolean => /^s3:\/\//i.test(name);

/** Whether a text is a path; an address such as `gs://a` would name a directory `gs:`. */
export const isPlainPath = (name: string): boolean => !/^([a-z][a-z0-9+.-]+:\/\/|s3:)/i.test(name);

/** A path or an address as it names the same place for every process of this machine. */
export const absoluteName = (name: string): string =>
  isObjectAddress(name) ? name.replace(/\/+$/, "") : resolve(name);

/** Bytes of an object: `bytes` from byte `from` on. */
export interface ByteRange {
  readonly from: number;
  readonly bytes: number;
}

/**
 * The objects below an address. Each request is repeated while its failure may pass, until its
 * deadline. Keys are relative to the address: lower-case names with `/` between them.
 *
 * Methods reject with StoreFailedError where the store did not answer in time or as expected, and
 * with InputUnusableError where it refuses for good (credentials, no such bucket).
 */
export interface ObjectStore {
  /** `s3://bucket/prefix`, without a `/` at its end. */
  readonly address: string;

  /**
   * An object, or a range of it, which must lie within the object. Undefined: there is none. The
   * caller owns the bytes.
   */
  get(key: string, range?: ByteRange): Promise<Uint8Array | undefined>;

  /** Bytes of an object; undefined: there is none. */
  size(key: string): Promise<number | undefined>;

  /** Writes an object, whole, over an earlier one. */
  put(key: string, bytes: Uint8Array): Promise<void>;

  /**
   * Writes an object unless there is one: of several callers, one succeeds. False: another object
   * is there. An answer may be lost and the request repeated; then the caller has won if the object
   * has its bytes. So no two callers may pass the same bytes: put the writer's name into them.
   */
  create(key: string, bytes: Uint8Array): Promise<boolean>;

  /** Begins to write an object of any length. Nothing is there before `finish`. */
  upload(key: string): Upload;

  /**
   * Keys below a prefix, sorted. It is a hint: it may lack new objects and have removed ones. Use
   * it to find garbage, never to decide what exists.
   */
  list(prefix: string): Promise<string[]>;

  /** Removes objects; one that does not exist is no failure. */
  remove(keys: readonly string[]): Promise<void>;

  /** Ends open requests and connections. */
  close(): Promise<void>;
}

/** An object that is being written, in parts, several of which travel at once. */
export interface Upload {
  /** Appends bytes. The caller may reuse the buffer once the promise has resolved. */
  write(bytes: Uint8Array): Promise<void>;
  /** Resolves once the object is there. May be called again after it failed. */
  finish(): Promise<void>;
  /** Gives the upload up, and removes its parts. */
  discard(): Promise<void>;
}

/** A method whose results are values instead of promises. */
type Blocking<Method> = Method extends (...given: infer Given) => Promise<infer Result>
  ? (...given: Given) => Result
  : Method;

/** An upload whose calls block the thread. */
export type BlockingUpload = { readonly [Name in keyof Upload]: Blocking<Upload[Name]> };

/**
 * An object store whose calls block the calling thread, as those of a disk do, for threads that
 * wait anyway: device and writer threads, commands, the thread of a leader's store.
 */
export type BlockingObjectStore = {
  readonly [Name in keyof Omit<ObjectStore, "upload">]: Blocking<ObjectStore[Name]>;
} & {
  upload(key: string): BlockingUpload;
  /**
   * Opens an object for reading from front to back, or in leaps: while one range is used, the next
   * ones are on their way. Undefined: there is none.
   */
  open(key: string): ObjectReader | undefined;
};

/** Reads an object. */
export interface ObjectReader {
  /** Bytes of the object. */
  readonly size: number;
  /** Reads into `bytes` from byte `at` on. Returns the number of bytes read. */
  read(bytes: Uint8Array, at: number): number;
  close(): void;
}
