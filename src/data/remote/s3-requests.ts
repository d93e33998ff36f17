// Requests for data in object stores: the request that reads an object, signed with the credentials
// of the environment, and the message for an error response.

import { type Credentials, chainOf } from "../../objects/credentials.ts";
import { siteOf, storeEnvironment } from "../../objects/environment.ts";
import { expired } from "../../objects/rules.ts";
import { s3Parts, signedHeaders, urlOf } from "../../objects/s3-address.ts";

/** A signed request. `onExpired`: gets other credentials for the next one. */
export interface S3Request {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Another region's store refuses the signature. */
  readonly redirect: "manual";
  onExpired(): void;
}

/** The signed request for an object. */
export async function s3Request(
  address: string,
  headers: Readonly<Record<string, string>>,
): Promise<S3Request> {
  const { bucket, key } = s3Parts(address);
  const env = storeEnvironment();
  const site = siteOf(env);
  const chain = chainOf(env);
  const credentials: Credentials | undefined = await chain.current();
  const url = urlOf(site, bucket, key);
  const signed = await signedHeaders({ method: "GET", url, headers: {} }, site, credentials);
  return {
    url: url.href,
    // The given headers stay unsigned: proxies may change them, and no store requires them signed.
    headers: { ...signed, ...headers },
    redirect: "manual",
    onExpired() {
      if (credentials !== undefined) chain.reject(credentials);
    },
  };
}

/** Characters of an error response that are searched for a code. */
const problemMax = 4096;

/** An error response: the message with the store's reason and advice. */
export interface S3Problem {
  readonly message: string;
  /** Whether other credentials may help. */
  readonly isExpired: boolean;
}

export async function s3Problem(response: Response, address: string): Promise<S3Problem> {
  const { bucket } = s3Parts(address);
  const { status, headers } = response;
  const text = await response.text().catch(() => "");
  const [, code = ""] = /<Code>(\w+)<\/Code>/.exec(text.slice(0, problemMax)) ?? [];
  const region = headers.get("x-amz-bucket-region");
  const said = `the store says ${status}${code === "" ? "" : ` ${code}`}`;
  const advice =
    region !== null && region !== siteOf(storeEnvironment()).region
      ? `the bucket lies in ${region}: set AWS_REGION`
      : status === 403
        ? "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and their permission to read"
        : code === "NoSuchBucket"
          ? `check the name of the bucket \`${bucket}\`, AWS_REGION and AWS_ENDPOINT_URL`
          : status === 404
            ? "check its key; to read all objects below a prefix, end the address with `/`"
            : "check AWS_REGION and AWS_ENDPOINT_URL";
  const message = `Cannot read the data file ${address}: ${said}; ${advice}`;
  return { message, isExpired: expired.test(code) };
}
