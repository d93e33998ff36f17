// The store's location and credentials, from the variables and files that all S3 tools use. Of
// several sources in a line, the first that is set applies; `config` and `credentials` are files of
// ~/.aws, read for a profile (AWS_PROFILE).
//
//   endpoint   AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, `endpoint_url` of config; else Amazon's
//   region     AWS_REGION, AWS_DEFAULT_REGION, `region` of config; else us-east-1
//   keys       see credentials.ts
//
// None of these values appears in a job, a message or a log.

import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

/** The variables that stores read. Plain data, which threads pass to each other. */
export type StoreEnvironment = Readonly<Record<string, string | undefined>>;

/** The variables of this process that stores read. */
export function storeEnvironment(): StoreEnvironment {
  const own = Object.entries(process.env).filter(([name]) => name.startsWith("AWS_"));
  return { ...Object.fromEntries(own), HOME: process.env.HOME };
}

/** The settings of a profile, from `config` and `credentials`; the latter takes precedence. */
export function profileOf(env: StoreEnvironment): Readonly<Record<string, string>> {
  const folder = join(env.HOME ?? homedir(), ".aws");
  const name = env.AWS_PROFILE ?? env.AWS_DEFAULT_PROFILE ?? "default";
  const config = sectionsIn(env.AWS_CONFIG_FILE ?? join(folder, "config"));
  const secret = sectionsIn(env.AWS_SHARED_CREDENTIALS_FILE ?? join(folder, "credentials"));
  return { ...(config.get(`profile ${name}`) ?? config.get(name)), ...secret.get(name) };
}

/** The sections of an INI file by name; none if there is no such file. */
function sectionsIn(path: string): Map<string, Record<string, string>> {
  const sections = new Map<string, Record<string, string>>();
  let settings: Record<string, string> = {};
  for (const line of textAt(path).split("\n")) {
    const [, section] = /^\s*\[\s*(.+?)\s*\]/.exec(line) ?? [];
    const [, name, value = ""] = /^([^\s#;=]+)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (section !== undefined) {
      settings = {};
      sections.set(section.replace(/\s+/g, " "), settings);
    } else if (name !== undefined) settings[name] = value;
  }
  return sections;
}

function textAt(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

export interface StoreSite {
  readonly region: string;
  /** Undefined: Amazon's endpoint of the region. */
  readonly endpoint: string | undefined;
}

/** The endpoint and region of the store. Reads the profile only if a variable is missing. */
export function siteOf(env: StoreEnvironment): StoreSite {
  // An empty variable counts as not set, hence `||`.
  const endpoint = env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || undefined;
  const region = env.AWS_REGION || env.AWS_DEFAULT_REGION || undefined;
  if (endpoint !== undefined && region !== undefined) return { endpoint, region };
  const profile = profileOf(env);
  return {
    endpoint: endpoint ?? profile.endpoint_url,
    region: region ?? profile.region ?? "us-east-1",
  };
}
