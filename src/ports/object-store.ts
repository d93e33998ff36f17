// The object store port: the few requests that Osiris makes to an S3-compatible store. Objects are
// written as a whole. Only `create` depends on the present state of the store, so only `create` may
// decide which of two writers wins. Listings, If-Match and conditional multipart uploads are not
// used for that, because not every store implements them correctly (decision 45).

import { resolve } from "node:path";

/** Whether a name is an address of objects, `s3://bucket/prefix`, and not a path. */
export const isObjectAddress = (name: string): boolean => /^s3:\/\//i.test(name);

/**
 * Whether a text is a path. An address such as `gs://a` is not: it would name a directory `gs:`.
 */
export const isPlainPath = (name: string): boolean => !/^([a-z][a-z0-9+.-]+:\/\/|s3:)/i.test(name);

/** A path as absolute path, or an address without final `/`: equal names are equal places. */
export const absoluteName = (name: string): string =>
  isObjectAddress(name) ? name.replace(/\/+$/, "") : resolve(name);

/** Bytes of an object: `bytes` from byte `from` on. */
export interface ByteRange {
  readonly from: number;
  readonly bytes: number;
}

/**
 * The objects below an address. A request that fails is repeated until its deadline, as long as the
 * failure may be transient. Keys are relative to the address: lower-case names separated by `/`.
 *
 * Methods reject with StoreFailedError if the store did not respond correctly in time, and with
 * InputUnusableError if it refuses permanently (credentials, no such bucket).
 */
export interface ObjectStore {
  /** `s3://bucket/prefix`, without a `/` at its end. */
  readonly address: string;

  /**
   * Reads an object, or a range of it, which must lie within the object. Undefined: the object does
   * not exist. The caller owns the bytes.
   */
  get(key: string, range?: ByteRange): Promise<Uint8Array | undefined>;

  /** Length of an object in bytes; undefined: the object does not exist. */
  size(key: string): Promise<number | undefined>;

  /** Writes an object, and replaces an existing one. */
  put(key: string, bytes: Uint8Array): Promise<void>;

  /**
   * Writes an object if the key is free: of several callers, one succeeds. False: another object
   * has the key. After a lost response, the request is repeated; the caller then has succeeded if
   * the object has its bytes. So callers must not pass equal bytes: include the name of the writer.
   */
  create(key: string, bytes: Uint8Array): Promise<boolean>;

  /** Begins to write an object of any length. The object does not exist before `finish`. */
  upload(key: string): Upload;

  /**
   * Keys below a prefix, sorted. The list may lack new objects and have removed ones: use it to
   * find garbage, never to decide whether an object exists.
   */
  list(prefix: string): Promise<string[]>;

  /** Removes objects, if they exist. */
  remove(keys: readonly string[]): Promise<void>;

  /** Ends open requests and connections. */
  close(): Promise<void>;
}

/** An object that is being written, in parts, several of which are sent concurrently. */
export interface Upload {
  /** Appends bytes. The caller may reuse the buffer once the promise has resolved. */
  write(bytes: Uint8Array): Promise<void>;
  /** Resolves once the object exists. May be called again after a failure. */
  finish(): Promise<void>;
  /** Cancels the upload, and removes its parts. */
  discard(): Promise<void>;
}

/** A method whose results are values instead of promises. */
type Blocking<Method> = Method extends (...given: infer Given) => Promise<infer Result>
  ? (...given: Given) => Result
  : Method;

/** An upload whose calls block the thread. */
export type BlockingUpload = { readonly [Name in keyof Upload]: Blocking<Upload[Name]> };

/**
 * The blocking form of `ObjectStore`: a call returns its result, not a promise. For threads that
 * would wait anyway: devices, writers, commands, and the thread of a leader's store.
 */
export type BlockingObjectStore = {
  readonly [Name in keyof Omit<ObjectStore, "upload">]: Blocking<ObjectStore[Name]>;
} & {
  upload(key: string): BlockingUpload;
  /**
   * Opens an object for sequential or random reads. In sequential reads, the next ranges are
   * prefetched. Undefined: the object does not exist.
   */
  open(key: string): ObjectReader | undefined;
};

export interface ObjectReader {
  /** Bytes of the object. */
  readonly size: number;
  /** Reads into `bytes` from byte `at` on. Returns the number of bytes read. */
  read(bytes: Uint8Array, at: number): number;
  close(): void;
}
