// Parses the pasted text of a job, in YAML or JSON as in a job file.

import { parse } from "yaml";
import { longAsText, parseExactly } from "../../../../src/ports/json/exact-json.ts";

/**
 * The job, unchecked: the cluster checks it. Integers beyond 2^53 stay exact, as text.
 * @throws Error where it is neither YAML nor JSON
 */
export function jobOfText(text: string): unknown {
  const job = longAsText(parsed(text));
  if (typeof job === "object" && job !== null && !Array.isArray(job)) return job;
  throw new Error("Expected a job with `model` and `data`, in YAML or JSON");
}

function parsed(text: string): unknown {
  if (text.trimStart().startsWith("{")) {
    try {
      return parseExactly(text);
    } catch {
      // YAML has braces too, in which names need no quotes.
    }
  }
  try {
    return parse(text, { merge: true, intAsBigInt: true });
  } catch (cause) {
    const [why = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    throw new Error(`The job is neither YAML nor JSON: ${why}`, { cause });
  }
}
