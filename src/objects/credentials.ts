// The credentials for requests to an object store: those of the first source that has any.
//
//   the environment     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//   a profile           keys in ~/.aws/credentials or ~/.aws/config
//   the AWS SDK         @aws-sdk/credential-providers, if installed: it supports SSO and processes
//   web identity        AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, or the same of a profile
//   the container       AWS_CONTAINER_CREDENTIALS_FULL_URI, …_RELATIVE_URI
//   the machine         instance metadata (IMDSv2)
//
// If no source has credentials, requests are not signed, which suffices for public objects.
// Credentials are renewed before they expire, and when a store reports that they have expired.
// Messages name sources, never values.

import { readFileSync } from "node:fs";
import { InputUnusableError } from "../errors/errors.ts";
import { type Clock, realClock } from "../ports/clock.ts";
import { profileOf, type StoreEnvironment, siteOf } from "./environment.ts";
import { valuesOf } from "./rules.ts";

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** In milliseconds since 1970; undefined: never. */
  readonly expiresMs?: number | undefined;
  /** The name of the source, for messages. */
  readonly source: string;
}

/** Time before their expiry at which credentials are renewed. */
const renewedMs = 5 * 60_000;
/** Pause before sources are queried again, after none had credentials or a renewal failed. */
const againMs = 60_000;

/** The credentials of an environment, kept until they expire. */
export class CredentialChain {
  readonly #env: StoreEnvironment;
  readonly #clock: Clock;
  readonly #loadSdk: () => Promise<Sdk | undefined>;
  #held: Credentials | undefined;
  /** Sources are not queried before this time; undefined: they are queried at the next request. */
  #nextMs: number | undefined;
  #asking: Promise<Credentials | undefined> | undefined;

  constructor(env: StoreEnvironment, clock: Clock = realClock, loadSdk = importSdk) {
    [this.#env, this.#clock, this.#loadSdk] = [env, clock, loadSdk];
  }

  /**
   * The credentials for a request; undefined: the request is not signed.
   * @throws InputUnusableError if a source refuses permanently; other errors may be transient
   */
  async current(): Promise<Credentials | undefined> {
    const nowMs = this.#clock.date().getTime();
    const held = this.#held;
    if (this.#nextMs !== undefined && nowMs < this.#nextMs) return held;
    this.#asking ??= this.#renewed().finally(() => {
      this.#asking = undefined;
    });
    try {
      return await this.#asking;
    } catch (error) {
      // The present credentials are used until they expire.
      if (held?.expiresMs === undefined || held.expiresMs <= nowMs) throw error;
      this.#nextMs = nowMs + Math.min(againMs, (held.expiresMs - nowMs) / 2);
      return held;
    }
  }

  /** Called when a store reports expired credentials: the next request gets new ones. */
  reject(used: Credentials): void {
    if (used !== this.#held) return; // They have been renewed since then.
    this.#held = undefined;
    this.#nextMs = undefined;
  }

  async #renewed(): Promise<Credentials | undefined> {
    this.#held = await findCredentials(this.#env, this.#loadSdk);
    const nowMs = this.#clock.date().getTime();
    const { expiresMs } = this.#held ?? {};
    if (this.#held === undefined) this.#nextMs = nowMs + againMs;
    else if (expiresMs === undefined) this.#nextMs = Number.POSITIVE_INFINITY;
    // The second bound is for credentials that are valid for minutes only.
    else this.#nextMs = Math.max(expiresMs - renewedMs, nowMs + (expiresMs - nowMs) / 2);
    return this.#held;
  }
}

const chains = new Map<string, CredentialChain>();

/** The chain of an environment, shared by all stores that this thread opens. */
export function chainOf(env: StoreEnvironment): CredentialChain {
  const name = JSON.stringify(env);
  const chain = chains.get(name) ?? new CredentialChain(env);
  if (chains.size > 8) chains.clear(); // A process has one environment; tests have several.
  chains.set(name, chain);
  return chain;
}

async function findCredentials(
  env: StoreEnvironment,
  loadSdk: () => Promise<Sdk | undefined>,
): Promise<Credentials | undefined> {
  const named = keysIn(
    [env.AWS_ACCESS_KEY_ID, env.AWS_SECRET_ACCESS_KEY, env.AWS_SESSION_TOKEN],
    "the environment",
  );
  if (named !== undefined) return named;
  const profile = profileOf(env);
  const {
    aws_access_key_id: id,
    aws_secret_access_key: secret,
    aws_session_token: token,
  } = profile;
  const kept = keysIn([id, secret, token], "a profile of ~/.aws");
  if (kept !== undefined) return kept;
  const sdk = await ofSdk(await loadSdk());
  if (sdk !== undefined) return sdk;
  const tokenFile = env.AWS_WEB_IDENTITY_TOKEN_FILE ?? profile.web_identity_token_file;
  const role = env.AWS_ROLE_ARN ?? profile.role_arn;
  if (tokenFile !== undefined && role !== undefined) return ofWebIdentity(env, tokenFile, role);
  const full = env.AWS_CONTAINER_CREDENTIALS_FULL_URI;
  const relative = env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI;
  if (relative !== undefined) return ofContainer(env, `http://169.254.170.2${relative}`);
  if (full !== undefined) return ofContainer(env, full);
  return env.AWS_EC2_METADATA_DISABLED === "true" ? undefined : ofMachine(env);
}

function keysIn(
  [accessKeyId, secretAccessKey, sessionToken]: readonly (string | undefined)[],
  source: string,
): Credentials | undefined {
  if (!accessKeyId || !secretAccessKey) return undefined;
  return { accessKeyId, secretAccessKey, sessionToken: sessionToken || undefined, source };
}

/** The part of the package that this file uses. */
export interface Sdk {
  fromNodeProviderChain(): () => Promise<
    Pick<Credentials, "accessKeyId" | "secretAccessKey" | "sessionToken"> & {
      readonly expiration?: Date;
    }
  >;
}

/** The AWS SDK, if the user has installed it. */
async function importSdk(): Promise<Sdk | undefined> {
  const name = "@aws-sdk/credential-providers"; // Bundlers cannot resolve a variable.
  try {
    return (await import(name)) as Sdk;
  } catch {
    return undefined;
  }
}

/** Credentials that the AWS SDK finds; undefined: it is not installed, or finds none. */
async function ofSdk(sdk: Sdk | undefined): Promise<Credentials | undefined> {
  if (sdk === undefined) return undefined;
  try {
    const { accessKeyId, secretAccessKey, sessionToken, expiration } =
      await sdk.fromNodeProviderChain()();
    const found = keysIn([accessKeyId, secretAccessKey, sessionToken], "the AWS SDK");
    return found && { ...found, expiresMs: expiration?.getTime() };
  } catch (error) {
    if (error instanceof Error && error.name === "CredentialsProviderError") return undefined;
    throw error;
  }
}

async function ofWebIdentity(env: StoreEnvironment, file: string, role: string) {
  const source = "web identity (AWS_WEB_IDENTITY_TOKEN_FILE)";
  const { region } = siteOf(env);
  const endpoint = env.AWS_ENDPOINT_URL_STS ?? `https://sts.${region}.amazonaws.com`;
  const form = {
    ...{ Action: "AssumeRoleWithWebIdentity", Version: "2011-06-15", RoleArn: role },
    RoleSessionName: env.AWS_ROLE_SESSION_NAME ?? "osiris",
    WebIdentityToken: tokenIn(file, source),
  };
  const text = await answerOf(source, endpoint, {
    method: "POST",
    body: new URLSearchParams(form).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded" },
  });
  const of = (name: string) => valuesOf(text, name)[0];
  return lasting(
    keysIn([of("AccessKeyId"), of("SecretAccessKey"), of("SessionToken")], source),
    of("Expiration"),
    source,
  );
}

/** Hosts to which requests may be unencrypted: this machine, and the agents of ECS and EKS. */
const plainHosts =
  /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|169\.254\.170\.(2|23)|\[fd00:ec2::23\])$/;

async function ofContainer(env: StoreEnvironment, uri: string) {
  const source = "the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)";
  const { protocol, hostname } = URL.canParse(uri) ? new URL(uri) : { protocol: "", hostname: "" };
  if (protocol !== "https:" && !plainHosts.test(hostname)) {
    throw refused(source, "its address must be https, or lie on this machine");
  }
  const file = env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE;
  const token = file === undefined ? env.AWS_CONTAINER_AUTHORIZATION_TOKEN : tokenIn(file, source);
  const headers = token === undefined ? {} : { authorization: token };
  return inJson(await answerOf(source, uri, { headers }), source);
}

/** Longest wait for instance metadata: outside of a cloud, no host responds at their address. */
const metadataMs = 2000;

async function ofMachine(env: StoreEnvironment): Promise<Credentials | undefined> {
  const source = "the machine's metadata (IMDSv2)";
  const named = env.AWS_EC2_METADATA_SERVICE_ENDPOINT;
  const host = named ?? "http://169.254.169.254";
  const url = (path: string) => `${host.replace(/\/+$/, "")}/latest/${path}`;
  let token: string;
  try {
    const headers = { "x-aws-ec2-metadata-token-ttl-seconds": "21600" };
    const waitMs = named === undefined ? metadataMs : sourceMs;
    token = await answerOf(source, url("api/token"), { method: "PUT", headers }, waitMs);
  } catch {
    return undefined; // This is not a machine of a cloud.
  }
  const headers = { "x-aws-ec2-metadata-token": token };
  const roles = url("meta-data/iam/security-credentials/");
  const names = await answerOf(source, roles, { headers }).catch((error: unknown) => {
    if (error instanceof InputUnusableError) return ""; // The machine has no role.
    throw error;
  });
  const [role = ""] = names.trim().split("\n");
  if (role === "") return undefined;
  return inJson(await answerOf(source, roles + role, { headers }), source);
}

function inJson(text: string, source: string): Credentials {
  const given = JSON.parse(text) as Record<string, string | undefined>;
  const { AccessKeyId: id, SecretAccessKey: secret, Token: token, Expiration: until } = given;
  return lasting(keysIn([id, secret, token], source), until, source);
}

function lasting(
  keys: Credentials | undefined,
  until: string | undefined,
  source: string,
): Credentials {
  if (keys === undefined) throw new Error(`${source} gave no credentials`);
  return until === undefined ? keys : { ...keys, expiresMs: Date.parse(until) };
}

function tokenIn(file: string, source: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw refused(source, `the file with its token cannot be read: ${String(cause)}`);
  }
}

/** Longest wait for the response of a source. */
const sourceMs = 10_000;

/** @throws InputUnusableError if the source refuses; Error if a later request may succeed */
async function answerOf(source: string, url: string, init: RequestInit, ms = sourceMs) {
  const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(ms) }).catch((cause) => {
    throw new Error(`${source} gave no answer within ${ms} ms`, { cause });
  });
  const text = await answer.text();
  if (answer.ok) return text;
  const [code = ""] = valuesOf(text, "Code");
  const said = `it says ${answer.status}${code === "" ? "" : ` ${code}`}`;
  if (answer.status === 429 || answer.status >= 500) throw new Error(`${source}: ${said}`);
  throw refused(source, said);
}

function refused(source: string, why: string): InputUnusableError {
  const message = `Cannot get credentials for object stores from ${source}: ${why}`;
  return new InputUnusableError(source, `${message}; check the role and its trust policy`);
}
