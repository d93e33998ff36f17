// Environment variables for one test. The tests of a room share a process: a variable that is not
// restored would change later tests.

import type { ExecutionContext } from "ava";

/** Sets variables, or removes those with the value undefined, until the test ends. */
export function setEnvironment(
  t: ExecutionContext,
  variables: Readonly<Record<string, string | undefined>>,
): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name];
    setVariable(name, value);
    t.teardown(() => setVariable(name, before));
  }
}

function setVariable(name: string, value: string | undefined): void {
  if (value === undefined) delete process.env[name];
  else process.env[name] = value;
}
