// Addresses of objects in S3-compatible stores, `s3://bucket/key`, their URLs, and the signature of
// a request (Signature Version 4).

import { createHash } from "node:crypto";
import { InputUnusableError } from "../errors/errors.ts";
import type { Credentials } from "./credentials.ts";
import type { StoreSite } from "./environment.ts";

/** Whether a path of a job is the address of an object, or of several. */
export function isS3(path: string): boolean {
  return /^s3:\/\//i.test(path);
}

/**
 * Valid bucket names, by the rules of S3. A bucket becomes a part of the host name or the path,
 * where any other character could direct a signed request to another host or bucket.
 */
const bucketForm = /^(?!.*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/**
 * Bucket and key of an address.
 * @throws InputUnusableError if the bucket is missing, or if bucket or key could redirect a request
 */
export function s3Parts(address: string): { readonly bucket: string; readonly key: string } {
  const [, bucket = "", key = ""] = /^s3:\/\/([^/]*)\/?(.*)$/is.exec(address) ?? [];
  const refuse = (why: string) => {
    return new InputUnusableError(address, `Cannot use the object store: ${address} ${why}`);
  };
  if (bucket === "") throw refuse("names no bucket; write s3://bucket/key");
  if (!bucketForm.test(bucket)) {
    const form = "3 to 63 lower-case letters, digits, dots and hyphens";
    throw refuse(`names no bucket, whose name has ${form}; write s3://bucket/key`);
  }
  if (key.split("/").some((part) => part === "." || part === "..")) {
    throw refuse("has a part `.` or `..` in its key, by which a request would mean another object");
  }
  return { bucket, key };
}

/**
 * The URL of an object; with `key` "", of the bucket.
 * @throws InputUnusableError if the environment's endpoint or region makes none
 */
export function urlOf({ endpoint, region }: StoreSite, bucket: string, key: string): URL {
  const path = key === "" ? "" : `/${key.split("/").map(encodeURIComponent).join("/")}`;
  const refuse = (why: string) => {
    const address = `s3://${bucket}/${key}`;
    return new InputUnusableError(address, `Cannot use the object store of ${address}: ${why}`);
  };
  if (endpoint !== undefined) {
    // Not in the message: an address may contain a password.
    if (!/^https?:\/\//i.test(endpoint) || !URL.canParse(endpoint)) {
      throw refuse("AWS_ENDPOINT_URL is no URL; write https://host or http://host:port");
    }
    return new URL(`${endpoint.replace(/\/+$/, "")}/${bucket}${path}`);
  }
  // It becomes a part of the host's name.
  if (!/^[a-z0-9-]+$/i.test(region)) throw refuse("AWS_REGION names no region");
  const host = `s3.${region}.amazonaws.com`;
  // The store's wildcard certificate covers bucket names without dots only.
  return new URL(
    bucket.includes(".") ? `https://${host}/${bucket}${path}` : `https://${bucket}.${host}${path}`,
  );
}

/** A request before it is signed. */
export interface Unsigned {
  readonly method: string;
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | undefined;
}

/**
 * The headers of a request, with its signature, which covers the SHA-256 of the body: the store
 * refuses a body that was damaged on its way. Without credentials, with the MD5 of the body.
 */
export async function signedHeaders(
  { method, url, headers, body }: Unsigned,
  { region }: StoreSite,
  credentials: Credentials | undefined,
): Promise<Record<string, string>> {
  const has = (name: string) => name in headers;
  if (credentials === undefined) {
    if (body === undefined || has("content-md5")) return { ...headers };
    return { ...headers, "content-md5": createHash("md5").update(body).digest("base64") };
  }
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  const { AwsV4Signer } = await import("aws4fetch");
  if (signingKeys.size > 16) signingKeys.clear(); // Most are of expired credentials.
  const sum = has("x-amz-content-sha256")
    ? {}
    : {
        "x-amz-content-sha256": createHash("sha256")
          .update(body ?? "")
          .digest("hex"),
      };
  const signer = new AwsV4Signer({
    ...{ url: url.href, method, service: "s3", headers: { ...headers, ...sum } },
    ...{ region, accessKeyId, secretAccessKey, cache: signingKeys },
    ...(sessionToken === undefined ? {} : { sessionToken }),
  });
  const signed = await signer.sign();
  return Object.fromEntries(signed.headers);
}

const bodySum = "x-amz-content-sha256";

/** The header by which a signature covers a body. */
export function sumHeader(body: Uint8Array = new Uint8Array()): Record<string, string> {
  return { [bodySum]: createHash("sha256").update(body).digest("hex") };
}

/** Keys that aws4fetch derives from a secret, a day and a region: five hashes of each request. */
const signingKeys = new Map<string, ArrayBuffer>();
