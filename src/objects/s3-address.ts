// Addresses of objects in S3-compatible stores, `s3://bucket/key`, and their HTTP requests. The
// environment selects the store and the credentials, as for every S3 tool:
//
//   AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL           the store @default Amazon's, of the region
//   AWS_REGION, AWS_DEFAULT_REGION                  @default us-east-1
//   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,       credentials @default nobody: public objects
//   AWS_SESSION_TOKEN
//
// None of these values appears in a job, a message or a log. Requests are signed (Signature Version
// 4).

import { InputUnusableError } from "../errors/errors.ts";

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
    return new InputUnusableError(address, `Cannot read the data: ${address} ${why}`);
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

function environment() {
  const { env } = process;
  return {
    endpoint: env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL,
    region: env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? "us-east-1",
    accessKeyId: env.AWS_ACCESS_KEY_ID,
    secretAccessKey: env.AWS_SECRET_ACCESS_KEY,
    sessionToken: env.AWS_SESSION_TOKEN,
  };
}

/** The URL of an object; with `key` "", of the bucket. */
function urlOf(bucket: string, key: string): URL {
  const { endpoint, region } = environment();
  const path = key === "" ? "" : `/${key.split("/").map(encodeURIComponent).join("/")}`;
  if (endpoint !== undefined) return new URL(`${endpoint.replace(/\/+$/, "")}/${bucket}${path}`);
  const host = `s3.${region}.amazonaws.com`;
  // The store's wildcard certificate covers bucket names without dots only.
  return new URL(
    bucket.includes(".") ? `https://${host}/${bucket}${path}` : `https://${bucket}.${host}${path}`,
  );
}

/** The signed request for an object, or, with a query, for its bucket. */
export async function s3Request(
  address: string,
  headers: Readonly<Record<string, string>>,
  query: Readonly<Record<string, string>>,
): Promise<
  readonly [url: string, request: { readonly headers: Headers; readonly redirect: "manual" }]
> {
  const { bucket, key } = s3Parts(address);
  const isBucket = Object.keys(query).length > 0;
  const url = urlOf(bucket, isBucket ? "" : key);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const { accessKeyId, secretAccessKey, sessionToken, region } = environment();
  const redirect = "manual"; // Another region's store refuses the signature.
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    return [url.href, { headers: new Headers(headers), redirect }];
  }
  const { AwsV4Signer } = await import("aws4fetch");
  const signer = new AwsV4Signer({
    ...{ url: url.href, method: "GET", service: "s3" },
    ...{ region, accessKeyId, secretAccessKey },
    ...(sessionToken === undefined ? {} : { sessionToken }),
  });
  const signed = await signer.sign();
  // These headers stay unsigned, because proxies may change them and no store requires them signed.
  for (const [name, value] of Object.entries(headers)) signed.headers.set(name, value);
  return [signed.url.href, { headers: signed.headers, redirect }];
}

/** Characters of an error response that are searched for a code. */
const problemMax = 4096;

/** The message for an error response: the store's reason, and advice. */
export async function s3Problem(response: Response, address: string): Promise<string> {
  const { bucket } = s3Parts(address);
  const { status, headers } = response;
  const text = await response.text().catch(() => "");
  const [, code] = /<Code>(\w+)<\/Code>/.exec(text.slice(0, problemMax)) ?? [];
  const region = headers.get("x-amz-bucket-region");
  const said = `the store says ${status}${code === undefined ? "" : ` ${code}`}`;
  const advice =
    region !== null && region !== environment().region
      ? `the bucket lies in ${region}: set AWS_REGION`
      : status === 403
        ? "look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what they may read"
        : code === "NoSuchBucket"
          ? `look at the name of the bucket \`${bucket}\`, AWS_REGION and AWS_ENDPOINT_URL`
          : status === 404
            ? "look at its key; all objects below a prefix are named by a `/` at its end"
            : "look at AWS_REGION and AWS_ENDPOINT_URL";
  return `Cannot read the data file ${address}: ${said}; ${advice}`;
}
